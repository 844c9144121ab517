// The functions of the proxy vDSO (entry.S has its entries and the reason). The kernel's vDSO has another
// address in every run, the proxy's is fixed. Upper half, any thread, any FS base.
#include <asm/unistd.h>

#include "interpose/upper/clocks.h"
#include "interpose/upper/core.h"

using cropdl::seam::control;
using cropdl::upper::raw;
using Two = long (*)(long, long);
using Three = long (*)(long, long, long);

extern "C" long cropdl_vdso_clock_gettime(int clock, long time) {
  const auto& offsets = control()->clocks;
  if (offsets.shifted != 0 &&
      (clock < 0 || clock == cropdl::upper::kProcessClock || clock == cropdl::upper::kThreadClock))
    return cropdl::upper::clock_call({__NR_clock_gettime, {clock, time}});
  const auto f = reinterpret_cast<Two>(control()->vdso[0]);
  const long result = f != nullptr ? f(clock, time) : raw(__NR_clock_gettime, clock, time);
  if (offsets.shifted != 0 && result == 0)  // of the same run: a handler that interrupts restarts the call
    cropdl::upper::add_nanoseconds(reinterpret_cast<cropdl::upper::TimeSpec*>(time),
                                   cropdl::upper::wall_offset(offsets, clock));
  return result;
}
extern "C" long cropdl_vdso_gettimeofday(long time, long zone) {
  const auto f = reinterpret_cast<Two>(control()->vdso[1]);
  return f != nullptr ? f(time, zone) : raw(__NR_gettimeofday, time, zone);
}
extern "C" long cropdl_vdso_time(long time) {
  const auto f = reinterpret_cast<Two>(control()->vdso[2]);
  return f != nullptr ? f(time, 0) : raw(__NR_time, time);
}
extern "C" long cropdl_vdso_getcpu(long cpu, long node, long unused) {
  const auto f = reinterpret_cast<Three>(control()->vdso[3]);
  return f != nullptr ? f(cpu, node, unused) : raw(__NR_getcpu, cpu, node, unused);
}
extern "C" long cropdl_vdso_clock_getres(int clock, long resolution) {
  if (clock < 0 && control()->restarted != 0)
    return cropdl::upper::id_call({__NR_clock_getres, {clock, resolution}});
  const auto f = reinterpret_cast<Two>(control()->vdso[4]);
  return f != nullptr ? f(clock, resolution) : raw(__NR_clock_getres, clock, resolution);
}
