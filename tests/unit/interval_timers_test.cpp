// links: cropdl_process
// Alarms and interval timers while a checkpoint is taken.
#include "restart/process/clocks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace cropdl::process {
namespace {

bool is_pending(int sig) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, sig) == 1;
}

// A program may set an alarm anew in each step, as a watchdog, and die of it if a step takes too long.
TEST(IntervalTimers, AnAlarmDoesNotExpireWhileACheckpointIsTaken) {
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm_only, nullptr);
  // With a longer time if the machine was so busy that the alarm had expired before the checkpoint.
  constexpr int kLongest = 20'000'000;  // us
  for (int left = 200'000;; left *= 3) {
    const itimerval alarm{{0, 0}, {left / 1'000'000, left % 1'000'000}};
    ASSERT_EQ(setitimer(ITIMER_REAL, &alarm, nullptr), 0);
    const StoppedTimers timers;
    if (is_pending(SIGALRM) && left < kLongest) {
      sigwaitinfo(&alarm_only, nullptr);
      continue;
    }
    const auto saved = StoppedTimers::list();
    ASSERT_EQ(saved.size(), 1u);
    EXPECT_EQ(saved[0].which, ITIMER_REAL);
    EXPECT_TRUE(saved[0].left > 0 && saved[0].left <= left) << saved[0].left;
    EXPECT_EQ(saved[0].interval, 0);
    usleep(static_cast<useconds_t>(left + left / 2));
    EXPECT_FALSE(is_pending(SIGALRM));
    break;
  }
  EXPECT_TRUE(StoppedTimers::list().empty());
  for (int tries = 0; !is_pending(SIGALRM) && tries < 1000; ++tries) usleep(10'000);
  EXPECT_TRUE(is_pending(SIGALRM)) << "it has to go on afterwards";
}

}  // namespace
}  // namespace cropdl::process
