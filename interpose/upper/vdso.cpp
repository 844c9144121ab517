// The functions of the proxy vDSO (entry.S has its entries and the reason). The kernel's vDSO has another
// address in every run, the proxy's is fixed. Upper half, any thread, any FS base.
#include <asm/unistd.h>

#include "interpose/upper/clocks.h"
#include "interpose/upper/core.h"

using cropdl::seam::control;
using namespace cropdl::upper;

// By the function of the kernel's vDSO, which ignores arguments that it does not have, or by the system call.
__attribute__((always_inline)) static inline long ask_kernel(int function, long nr, long a, long b = 0,
                                                             long c = 0) {
  const auto f = reinterpret_cast<long (*)(long, long, long)>(control()->vdso[function]);
  return f != nullptr ? f(a, b, c) : raw(nr, a, b, c);
}

extern "C" long cropdl_vdso_clock_gettime(int clock, long time) {
  const auto& offsets = control()->clocks;
  if (offsets.shifted != 0 && (clock < 0 || clock == kProcessClock || clock == kThreadClock))
    return clock_call({__NR_clock_gettime, {clock, time}});
  const long result = ask_kernel(0, __NR_clock_gettime, clock, time);
  if (offsets.shifted != 0 && result == 0)  // of the same run: a handler that interrupts restarts the call
    add_nanoseconds(reinterpret_cast<TimeSpec*>(time), wall_offset(offsets, clock));
  return result;
}
extern "C" long cropdl_vdso_gettimeofday(long time, long zone) {
  return ask_kernel(1, __NR_gettimeofday, time, zone);
}
extern "C" long cropdl_vdso_time(long time) { return ask_kernel(2, __NR_time, time); }
extern "C" long cropdl_vdso_getcpu(long cpu, long node, long unused) {
  return ask_kernel(3, __NR_getcpu, cpu, node, unused);
}
extern "C" long cropdl_vdso_clock_getres(int clock, long resolution) {
  if (clock < 0 && control()->restarted != 0) return id_call({__NR_clock_getres, {clock, resolution}});
  return ask_kernel(4, __NR_clock_getres, clock, resolution);
}
