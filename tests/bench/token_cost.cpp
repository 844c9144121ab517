// Times the token of a collective (boundaries::note): what a wrapper of MPI does to count a collective, with
// and without the token. The two alternate, and the first one comes twice: its difference is the noise. One
// thread notes. Prints nanoseconds for a call: medians and quartiles over all rounds. First for a program
// that is compiled as usual, then for one with frame pointers, whose frames are found otherwise.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <vector>

#include "interpose/boundaries/token_ring.h"
#include "interpose/counting/counting.h"

namespace {

using namespace cropdl;

bool multiple;  // as the lower half's: known at run time only

// As a wrapper: a function of its own, called through a pointer, with arguments that it does not know.
__attribute__((noinline)) bool counted(counting::Record* r, uint64_t) {
  const bool began = counting::begin_unheld(r, multiple);
  counting::end();
  return began;
}
__attribute__((noinline)) bool noted(counting::Record* r, uint64_t what) {
  seam::note_caller(__builtin_frame_address(0));  // the shim's part
  const bool began = counting::begin_unheld(r, multiple);
  if (began)
    boundaries::note(boundaries::call_of(seam::kLibraryMpi, 7), what, r->identity, r->begun, multiple);
  counting::end();
  return began;
}

using Function = bool (*)(counting::Record*, uint64_t);
// As a function of the program that makes its collectives.
__attribute__((noipa)) bool reduce(Function call, counting::Record* r, int i) {
  return call(r, static_cast<uint64_t>(i)) || multiple;
}
__attribute__((noipa, optimize("no-omit-frame-pointer"))) bool reduce_with_frame_pointer(Function call,
                                                                                         counting::Record* r,
                                                                                         int i) {
  return call(r, static_cast<uint64_t>(i)) || multiple;
}

double nanoseconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec);
}

constexpr int kCalls = 20'000;  // so few that hardly any round is interrupted
__attribute__((noipa)) double time_of(Function function, counting::Record* r) {
  const volatile Function call = function;
  const double begin = nanoseconds();
  for (int i = 0; i < kCalls; ++i) reduce(call, r, i);
  return (nanoseconds() - begin) / kCalls;
}
__attribute__((noipa, optimize("no-omit-frame-pointer"))) double time_with_frame_pointers(
    Function function, counting::Record* r) {
  const volatile Function call = function;
  const double begin = nanoseconds();
  for (int i = 0; i < kCalls; ++i) reduce_with_frame_pointer(call, r, i);
  return (nanoseconds() - begin) / kCalls;
}

void print(const char* name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  std::printf("%s %.2f (%.2f to %.2f)\n", name, values[n / 2], values[n / 4], values[n * 3 / 4]);
}

void measure(double (*time)(Function, counting::Record*)) {
  counting::Record record{1, 0};
  constexpr int kRounds = 2001;
  std::vector<double> without, with, added, noise;
  for (int round = -50; round < kRounds; ++round) {  // below 0: warm-up
    const double first = time(counted, &record), noting = time(noted, &record),
                 second = time(counted, &record);
    if (round < 0) continue;
    without.push_back(first);
    with.push_back(noting);
    added.push_back(noting - (first + second) / 2);
    noise.push_back(second - first);
  }
  print("without", without);
  print("with", with);
  print("added", added);
  print("noise", noise);
}

}  // namespace

int main(int argc, char**) {
  static seam::ThreadRecord thread;
  thread.self = &thread;
  seam::by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&thread));
  multiple = argc > 1;
  boundaries::c_library_symbol = [](const char* name) {
    return reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, name));
  };
  measure(time_of);
  std::puts("with frame pointers:");
  measure(time_with_frame_pointers);
  return 0;
}
