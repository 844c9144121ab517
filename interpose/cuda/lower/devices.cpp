#include "interpose/cuda/lower/devices.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "base/format.h"
#include "base/time.h"
#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/environment.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/cuda/lower/real_libraries.h"
#include "interpose/handles/heap.h"
#include "interpose/one_abi/kinds.h"
#include "interpose/one_abi/state.h"
#include "interpose/seam/state.h"

namespace cropdl::cuda {
namespace {

// In the persistent heap: append-only.
struct DeviceFacts {
  int32_t used, major, minor, multiprocessors;
  uint64_t memory, in_use;
  char name[64];
};
struct Facts {
  int32_t driver, runtime, count, reserved;
  DeviceFacts devices[kMostDevices];
};

std::atomic<int> trouble{0};
std::atomic<bool> draining{false};
std::atomic<int64_t> begun_at{0};
bool looking;  // MAIN
IdleWatch& drain_watch() {
  static auto& watch = *new IdleWatch;
  return watch;
}
std::vector<std::string> other;  // lines of other_devices()

int attribute_of_device(CUdevice_attribute what, int device) {
  int value = 0;
  return CROPDL_DRIVER(cuDeviceGetAttribute)(&value, what, device) == CUDA_SUCCESS ? value : 0;
}

DeviceFacts facts_of_device(int device) {
  DeviceFacts f{};
  f.used = device_used(device);
  f.major = attribute_of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  f.minor = attribute_of_device(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  f.multiprocessors = attribute_of_device(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  CROPDL_DRIVER(cuDeviceGetName)(f.name, sizeof f.name - 1, device);
  size_t total = 0;
  CROPDL_DRIVER(cuDeviceTotalMem_v2)(&total, device);
  f.memory = total;
  if (f.used) {
    const OnDevice on(device);
    size_t free = 0;
    if (on.fine() && CROPDL_DRIVER(cuMemGetInfo_v2)(&free, &total) == CUDA_SUCCESS) f.in_use = total - free;
  }
  return f;
}

Facts* kept_facts() { return reinterpret_cast<Facts*>(one_abi::family->members[one_abi::kMemberDevices]); }

// Waits for all work of a device, on a thread of its own. Pending work may wait for the host, and an enqueued
// probe would make other streams wait. The thread never ends; one wait at a time.
class Waiter {
 public:
  explicit Waiter(int device) : device_(device) {
    std::thread([this] { run(); }).detach();
  }
  // Asks for all work enqueued before the call. Returns a number above 0.
  uint64_t ask() {
    const std::lock_guard lock(mutex_);
    ++asked_;
    wake_.notify_one();
    return asked_;
  }
  // Whether that work is done, and with which result.
  bool done(uint64_t asked, CUresult* result) {
    const std::lock_guard lock(mutex_);
    *result = result_;
    return done_ >= asked;
  }

 private:
  // False if the attempt was given up meanwhile, or is about to be refused.
  static bool is_wanted() {
    return (seam::control()->attention & seam::kAttentionStop) != 0 && !captures_under_way();
  }
  void run() {
    auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;  // does not disturb captures that others begin meanwhile
    CROPDL_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return done_ != asked_; });
      const uint64_t asked = asked_;
      lock.unlock();
      CUresult result = CUDA_ERROR_NOT_READY;
      if (is_wanted()) {
        const OnDevice on(device_);
        result = on.fine() ? CROPDL_DRIVER(cuCtxSynchronize)() : CUDA_ERROR_INVALID_CONTEXT;
      }
      lock.lock();
      done_ = asked;
      result_ = result;
    }
  }

  const int device_;
  std::mutex mutex_;
  std::condition_variable wake_;
  uint64_t asked_ = 0, done_ = 0;
  CUresult result_ = CUDA_SUCCESS;
};

// Made once per device; exists as long as the process.
Waiter& waiter(int device) {
  static auto& mutex = *new std::mutex;
  static Waiter* all[kMostDevices];
  const std::lock_guard lock(mutex);
  if (!all[device]) all[device] = new Waiter(device);
  return *all[device];
}

constexpr auto kHeapIsFull =
    "no memory was left for what CropDL keeps of CUDA's objects (ulimit -v?); start the program again with "
    "more";

std::string model_of(const DeviceFacts& f) {
  return formatted("{} ({} multiprocessors)", f.name, f.multiprocessors);
}

std::string whose_devices() {
  const std::string its = visible_devices_of_program();
  return its.empty() ? ""
                     : formatted(" (CUDA_VISIBLE_DEVICES={} as the program had it; set it for others)", its);
}

}  // namespace

int device_count() {
  int count = 0;
  return CROPDL_DRIVER(cuDeviceGetCount)(&count) == CUDA_SUCCESS ? std::min(count, kMostDevices) : 0;
}

