#include "restart/process/clocks.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "base/time.h"
#include "interpose/seam/control_page.h"

namespace cropdl::process {
namespace {

constexpr size_t kUsageWords = sizeof(rusage) / sizeof(int64_t);
static_assert(kUsageWords == std::size(seam::ClockOffsets{}.usage[0]));
constexpr int kUsages[] = {RUSAGE_SELF, RUSAGE_CHILDREN, RUSAGE_THREAD};
constexpr size_t kMaximum = 4;          // ru_maxrss: the only word that is a maximum, not a sum
constexpr int64_t kSecond = 1'000'000;  // us

std::vector<int64_t> usage(int who) {
  rusage usage{};
  getrusage(who, &usage);
  std::vector<int64_t> words(kUsageWords);
  memcpy(words.data(), &usage, sizeof usage);
  return words;
}

// The kernel's values in this process, without offsets.
Clocks kernel_clocks() {
  Clocks c{clock_ns(CLOCK_MONOTONIC),          clock_ns(CLOCK_MONOTONIC_RAW),     clock_ns(CLOCK_BOOTTIME),
           clock_ns(CLOCK_PROCESS_CPUTIME_ID), clock_ns(CLOCK_THREAD_CPUTIME_ID), {}};
  for (const int who : kUsages) c.usage.push_back(usage(who));
  return c;
}

void add_usage(std::vector<int64_t>& words, const int64_t* before) {
  for (size_t i = 0; i < kUsageWords; ++i)
    words[i] = i == kMaximum ? std::max(words[i], before[i]) : words[i] + before[i];
  for (const size_t time : {0, 2})  // seconds and microseconds
    if (words[time + 1] >= kSecond) words[time] += 1, words[time + 1] -= kSecond;
}

constexpr __itimer_which_t kTimers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

const StoppedTimers* stopped = nullptr;

int64_t us_of(const timeval& t) { return t.tv_sec * kSecond + t.tv_usec; }
timeval timeval_of(int64_t us) { return {us / kSecond, us % kSecond}; }

}  // namespace

std::vector<int64_t> usage_of_thread(const int64_t* before) {
  std::vector<int64_t> words = usage(RUSAGE_THREAD);
  add_usage(words, before);
  return words;
}

Clocks read_clocks() {
  Clocks c = kernel_clocks();
  const auto& o = seam::control()->clocks;
  c.monotonic += o.monotonic;
  c.raw += o.raw;
  c.boottime += o.boottime;
  c.process_cpu += o.process_cpu;
  c.thread_cpu += o.thread_cpu;
  for (size_t which = 0; which < c.usage.size(); ++which) add_usage(c.usage[which], o.usage[which]);
  return c;
}

seam::ClockOffsets clock_offsets(const Clocks& saved, const Clocks& here) {
  const auto ahead = [](int64_t then, int64_t now) { return std::max<int64_t>(0, then - now); };
  seam::ClockOffsets o{1,
                       ahead(saved.monotonic, here.monotonic),
                       ahead(saved.raw, here.raw),
                       ahead(saved.boottime, here.boottime),
                       saved.process_cpu,
                       saved.thread_cpu,
                       {}};
  for (size_t which = 0; which < std::min(saved.usage.size(), std::size(o.usage)); ++which)
    for (size_t i = 0; i < std::min(saved.usage[which].size(), kUsageWords); ++i)
      o.usage[which][i] = saved.usage[which][i];
  return o;
}

void continue_clocks(const Clocks& saved) {
  seam::writable_control->clocks = clock_offsets(saved, kernel_clocks());
}

StoppedTimers::StoppedTimers() {
  const itimerval none{};
  for (const auto which : kTimers)
    if (setitimer(which, &none, &left_[which]) != 0) left_[which] = none;
  stopped = this;
}

StoppedTimers::~StoppedTimers() {
  stopped = nullptr;
  for (const auto which : kTimers)
    if (us_of(left_[which].it_value) != 0) setitimer(which, &left_[which], nullptr);
}

std::vector<IntervalTimer> StoppedTimers::list() {
  std::vector<IntervalTimer> timers;
  if (stopped == nullptr) return timers;
  for (const auto which : kTimers)
    if (const itimerval& t = stopped->left_[which]; us_of(t.it_value) != 0)
      timers.push_back({which, us_of(t.it_value), us_of(t.it_interval)});
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
