// See events.h. An event's owner[2] is its age at the cut in ms, plus 1; 0: none.
#include "interpose/cuda/lower/events.h"

#include <cstring>
#include <map>

#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {
namespace {

double age_of(const handles::Slot& slot) {
  double age = 0;
  memcpy(&age, &slot.owner[2], sizeof age);
  return age - 1;
}
void set_age(handles::Slot& slot, double age) {
  age += 1;
  memcpy(&slot.owner[2], &age, sizeof age);
}
bool of_before(const handles::Slot* slot) {
  return slot && (slot->flags & rt::kTouchedBefore) != 0 && slot->owner[2] != 0;
}
CUevent real_event(const handles::Slot& slot) { return reinterpret_cast<CUevent>(slot.owner[0]); }

// An event recorded now, on an idle device.
class Now {
 public:
  explicit Now(int device) : on_(device) {
    if (!on_.fine() || CROPDL_DRIVER(cuEventCreate)(&event_, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return;
    fine_ = CROPDL_DRIVER(cuEventRecord)(event_, CU_STREAM_LEGACY) == CUDA_SUCCESS &&
            CROPDL_DRIVER(cuEventSynchronize)(event_) == CUDA_SUCCESS;
  }
  ~Now() {
    if (event_) CROPDL_DRIVER(cuEventDestroy_v2)(event_);
  }
  Now(const Now&) = delete;
  bool fine() const { return fine_; }
  CUevent event() const { return event_; }

 private:
  OnDevice on_;
  CUevent event_ = nullptr;
  bool fine_ = false;
};

Error cannot_be_asked(int device) {
  return Error{
      "CUDA: when the events of device {} were recorded cannot be found out (cuEventRecord fails); ask again",
      device};
}

template <class F>
auto elapsed_time(RealFunction<F> ask, float* ms, CUevent from, CUevent to) {
  rt::Call call;
  const auto r = ask(ms, rt::real(from, kind::cudaEvent), rt::real(to, kind::cudaEvent));
  if (static_cast<int>(r) != 0 || !ms) return r;
  const handles::Slot *a = rt::slot_of(rt::word_of(from)), *b = rt::slot_of(rt::word_of(to));
  const double since_a = of_before(a) ? age_of(*a) : 0, since_b = of_before(b) ? age_of(*b) : 0;
  const bool both = of_before(a) && of_before(b);  // a restart recorded them, one after the other
  *ms = static_cast<float>((both ? 0 : *ms) + since_a - since_b);
  return r;
}

// Brings an event into the state of one recorded into a graph: nothing can be asked of it.
CUresult record_in_a_capture(CUevent event) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUresult r = CROPDL_DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
  if (r != CUDA_SUCCESS) return r;
  r = CROPDL_DRIVER(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (r == CUDA_SUCCESS) {
    r = CROPDL_DRIVER(cuEventRecord)(event, stream);
    const CUresult ended = CROPDL_DRIVER(cuStreamEndCapture)(stream, &graph);
    if (r == CUDA_SUCCESS) r = ended;
    if (graph) CROPDL_DRIVER(cuGraphDestroy)(graph);
  }
  CROPDL_DRIVER(cuStreamDestroy_v2)(stream);
  return r;
}

// No call reports that a graph's node has recorded an event. The event itself shows it, if it keeps times.
Status mark_recorded_by_graphs() {
  std::map<int, std::vector<uint64_t>> words;
  for (uint64_t word : rt::living(kind::cudaEvent)) {
    const handles::Slot& slot = *rt::slot_of(word);
    const int device = rt::device_of(slot);
    if ((slot.flags & rt::kTouched) == 0 && has_number(device)) words[device].push_back(word);
  }
  for (const auto& [device, of_device] : words) {
    const Now now(device);
    if (!now.fine()) return cannot_be_asked(device);
    float ms = 0;
    for (uint64_t word : of_device)
      if (CROPDL_DRIVER(cuEventElapsedTime)(&ms, real_event(*rt::slot_of(word)), now.event()) == CUDA_SUCCESS)
        rt::mark_object(word, rt::kTouched);
  }
  return {};
}
}  // namespace

// The library's times have 24 bits, exact only between events close in time, so ages are summed from each
// event to the next. False: no event can be recorded.
bool EventTimes::note_those_of(int device, const std::vector<handles::Slot*>& events) {
  const Now now(device);
  if (!now.fine()) return false;
  const handles::Slot* last = nullptr;
  double last_age = 0, since_restart = -1;
  for (handles::Slot* slot : events) {
    float ms = 0;
    double age = 0;
    if (of_before(slot)) {
      // A restart records events one after another; all of them stand for its beginning.
      if (since_restart < 0 &&
          CROPDL_DRIVER(cuEventElapsedTime)(&ms, real_event(*slot), now.event()) == CUDA_SUCCESS)
        since_restart = ms;
      of_this_run_.emplace_back(slot, slot->owner[2]);
      set_age(*slot, since_restart + age_of(*slot));
      continue;
    }
    if (last &&
        CROPDL_DRIVER(cuEventElapsedTime)(&ms, real_event(*last), real_event(*slot)) == CUDA_SUCCESS) {
      age = last_age - ms;
    } else if (CROPDL_DRIVER(cuEventElapsedTime)(&ms, real_event(*slot), now.event()) == CUDA_SUCCESS) {
      age = ms;
    } else {
      slot->owner[2] = 0;  // it keeps no time
      continue;
    }
    last = slot;
    last_age = age;
    set_age(*slot, age);
  }
  return true;
}

Status EventTimes::note() {
  if (Status marked = mark_recorded_by_graphs(); !marked) return marked;
  std::map<int, std::vector<handles::Slot*>> events;
  for (uint64_t word : rt::living(kind::cudaEvent)) {
    handles::Slot* slot = rt::slot_of(word);
    const int device = rt::device_of(*slot);
    slot->flags &= ~rt::kCaptured;
    if ((slot->flags & rt::kTouched) == 0 || !has_number(device)) continue;
    if (CROPDL_DRIVER(cuEventQuery)(real_event(*slot)) == CUDA_ERROR_CAPTURED_EVENT) {
      slot->flags |= rt::kCaptured;
      slot->owner[2] = 0;
    } else {
      events[device].push_back(slot);
    }
  }
  for (const auto& [device, of_device] : events)
    if (!note_those_of(device, of_device)) return cannot_be_asked(device);
  return {};
}

void EventTimes::resume() {
  for (const auto& [slot, age] : of_this_run_) slot->owner[2] = age;
  of_this_run_.clear();
}

Status record_events() {
  for (uint64_t word : rt::living(kind::cudaEvent)) {
    const handles::Slot& slot = *rt::slot_of(word);
    if ((slot.flags & rt::kTouched) == 0) continue;
    const OnDevice on(rt::device_of(slot));
    if (((slot.flags & rt::kCaptured) != 0
             ? record_in_a_capture(real_event(slot))
             : CROPDL_DRIVER(cuEventRecord)(real_event(slot), CU_STREAM_LEGACY)) != CUDA_SUCCESS)
      return Error{"cannot restart: an event cannot be recorded again (cuEventRecord fails)"};
  }
  return {};
}

void begin_event_times() {
  for (uint64_t word : rt::living(kind::cudaEvent))
    if (handles::Slot* slot = rt::slot_of(word); (slot->flags & rt::kTouched) != 0)
      slot->flags |= rt::kTouchedBefore;
}

}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

CROPDL_CALLS(elapsed_time)

}  // extern "C"
