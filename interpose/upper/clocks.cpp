// Clocks that only go forward, over a restart. On another boot or machine the offsets of the control page are
// added to the kernel's times, and subtracted from absolute times to wait for. CPU time and usage continue
// from the former runs. The fast path is in vdso.cpp. UH, any thread.
#include "interpose/upper/clocks.h"

#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

// man 2 getrusage: two struct timeval, then counters. The third word after the times is a maximum.
struct Usage {
  int64_t user[2], system[2], counters[14];
};

void add_times(int64_t (&time)[2], const int64_t* more) {
  time[0] += more[0], time[1] += more[1];
  if (time[1] >= 1000000) ++time[0], time[1] -= 1000000;
}

// Returns the CPU time of a thread in former runs, all of it or the user part.
int64_t before(const seam::ThreadRecord& t, bool user) {
  const auto& o = seam::control()->clocks;
  const bool main = t.kind == seam::kMainThread;
  if (!user) return main ? o.thread_cpu : t.cpu_before;
  const int64_t* usage = main ? o.usage[2] : t.usage_before;
  return usage[0] * kSecond + usage[1] * 1000;
}

// Returns the offset of a CPU time clock of this process or of one of its threads.
int64_t work_offset(long clock) {
  const auto& o = seam::control()->clocks;
  if (is_child()) return 0;
  if (clock == kProcessClock) return o.process_cpu;
  if (clock == kThreadClock) return before(*seam::current_thread(), false);
  const int id = static_cast<int>(clock);
  if (id >= 0 || (id & 3) == 3) return 0;
  const long process = to_kernel_pid(~(id >> 3));
  const bool user = (id & 3) == 1;
  if ((id & 4) == 0) {
    if (process != 0 && process != seam::state()->kernel_pid) return 0;
    return user ? o.usage[0][0] * kSecond + o.usage[0][1] * 1000 : o.process_cpu;
  }
  if (process == 0) return before(*seam::current_thread(), user);
  const auto* s = seam::state();
  for (uint32_t i = 0; i < s->threads_high || i == 0; ++i)
    if (s->threads[i].used == seam::kLive && s->threads[i].tid == process) return before(s->threads[i], user);
  return 0;
}

int64_t offset(long clock) {
  const int64_t wall = wall_offset(seam::control()->clocks, clock);
  return wall != 0 ? wall : work_offset(clock);
}

long read_clock(const SystemCall& c) {
  const long result = raw(c.nr, to_kernel_clock(c.a[0]), c.a[1]);
  if (result == 0) add_nanoseconds(reinterpret_cast<TimeSpec*>(c.a[1]), offset(static_cast<int>(c.a[0])));
  return result;
}

// Returns the usage of former runs for `who` of getrusage(2).
const int64_t* former_usage(int who) {
  constexpr int kSelf = 0, kChildren = -1;
  const auto& usage = seam::control()->clocks.usage;
  if (who == kSelf) return usage[0];
  if (who == kChildren) return usage[1];
  const auto& t = *seam::current_thread();
  return t.kind == seam::kMainThread ? usage[2] : t.usage_before;
}

long usage_call(const SystemCall& c) {
  const long result = raw(c.nr, c.a[0], c.a[1]);
  if (result != 0 || is_child()) return result;
  const int64_t* more = former_usage(static_cast<int>(c.a[0]));
  auto* usage = reinterpret_cast<Usage*>(c.a[1]);
  add_times(usage->user, more);
  add_times(usage->system, more + 2);
  if (usage->counters[0] < more[4]) usage->counters[0] = more[4];  // ru_maxrss
  for (int i = 1; i < 14; ++i) usage->counters[i] += more[4 + i];
  return result;
}

// times() counts in hundredths of a second (USER_HZ).
long times_call(const SystemCall& c) {
  const long result = raw(c.nr, c.a[0]);
  if (failed(result)) return result;
  const auto& o = seam::control()->clocks;
  if (c.a[0] != 0 && !is_child()) {
    auto* ticks = reinterpret_cast<int64_t*>(c.a[0]);  // user, system, children's user, children's system
    for (size_t i = 0; i < 4; ++i) {
      const int64_t* more = &o.usage[i / 2][2 * (i % 2)];
      ticks[i] += more[0] * 100 + more[1] / 10000;
    }
  }
  return result + o.monotonic / (kSecond / 100);
}

// The uptime is the first word of struct sysinfo: seconds rounded up, as in kernel/sys.c (do_sysinfo).
CROPDL_OWN_FRAME long machine_call(const SystemCall& c) {
  const long result = raw(c.nr, c.a[0]);
  if (result != 0) return result;
  TimeSpec since{};
  raw(__NR_clock_gettime, kBootClock, as_word(&since));
  add_nanoseconds(&since, wall_offset(seam::control()->clocks, kBootClock));
  *reinterpret_cast<int64_t*>(c.a[0]) = since.seconds + (since.nanoseconds != 0 ? 1 : 0);
  return result;
}

}  // namespace

int64_t program_monotonic_now() {
  const Undisturbed undisturbed;
  TimeSpec t;
  raw(__NR_clock_gettime, kMonotonicClock, as_word(&t));
  return t.seconds * kSecond + t.nanoseconds + seam::control()->clocks.monotonic;
}

bool is_own_clock(long clock) {
  constexpr int kWall = 0, kWallAlarm = 8, kAtomic = 11;
  const int id = static_cast<int>(clock);
  return id != kWall && id != kWallAlarm && id != kAtomic;
}

// Used from the first run on: a cut may fall into the wait, and the wait may end on another machine.
long sleep_until(const SystemCall& c) {
  const auto* t = seam::current_thread();
  const uint32_t handlers = t->handlers;
  TimeSpec until;
  // The kernel checks clock, time and pointer: by a wait for a past time.
  {
    const Undisturbed undisturbed;
    const long clock = to_kernel_clock(c.a[0]);
    if (!copy_in(&until, c.a[2])) return raw(c.nr, clock, c.a[1], c.a[2], c.a[3]);
    TimeSpec past{until.seconds < 0 ? until.seconds : 0, until.nanoseconds};
    const long judged = raw(c.nr, clock, 1, as_word(&past), 0);
    if (judged != 0 && judged != kInterrupted) return judged;
  }
  for (;;) {
    TimeSpec now{};
    {
      const Undisturbed undisturbed;
      read_clock({__NR_clock_gettime, {c.a[0], as_word(&now)}});
    }
    const int64_t seconds = until.seconds - now.seconds;
    if (seconds < 0 || (seconds == 0 && until.nanoseconds <= now.nanoseconds)) return 0;
    TimeSpec left{seconds, 0};
    add_nanoseconds(&left, until.nanoseconds - now.nanoseconds);
    const long result = raw(c.nr, to_kernel_clock(c.a[0]), 0, as_word(&left), 0);
    if (result == kInterrupted && (is_child() || t->handlers != handlers)) return result;
    if (result != 0 && result != kInterrupted) return result;
  }
}

bool takes_clock(long nr) {
  return nr == __NR_clock_gettime || nr == __NR_getrusage || nr == __NR_times || nr == __NR_sysinfo;
}

long clock_call(const SystemCall& c) {
  if (c.nr == __NR_getrusage) return usage_call(c);
  if (c.nr == __NR_times) return times_call(c);
  return c.nr == __NR_sysinfo ? machine_call(c) : read_clock(c);
}

}  // namespace cropdl::upper
