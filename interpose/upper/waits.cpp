// Calls of the program that wait: those that the kernel never restarts after a handler (man 7 signal) are
// repeated when only the checkpoint interrupted them, and those with a mask keep SIGSYS and the suspend
// signal open. They run on the program's stack and hold nothing: a handler may leave them by longjmp.
#include <asm/unistd.h>
#include <linux/futex.h>

#include "interpose/upper/clocks.h"
#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

constexpr long kInterrupted = -4;  // EINTR

}  // namespace

// Calls that take a temporary mask: SIGSYS and the suspend signal stay open in it. They end with EINTR when a
// handler of the program ran, as natively, and go on when only the checkpoint interrupted them.
long masked_wait(const Call& c) {
  Call call = c;
  uint64_t mask;
  struct {
    const void* set;
    uint64_t size;
  } pair;
  const auto open_mask = [&mask](const void* set) {
    mask = *static_cast<const uint64_t*>(set) & ~seam::kReservedSignals;
    return &mask;
  };
  // What cannot be read is the kernel's to refuse.
  const int argument = c.nr == __NR_rt_sigsuspend ? 0
                       : c.nr == __NR_ppoll       ? 3
                       : c.nr == __NR_pselect6    ? 5
                                                  : 4;
  const auto* given = reinterpret_cast<const void*>(c.a[argument]);
  if (given != nullptr && can_be_read(given, c.nr == __NR_pselect6 ? sizeof pair : sizeof mask)) {
    if (c.nr != __NR_pselect6) {
      call.a[argument] = reinterpret_cast<long>(open_mask(given));
    } else {
      pair = *static_cast<const decltype(pair)*>(given);
      if (pair.set != nullptr && can_be_read(pair.set, sizeof mask)) pair.set = open_mask(pair.set);
      call.a[argument] = reinterpret_cast<long>(&pair);
    }
  }
  return timed_wait(call);
}

namespace {

// What is left of `total` ns that began at `since`. Another boot's clock (after a restart) may say anything.
int64_t left(int64_t total, int64_t since) {
  const int64_t gone = now() - since;
  if (gone < 0) return total;
  return gone >= total ? 0 : total - gone;
}

// nanosleep, clock_nanosleep: the kernel says what is left, and the program hears of it only if a handler
// ended the sleep.
long sleep_for(const Call& c, int request) {
  const auto* t = seam::current_thread();
  const uint32_t handlers = t->handlers;
  Call call = c;
  Time rest{};
  for (;;) {
    call.a[request + 1] = reinterpret_cast<long>(&rest);
    const long result = raw(c.nr, call.a[0], call.a[1], call.a[2], call.a[3]);
    if (result != kInterrupted) return result;
    if (is_child() || t->handlers != handlers) {
      auto* remaining = reinterpret_cast<Time*>(c.a[request + 1]);
      if (remaining != nullptr && can_be_read(remaining, sizeof rest)) *remaining = rest;
      return result;
    }
    static_assert(sizeof(Time) == 16);
    Time* const again = &rest;  // the kernel reads it before it writes what is left of it
    call.a[request] = reinterpret_cast<long>(again);
  }
}

}  // namespace

long timed_wait(const Call& c) {
  constexpr long kAbsolute = 1;  // TIMER_ABSTIME
  if (c.nr == __NR_nanosleep) return sleep_for(c, 0);
  if (c.nr == __NR_clock_nanosleep && (c.a[1] & kAbsolute) == 0) return sleep_for(c, 2);
  const auto* t = seam::current_thread();
  Call call = c;
  Time time;
  int64_t total = -1;  // ns; -1: no timeout, an absolute one, or one that the kernel counts down in place
  int timeout_argument = -1;  // of a struct timespec, or of milliseconds
  bool milliseconds = false;
  switch (c.nr) {
    case __NR_rt_sigtimedwait:
      timeout_argument = 2;
      break;
    case __NR_epoll_pwait2:
    case __NR_semtimedop:
      timeout_argument = 3;
      break;
    case __NR_poll:
      timeout_argument = 2;
      milliseconds = true;
      break;
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
      timeout_argument = 3;
      milliseconds = true;
      break;
    default:  // select, pselect6 and ppoll: man 2 select, "Linux modifies timeout"
      break;
  }
  if (milliseconds) {
    const int given = static_cast<int>(c.a[timeout_argument]);
    if (given >= 0) total = int64_t{given} * 1000000;
  } else if (timeout_argument >= 0 && c.a[timeout_argument] != 0) {
    const auto* given = reinterpret_cast<const Time*>(c.a[timeout_argument]);
    // What is wrong is the kernel's to say, and it will not wait for it.
    if (can_be_read(given, sizeof time) && given->seconds >= 0 && given->seconds < 4 * kSecond &&
        given->nanoseconds >= 0 && given->nanoseconds < kSecond)
      total = given->seconds * kSecond + given->nanoseconds;
  }
  const uint32_t handlers = t->handlers;
  const int64_t since = total >= 0 ? now() : 0;
  // Sets and results are untouched when such a call is interrupted, so it can be repeated as it stands.
  for (;;) {
    const long result = raw(call.nr, call.a[0], call.a[1], call.a[2], call.a[3], call.a[4], call.a[5]);
    if (result != kInterrupted || is_child() || t->handlers != handlers) {
      if (c.nr == __NR_rt_sigtimedwait && result > 0 && c.a[1] != 0)
        tell_sender(reinterpret_cast<siginfo_t*>(c.a[1]));
      return result;
    }
    if (total < 0) continue;
    const int64_t rest = left(total, since);
    time = {rest / kSecond, rest % kSecond};
    call.a[timeout_argument] = milliseconds ? (rest + 999999) / 1000000 : reinterpret_cast<long>(&time);
  }
}

// Only waits with a timeout come here; without one the kernel restarts them. FUTEX_WAIT's is relative, all
// others' are absolute (man 2 futex).
long futex_wait(const Call& c) {
  auto* t = seam::current_thread();
  const bool relative = (c.a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT;
  const uint32_t handlers = t->handlers;
  Time time = *reinterpret_cast<const Time*>(c.a[3]);
  const int64_t total = time.seconds > 4000000000 ? -1 : time.seconds * 1000000000 + time.nanoseconds;
  const int64_t since = relative ? now() : 0;
  long timeout = c.a[3];
  for (;;) {
    const long result = raw(c.nr, c.a[0], c.a[1], c.a[2], timeout, c.a[4], c.a[5]);
    if (result != kInterrupted || is_child() || t->handlers != handlers) return result;
    if (!relative || total < 0) continue;
    const int64_t rest = left(total, since);
    time = {rest / kSecond, rest % kSecond};
    timeout = reinterpret_cast<long>(&time);
  }
}

}  // namespace cropdl::upper