bool device_used(int device) {
  unsigned flags = 0;
  int active = 0;
  return CROPDL_DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS && active != 0;
}

std::vector<int> used_devices() {
  std::vector<int> all;
  if (!driver_begun()) return all;
  for (int d = 0; d < device_count(); ++d)
    if (device_used(d)) all.push_back(d);
  return all;
}

OnDevice::OnDevice(int device) : device_(device) {
  CUcontext context = nullptr;
  retained_ = CROPDL_DRIVER(cuDevicePrimaryCtxRetain)(&context, device) == CUDA_SUCCESS;
  fine_ = retained_ && CROPDL_DRIVER(cuCtxPushCurrent_v2)(context) == CUDA_SUCCESS;
}
OnDevice::~OnDevice() {
  CUcontext was = nullptr;
  if (fine_) CROPDL_DRIVER(cuCtxPopCurrent_v2)(&was);
  if (retained_) CROPDL_DRIVER(cuDevicePrimaryCtxRelease_v2)(device_);
}

void IdleWatch::begin() {
  if (!driver_begun()) return;
  for (int d = 0; d < device_count(); ++d) asked_[d] = device_used(d) ? waiter(d).ask() : 0;
}

int IdleWatch::look() {
  for (int d = 0; d < kMostDevices; ++d) {
    CUresult result = CUDA_SUCCESS;
    if (!asked_[d]) continue;
    if (!waiter(d).done(asked_[d], &result)) return CUDA_ERROR_NOT_READY;
    if (result != CUDA_SUCCESS) return result;
    asked_[d] = 0;
  }
  return CUDA_SUCCESS;
}

void begin_drain_of_devices(int64_t since) {
  trouble = 0;
  looking = false;
  begun_at = since;
  draining = true;
}

bool devices_idle() {
  if (!looking) drain_watch().begin();
  looking = true;
  const int result = drain_watch().look();
  if (result == CUDA_SUCCESS)
    draining = false;
  else if (result != CUDA_ERROR_NOT_READY)
    trouble = result;
  return result == CUDA_SUCCESS;
}

namespace {
std::string goes_on_too_long() {
  return formatted(
      "the device has not come to its end within {} s: a kernel runs that long, or waits for the host; ask "
      "again",
      kLongestWait / 1'000'000);
}
}  // namespace

std::string awaited_device(int64_t since) {
  if (monotonic_us() - since <= kLongestWait) return "";
  const auto* s = seam::state();
  bool waits = s->threads[0].in_device_call != 0;
  for (uint32_t i = 1; i < s->threads_high; ++i)
    waits |= s->threads[i].used == seam::kLive && s->threads[i].in_device_call != 0;
  return waits ? goes_on_too_long() : "";
}

std::string idle_trouble() {
  if (trouble != 0)
    return formatted(
        "a kernel or copy on the device has failed (CUDA error {}): what the device holds is lost",
        trouble.load());
  return draining && monotonic_us() - begun_at > kLongestWait ? goes_on_too_long() : "";
}

Status note_devices() {
  if (!driver_begun()) return {};
  if (!kept_facts())
    one_abi::family->members[one_abi::kMemberDevices] =
        reinterpret_cast<uint64_t>(handles::heap_allocate(sizeof(Facts)));
  if (!kept_facts()) return Error{kHeapIsFull};
  Facts& f = *kept_facts();
  f = Facts{};
  CROPDL_DRIVER(cuDriverGetVersion)(&f.driver);
  if (opened(kCudart)) CROPDL_CUDART(cudaRuntimeGetVersion)(&f.runtime);
  f.count = device_count();
  for (int d = 0; d < f.count; ++d) f.devices[d] = facts_of_device(d);
  return {};
}

std::string noted_devices() {
  const Facts* f = one_abi::family ? kept_facts() : nullptr;
  std::map<std::string, int> models;
  for (int d = 0; f && d < f->count && d < kMostDevices; ++d)
    if (const DeviceFacts& one = f->devices[d]; one.used)
      ++models[formatted("{} (compute capability {}.{})", one.name, one.major, one.minor)];
  std::string text;
  for (const auto& [model, count] : models)
    text += (text.empty() ? "" : ", ") + (count > 1 ? formatted("{} x {}", count, model) : model);
  return text;
}

