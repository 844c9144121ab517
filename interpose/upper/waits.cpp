// Calls of the program that wait or take long. Those that the kernel never restarts after a handler (man 7
// signal) are repeated if only the checkpoint interrupted them. Temporary masks keep SIGSYS and the suspend
// signal unblocked. They run on the program's stack without resources: a handler may leave them by longjmp.
#include <asm/unistd.h>
#include <linux/futex.h>

#include "interpose/upper/clocks.h"
#include "interpose/upper/core.h"

namespace cropdl::upper {

void leave_out(uint64_t signals, uint64_t* copy, long* set) {
  if (*set == 0 || !copy_in(copy, *set)) return;
  *copy &= ~signals;
  *set = as_word(copy);
}

// Calls with a temporary mask, SIGSYS and the suspend signal unblocked in it. A call ends with EINTR only if
// a handler of the program ran, which finds the mask in the thread's record (mask_before).
long masked_wait(const SystemCall& c) {
  SystemCall call = c;
  uint64_t mask;
  struct {
    long set, size;
  } pair;
  long* set = &pair.set;
  const int argument = c.nr == __NR_rt_sigsuspend ? 0
                       : c.nr == __NR_ppoll       ? 3
                       : c.nr == __NR_pselect6    ? 5
                                                  : 4;
  if (c.nr != __NR_pselect6)
    set = &call.a[argument];
  else if (copy_in(&pair, c.a[argument]))
    call.a[argument] = as_word(&pair);
  else
    return timed_wait_of_copy(&call);
  leave_out(seam::kReservedSignals, &mask, set);
  auto* t = seam::current_thread();
  const bool is_masked = *set == as_word(&mask);
  t->wait_mask = is_masked ? mask : 0;
  t->masked_wait = is_masked ? static_cast<uint64_t>(call.a[argument]) : 0;
  return timed_wait_of_copy(&call);
}

namespace {

// Returns the rest of `total` ns since `since`. After a restart on another boot the clock may have any value.
int64_t left(int64_t total, int64_t since) {
  const int64_t gone = program_monotonic_now() - since;
  if (gone < 0) return total;
  return gone >= total ? 0 : total - gone;
}

TimeSpec as_time(int64_t nanoseconds) { return {nanoseconds / kSecond, nanoseconds % kSecond}; }

// nanosleep, clock_nanosleep: the kernel reports the rest. The program gets it if a handler ended the sleep.
CROPDL_OWN_FRAME long sleep_for(SystemCall& call, int request) {
  const auto* t = seam::current_thread();
  const uint32_t handlers = t->handlers;
  const long told = call.a[request + 1];
  TimeSpec rest{};
  call.a[request + 1] = as_word(&rest);
  for (;;) {
    const long result = pass_on(call);
    if (result != kInterrupted) return result;
    if (is_child() || t->handlers != handlers)
      return told == 0 || copy_out(told, rest) ? result : kBadAddress;
    call.a[request] = as_word(&rest);  // the kernel reads it before it writes the rest
  }
}

// All other waits; repeated for the rest of their timeout. select, pselect6 and ppoll write the rest to it
// (man 2 select, "Linux modifies timeout"), except with personality STICKY_TIMEOUTS or where they cannot
// write. So the kernel gets a copy.
CROPDL_OWN_FRAME long repeated_wait(SystemCall& call) {
  constexpr long kOnlyTell = 0xffffffff, kStickyTimeouts = 0x4000000;
  const long nr = call.nr;
  const bool counts_down = nr == __NR_select || nr == __NR_pselect6 || nr == __NR_ppoll;
  const bool milliseconds = nr == __NR_poll || nr == __NR_epoll_wait || nr == __NR_epoll_pwait;
  const int64_t unit = nr == __NR_select ? 1000 : 1;  // ns; a struct timeval has microseconds
  int argument = 0;                                   // the timeout; 0: none
  if (nr == __NR_poll || nr == __NR_ppoll || nr == __NR_rt_sigtimedwait)
    argument = 2;
  else if (milliseconds || nr == __NR_epoll_pwait2 || nr == __NR_semtimedop)
    argument = 3;
  else if (counts_down)
    argument = 4;
  const long given = call.a[argument];
  uint64_t wanted;
  if (nr == __NR_rt_sigtimedwait) leave_out(kSuspend, &wanted, &call.a[0]);
  TimeSpec time{};
  int64_t total = -1;  // ns; -1: no timeout, an absolute one, or one that the kernel refuses
  if (milliseconds) {
    if (static_cast<int>(given) >= 0) total = int64_t{static_cast<int>(given)} * 1000000;
  } else if (argument != 0 && given != 0 && copy_in(&time, given) && time.seconds >= 0 &&
             time.nanoseconds >= 0 && time.nanoseconds < kSecond / unit) {
    total = nanoseconds({time.seconds, time.nanoseconds * unit});
    call.a[argument] = as_word(&time);
  }
  auto* t = seam::current_thread();
  const uint32_t handlers = t->handlers;
  const int64_t since = total >= 0 ? program_monotonic_now() : 0;
  // An interrupted call leaves sets and results unchanged, so it can be repeated as it is.
  for (bool first = true;; first = false) {
    const long result = nr == __NR_rt_sigtimedwait
                            ? cropdl_sigwait(call.a[0], call.a[1], call.a[2], call.a[3])
                            : pass_on(call);
    if (result != kInterrupted || is_child() || t->handlers != handlers) {
      if (counts_down && total >= 0 && (first || (raw(__NR_personality, kOnlyTell) & kStickyTimeouts) == 0))
        copy_out(given, time);
      if (t->sender_untranslated != 0) {
        const Undisturbed alone;
        tell_waited(t);
      }
      return result;
    }
    if (total < 0) continue;
    const int64_t rest = left(total, since);
    time = as_time(rest);
    time.nanoseconds /= unit;
    if (milliseconds) call.a[argument] = (rest + 999999) / 1000000;
  }
}

}  // namespace

long timed_wait_of_copy(SystemCall* call) {
  constexpr long kAbsolute = 1;  // TIMER_ABSTIME
  const long nr = call->nr;
  if (nr == __NR_nanosleep) return sleep_for(*call, 0);
  if (nr == __NR_clock_nanosleep && (call->a[1] & kAbsolute) == 0) return sleep_for(*call, 2);
  return repeated_wait(*call);
}

long timed_wait(const SystemCall& c) {
  SystemCall call = c;
  return timed_wait_of_copy(&call);
}

// A signal ends a long getrandom after a page (Linux drivers/char/random.c, get_random_bytes_user); natively
// only one with a handler does. So the core asks for the rest after a checkpoint, but not if GRND_RANDOM
// returned at most 512 bytes: before Linux 5.6 it gives no more (man 2 getrandom), and would wait.
long long_random(const SystemCall& c) {
  constexpr unsigned long kMost = 0x7ffff000;  // most bytes of one call (MAX_RW_COUNT)
  constexpr long kRandom = 2, kPool = 512;     // GRND_RANDOM
  const auto* t = seam::current_thread();
  const uint32_t handlers = t->handlers;
  const auto asked = static_cast<unsigned long>(c.a[1]);
  const long total = static_cast<long>(asked < kMost ? asked : kMost);
  SystemCall call = c;
  for (long done = 0;;) {
    const long result = pass_on(call);
    if (failed(result)) return done > 0 ? done : result;
    done += result;
    if (result == 0 || done >= total || is_child() || t->handlers != handlers) return done;
    if ((c.a[2] & kRandom) != 0 && result <= kPool) return done;
    call.a[0] = c.a[0] + done;
    call.a[1] = total - done;
  }
}

// Waits with a timeout; the kernel restarts the others. FUTEX_WAIT's timeout is relative, all others absolute
// (man 2 futex), of the wall clock or of the program's CLOCK_MONOTONIC. Where the kernel can, a wait until
// the latter becomes one for the rest, so that two machines' clocks never measure one wait.
long futex_wait(const SystemCall& c) {
  const long command = c.a[1] & FUTEX_CMD_MASK;
  constexpr long kLock2 = 13;  // FUTEX_LOCK_PI2
  TimeSpec given;
  if (!copy_in(&given, c.a[3]) || !is_valid(given)) return pass_on(c);
  const bool relative = command == FUTEX_WAIT;
  const bool own_clock =
      (c.a[1] & FUTEX_CLOCK_REALTIME) == 0 &&
      (command == FUTEX_WAIT_BITSET || command == FUTEX_WAIT_REQUEUE_PI || command == kLock2);
  const bool for_the_rest = relative || (own_clock && command == FUTEX_WAIT_BITSET &&
                                         static_cast<uint32_t>(c.a[5]) == FUTEX_BITSET_MATCH_ANY);
  const auto* t = seam::current_thread();
  const uint32_t handlers = t->handlers;
  const int64_t since = relative ? program_monotonic_now() : 0;
  SystemCall call = c;
  TimeSpec time = given;
  call.a[3] = as_word(&time);
  if (for_the_rest) call.a[1] = (c.a[1] & ~static_cast<long>(FUTEX_CMD_MASK)) | FUTEX_WAIT;
  for (bool first = true;; first = false) {
    if (for_the_rest && !(relative && first)) {
      time = as_time(left(nanoseconds(given), since));
    } else if (own_clock) {
      time = given;
      add_nanoseconds(&time, -seam::control()->clocks.monotonic);
      if (time.seconds < 0) time = {0, 0};
    }
    const long result = pass_on(call);
    if (result != kInterrupted || is_child()) return result;
    if (!futex_has_owner(c.a[1])) {
      if (t->handlers != handlers) return result;
    } else if (seam::control()->restarted != 0) {  // no handler ends such a wait; leave_owned_futex did
      return owned_futex(c);
    }
  }
}

}  // namespace cropdl::upper
