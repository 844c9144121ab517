// Signals as the program sets them: dispositions, mask, alternate stack. The core stores them and gives the
// kernel settings that enter through the core (seam::kernel_action).
#include <asm/unistd.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {

// As in the kernel (kernel/signal.c): the new action is read before any check, and the old one is written
// after the new one is set. A failed write does not undo that.
long set_action(const SystemCall& c) {
  const int sig = static_cast<int>(c.a[0]);
  seam::SignalAction wanted{};
  const bool changes = c.a[1] != 0;
  if (c.a[3] != 8 || sig < 1 || sig > 64 || sig == SIGKILL || sig == SIGSTOP ||
      (changes && !copy_in(&wanted, c.a[1])))
    return pass_on(c);
  // Flags that the kernel keeps (do_sigaction): SA_NOCLDSTOP, SA_NOCLDWAIT, SA_EXPOSE_TAGBITS, and seam's.
  wanted.flags &= 3 | 0x800 | seam::kSaSiginfo | seam::kSaRestorer | seam::kSaOnStack | seam::kSaRestart |
                  seam::kSaNoDefer | seam::kSaResetHand;
  wanted.mask &= ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));
  seam::SignalAction old{};
  if (is_spawned()) {
    // The child has its own table of handlers in the kernel, but the core's table is its parent's.
    // posix_spawn resets every handler that it sees: it must not see SIGSYS.
    if (sig != seam::kSigsys && sig != seam::kSuspendSignal) return pass_on(c);
  } else {
    auto& entry = seam::state()->actions[sig];
    old = entry;
    if (changes) {
      entry = wanted;
      const seam::SignalAction kernel = seam::kernel_action(sig, wanted, seam::state()->core);
      const long result = raw(c.nr, sig, as_word(&kernel), 0, 8);
      if (failed(result)) {
        entry = old;
        return result;
      }
    }
  }
  return c.a[2] == 0 || copy_out(c.a[2], old) ? 0 : kBadAddress;
}

long set_mask(const SystemCall& c) {
  uint64_t set;
  const int how = static_cast<int>(c.a[0]);
  if (c.a[1] == 0 || c.a[3] != 8 || (how != SIG_BLOCK && how != SIG_SETMASK) || !copy_in(&set, c.a[1]))
    return pass_on(c);
  set &= ~seam::kReservedSignals;
  return raw(c.nr, how, as_word(&set), c.a[2], 8);
}

// man 2 sigaltstack. The kernel has the core's; program_handlers.cpp moves frames to the program's.
long set_alternate_stack(const SystemCall& c) {
  constexpr uint64_t kOnStack = 1, kAutoDisarm = 1ull << 31,
                     kSmallest = 2048;  // SS_ONSTACK, SS_AUTODISARM, MINSIGSTKSZ
  auto* t = seam::current_thread();
  stack_t wanted{};
  const bool changes = c.a[0] != 0;
  if (changes && !copy_in(&wanted, c.a[0])) return kBadAddress;
  stack_t old = programs_stack(t);
  // This function runs on the stack of the call.
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  const bool on_it = (t->alternate_flags & (seam::kNoAlternateStack | kAutoDisarm)) == 0 &&
                     here - t->alternate_sp < t->alternate_size;
  if (on_it) old.ss_flags |= static_cast<int>(kOnStack);
  if (changes) {
    if (on_it) return kNotPermitted;
    const auto mode = static_cast<uint32_t>(wanted.ss_flags) & ~kAutoDisarm;
    if (mode != 0 && mode != kOnStack && mode != seam::kNoAlternateStack) return kInvalid;
    const bool none = mode == seam::kNoAlternateStack;
    if (!none && wanted.ss_size < kSmallest) return kNoMemory;
    t->alternate_sp = none ? 0 : reinterpret_cast<uint64_t>(wanted.ss_sp);
    t->alternate_size = none ? 0 : wanted.ss_size;
    t->alternate_flags = static_cast<uint32_t>(wanted.ss_flags) & ~kOnStack;
  }
  return c.a[1] == 0 || copy_out(c.a[1], old) ? 0 : kBadAddress;
}

void die_of(int sig) {
  const seam::SignalAction standard{};
  const uint64_t only = 1ull << (sig - 1);
  raw(__NR_rt_sigaction, sig, as_word(&standard), 0, 8);
  raw(__NR_rt_sigprocmask, SIG_UNBLOCK, as_word(&only), 0, 8);
  raw(__NR_tgkill, raw(__NR_getpid), raw(__NR_gettid), sig);
  for (;;) raw(__NR_exit_group, 128 + sig);
}

}  // namespace cropdl::upper
