#include "interpose/cuda/lower/names.h"

#include <algorithm>

#include "interpose/cuda/lower/kept.h"

namespace cropdl::cuda {
namespace {

uint64_t number(uint64_t* kept_number, uint64_t real) {
  Kept* k = kept();
  if (!k) return real;
  if (!*kept_number) *kept_number = k->numbers_before + real;
  k->largest_number = std::max(k->largest_number, *kept_number);
  return *kept_number;
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
  // Each thread's own is another stream: its number holds for this run.
  uint64_t of_this_run = 0;
  const bool known = k && which == 0 && device >= 0 && device < static_cast<int>(one_abi::kMaxDevices);
  return number(known ? &k->default_streams[device][which] : &of_this_run, real);
}

void begin_numbers() {
  if (Kept* k = kept()) k->numbers_before = k->largest_number;
}

}  // namespace cropdl::cuda
