#include "interpose/cuda/lower/names.h"

#include <algorithm>

#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/kept.h"
#include "interpose/seam/thread.h"

namespace cropdl::cuda {
namespace {

// `kept_number` null: there was no room for it. Under family_lock.
uint64_t number(uint64_t* kept_number, uint64_t real) {
  Kept* k = kept();
  if (!k || !kept_number) {
    one_abi::family_failed = true;
    return real;
  }
  if (!*kept_number) *kept_number = k->numbers_before + real;
  k->largest_number = std::max(k->largest_number, *kept_number);
  return *kept_number;
}

// The id of a thread's own default stream. In the heap; as many as there were threads at one time.
struct OwnNumber {
  uint64_t next;
  uint64_t thread, generation;  // the thread's record, and the record's use count
  uint64_t number;
};

// Null: the heap is full. Under family_lock.
uint64_t* number_of_own(uint64_t* list) {
  const seam::ThreadRecord* thread = seam::current_thread();
  const auto address = reinterpret_cast<uint64_t>(thread);
  OwnNumber* own = nullptr;
  for (uint64_t at = *list; at; at = reinterpret_cast<OwnNumber*>(at)->next)
    if (reinterpret_cast<OwnNumber*>(at)->thread == address) own = reinterpret_cast<OwnNumber*>(at);
  if (!own) {
    own = static_cast<OwnNumber*>(handles::heap_allocate(sizeof(OwnNumber)));
    if (!own) return nullptr;
    *own = {*list, address, thread->generation, 0};
    *list = reinterpret_cast<uint64_t>(own);
  } else if (own->generation != thread->generation) {
    own->generation = thread->generation;
    own->number = 0;
  }
  return &own->number;
}

}  // namespace

uint64_t number_of(uint64_t word, uint64_t real) {
  handles::Slot* slot = one_abi::slot_of(word);
  if (!slot) return real;
  const handles::SpinGuard guard(one_abi::family_lock);
  return number(&slot->owner[2], real);
}

uint64_t number_of_default_stream(int device, int which, uint64_t real) {
  if (!one_abi::need_family()) return real;
  const handles::SpinGuard guard(one_abi::family_lock);
  Kept* k = kept();
  uint64_t of_this_run = 0;
  if (!k || !has_number(device)) return number(&of_this_run, real);
  auto& of_device = k->default_streams[device];
  uint64_t* place = which == 0 ? &of_device.legacy : number_of_own(&of_device.own);
  return number(place, real);
}

void begin_numbers() {
  if (Kept* k = kept()) k->numbers_before = k->largest_number;
}

}  // namespace cropdl::cuda
