#include "restart/process/interval_timers.h"

#include <sys/time.h>

#include <cerrno>

#include "base/format.h"

namespace cropdl::process {
namespace {

constexpr int64_t kSecond = 1'000'000;

int64_t us_of(const timeval& t) { return t.tv_sec * kSecond + t.tv_usec; }
timeval timeval_of(int64_t us) { return {us / kSecond, us % kSecond}; }

std::vector<IntervalTimer> running() {
  std::vector<IntervalTimer> found;
  for (const auto which : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) {
    itimerval value{};
    if (getitimer(which, &value) == 0 && us_of(value.it_value) != 0)
      found.push_back({which, us_of(value.it_value), us_of(value.it_interval)});
  }
  return found;
}

bool has_expired(const std::vector<IntervalTimer>& before, const std::vector<IntervalTimer>& after) {
  for (const IntervalTimer& b : before) {
    bool runs_on = false;
    for (const IntervalTimer& a : after) runs_on |= a.which == b.which && a.left <= b.left;
    if (!runs_on) return true;
  }
  return false;
}

}  // namespace

// Nobody takes a signal while the program is stopped. So the signal of a timer that has expired during the
// first look is pending at the second one, and a further one of an interval would be the same signal.
std::vector<IntervalTimer> read_interval_timers(const std::function<void()>& read_pending) {
  std::vector<IntervalTimer> before = running();
  read_pending();
  std::vector<IntervalTimer> timers = running();
  if (!has_expired(before, timers)) return timers;
  read_pending();
  return timers;
}

Status start_interval_timers(const std::vector<IntervalTimer>& timers) {
  for (const IntervalTimer& t : timers) {
    const itimerval value{timeval_of(t.interval), timeval_of(t.left)};
    if (setitimer(static_cast<__itimer_which_t>(t.which), &value, nullptr) != 0)
      return Error{"an interval timer cannot be started again: {}", errno_text(errno)};
  }
  return {};
}

}  // namespace cropdl::process
