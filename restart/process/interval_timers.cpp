#include "restart/process/interval_timers.h"

#include <cerrno>

#include "base/format.h"

namespace cropdl::process {
namespace {

constexpr int64_t kSecond = 1'000'000;
constexpr __itimer_which_t kAll[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

const StoppedTimers* stopped = nullptr;

int64_t us_of(const timeval& t) { return t.tv_sec * kSecond + t.tv_usec; }
timeval timeval_of(int64_t us) { return {us / kSecond, us % kSecond}; }

}  // namespace

StoppedTimers::StoppedTimers() {
  const itimerval none{};
  for (const auto which : kAll)
    if (setitimer(which, &none, &left_[which]) != 0) left_[which] = none;
  stopped = this;
}

StoppedTimers::~StoppedTimers() {
  stopped = nullptr;
  for (const auto which : kAll)
    if (us_of(left_[which].it_value) != 0) setitimer(which, &left_[which], nullptr);
}

std::vector<IntervalTimer> StoppedTimers::list() {
  std::vector<IntervalTimer> timers;
  for (const auto which : kAll)
    if (stopped != nullptr && us_of(stopped->left_[which].it_value) != 0)
      timers.push_back(
          {which, us_of(stopped->left_[which].it_value), us_of(stopped->left_[which].it_interval)});
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
