// Reads every clock through the vDSO in a hot loop, so that cuts and kills hit these few instructions.
// Monotonic clocks never go back.
#define _GNU_SOURCE
#include <sched.h>
#include <sys/time.h>
#include <time.h>

#include "steplog.h"

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  double last = steplog_now();
  while (steplog_done < steplog_steps) {
    double end = steplog_now() + 1e-6 * (double)steplog_pace;
    unsigned long rounds = 0;
    for (double now = 0; now < end; rounds++) {
      struct timespec monotonic, coarse, resolution;
      struct timeval day;
      unsigned cpu, node;
      STEPLOG_CHECK(!clock_gettime(CLOCK_MONOTONIC, &monotonic) && monotonic.tv_nsec < 1000000000 &&
                    monotonic.tv_nsec >= 0);
      STEPLOG_CHECK(!clock_gettime(CLOCK_REALTIME_COARSE, &coarse));
      STEPLOG_CHECK(!gettimeofday(&day, NULL) && day.tv_usec < 1000000);
      STEPLOG_CHECK(time(NULL) >= (time_t)last - 1);
      STEPLOG_CHECK(!clock_getres(CLOCK_MONOTONIC, &resolution) && resolution.tv_sec == 0);
      STEPLOG_CHECK(!getcpu(&cpu, &node) && cpu < 65536);
      now = steplog_now();
      STEPLOG_CHECK(now >= last - 0.5);  // the wall clock may be adjusted a little
      last = now;
    }
    STEPLOG_CHECK(rounds > 0);
    long pace = steplog_pace;
    steplog_pace = 0;
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
    steplog_pace = pace;
  }
  steplog_ok();
  return 0;
}
