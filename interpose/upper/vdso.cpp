// The proxy vDSO: the kernel's moves from run to run, this one does not. Upper half, any thread.
#include <asm/unistd.h>

#include "interpose/upper/clocks.h"
#include "interpose/upper/core.h"

using cropdl::seam::control;
using cropdl::upper::raw;

namespace {
using Two = long (*)(long, long);
using Three = long (*)(long, long, long);
}  // namespace

// All in one section, whose bounds core.lds gives to the suspend handler: between the load of a pointer into
// the real vDSO and the jump to it the thread must not be saved.
#define CROPDL_VDSO extern "C" __attribute__((visibility("default"), section(".text.vdso")))

CROPDL_VDSO long __vdso_clock_gettime(int clock, long time) {
  const auto& offsets = control()->clocks;
  if (offsets.shifted != 0 &&
      (clock < 0 || clock == cropdl::upper::kProcessClock || clock == cropdl::upper::kThreadClock))
    return cropdl::upper::clock_call({__NR_clock_gettime, {clock, time}});
  const auto f = reinterpret_cast<Two>(control()->vdso[0]);
  const long result = f != nullptr ? f(clock, time) : raw(__NR_clock_gettime, clock, time);
  if (offsets.shifted != 0 && result == 0)  // within this section: the time and its offset are of one run
    cropdl::upper::add(reinterpret_cast<cropdl::upper::Time*>(time),
                       cropdl::upper::wall_offset(offsets, clock));
  return result;
}
CROPDL_VDSO long __vdso_gettimeofday(long time, long zone) {
  const auto f = reinterpret_cast<Two>(control()->vdso[1]);
  return f != nullptr ? f(time, zone) : raw(__NR_gettimeofday, time, zone);
}
CROPDL_VDSO long __vdso_time(long time) {
  const auto f = reinterpret_cast<Two>(control()->vdso[2]);
  return f != nullptr ? f(time, 0) : raw(__NR_time, time);
}
CROPDL_VDSO long __vdso_getcpu(long cpu, long node, long unused) {
  const auto f = reinterpret_cast<Three>(control()->vdso[3]);
  return f != nullptr ? f(cpu, node, unused) : raw(__NR_getcpu, cpu, node, unused);
}
CROPDL_VDSO long __vdso_clock_getres(int clock, long resolution) {
  if (clock < 0 && control()->restarted != 0)
    return cropdl::upper::id_call({__NR_clock_getres, {clock, resolution}});
  const auto f = reinterpret_cast<Two>(control()->vdso[4]);
  return f != nullptr ? f(clock, resolution) : raw(__NR_clock_getres, clock, resolution);
}