Status compare_devices() {
  const Facts* was = kept_facts();
  if (!was) return {};
  int driver = 0, runtime = 0;
  if (CROPDL_DRIVER(cuInit)(0) != CUDA_SUCCESS && was->count > 0)
    return Error{
        "cannot restart: the program uses a GPU, and there is none here (cuInit fails); restart where one "
        "is{}",
        whose_devices()};
  CROPDL_DRIVER(cuDriverGetVersion)(&driver);
  if (was->runtime) CROPDL_CUDART(cudaRuntimeGetVersion)(&runtime);
  constexpr int kMajor = 1000;
  if (runtime / kMajor != was->runtime / kMajor)
    return Error{"cannot restart: the program uses CUDA {}, and libcudart.so.13 here is of CUDA {}",
                 was->runtime / kMajor, runtime / kMajor};
  const int count = device_count();
  std::map<std::pair<std::string, std::string>, std::string> differing;  // devices, by models before and now
  for (int d = 0; d < was->count && d < kMostDevices; ++d) {
    const DeviceFacts& before = was->devices[d];
    if (!before.used) continue;
    if (d >= count)
      return Error{"cannot restart: the program uses device {}, and there are {} devices here{}", d, count,
                   whose_devices().empty() ? " (CUDA_VISIBLE_DEVICES?)" : whose_devices()};
    const DeviceFacts now = facts_of_device(d);
    if (now.major != before.major || now.minor != before.minor)
      return Error(
          "cannot restart: device {} was a {} of compute capability {}.{}, and is a {} of {}.{} here", d,
          before.name, before.major, before.minor, now.name, now.major, now.minor);
    if (before.in_use > now.memory)
      return Error{"cannot restart: the program uses {} MB of device {}, which has {} MB here",
                   before.in_use >> 20, d, now.memory >> 20};
    if (model_of(now) == model_of(before)) continue;
    std::string& devices = differing[{model_of(before), model_of(now)}];
    (devices.empty() ? devices : devices += ", ") += formatted("device {}", d);
  }
  for (const auto& [models, devices] : differing)
    other.push_back(formatted(
        "cropdl-restart: {}: {} before, {} here: the state is the same bit for bit, but libraries may now "
        "choose other kernels, which add in another order",
        devices, models.first, models.second));
  return {};
}

Status note_libraries() {
  std::string text;
  for (const RealLibrary& l : real_libraries())
    text += l.soname + '\n' + l.path + '\n' + l.version + '\n' + (l.software ? "software" : "") + '\n';
  uint64_t& kept = one_abi::family->members[one_abi::kMemberLibraries];
  handles::heap_free(reinterpret_cast<void*>(kept));
  auto* copy = static_cast<char*>(handles::heap_allocate(text.size() + 1));
  kept = reinterpret_cast<uint64_t>(copy);
  if (!copy) return Error{kHeapIsFull};
  memcpy(copy, text.c_str(), text.size() + 1);
  return {};
}

Status open_libraries() {
  const auto* kept = reinterpret_cast<const char*>(one_abi::family->members[one_abi::kMemberLibraries]);
  if (!kept) return {};
  std::istringstream text(kept);
  std::vector<RealLibrary> before;
  for (RealLibrary l; std::getline(text, l.soname);) {
    std::string software;
    std::getline(text, l.path);
    std::getline(text, l.version);
    std::getline(text, software);
    l.software = !software.empty();
    before.push_back(l);
  }
  prefer_real_libraries(before);
  for (const RealLibrary& l : before) {
    // A program that has not initialised the driver continues without one.
    if (std::string why = why_not_real(l.soname.c_str());
        !why.empty() && (kept_facts() || l.soname != kDriverName))
      return Error{"cannot restart: " + why};
    for (const RealLibrary& now : real_libraries())
      if (now.soname == l.soname && (now.version != l.version || now.software != l.software))
        other.push_back(formatted(
            "cropdl-restart: {} was {}, and is {} here: the state is the same bit for bit, but it may now "
            "compute in another order",
            l.soname, l.version.empty() ? l.path : l.version, now.version.empty() ? now.path : now.version));
  }
  return {};
}

uint64_t devices_of_image() {
  uint64_t mask = 0;
  const Facts* was = kept_facts();
  for (int d = 0; was && d < was->count && d < kMostDevices; ++d)
    if (was->devices[d].used) mask |= uint64_t{1} << d;
  return mask;
}

const std::vector<std::string>& other_devices() { return other; }

namespace {

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

}  // namespace

Status record_events() {
  if (!one_abi::tables) return {};
  for (const handles::Handle h : one_abi::tables->in_order(one_abi::kind::cudaEvent)) {
    const handles::Slot& slot = *one_abi::tables->slot(h);
    if (slot.state != handles::kLive || (slot.flags & one_abi::kTouched) == 0) continue;
    const OnDevice on(one_abi::device_of(slot));
    const auto event = reinterpret_cast<CUevent>(slot.owner[0]);
    if (((slot.flags & one_abi::kCaptured) != 0
             ? record_in_a_capture(event)
             : CROPDL_DRIVER(cuEventRecord)(event, CU_STREAM_LEGACY)) != CUDA_SUCCESS)
      return Error{"cannot restart: an event cannot be recorded again (cuEventRecord fails)"};
  }
  return {};
}

}  // namespace cropdl::cuda
