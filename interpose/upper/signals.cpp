// Signals as the program sets them: dispositions, mask, alternate stack. What the program asked for is kept;
// what the kernel is told has the core in between (seam::kernel_action). The handlers themselves:
// handlers.cpp.
#include <asm/unistd.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {

long set_action(const Call& c) {
  const long sig = c.a[0];
  const auto* wanted = reinterpret_cast<const seam::SignalAction*>(c.a[1]);
  auto* old_out = reinterpret_cast<seam::SignalAction*>(c.a[2]);
  if (sig < 1 || sig > 64 || sig == 9 || sig == 19 || c.a[3] != 8)
    return raw(c.nr, sig, c.a[1], c.a[2], c.a[3]);
  if (is_spawned()) {
    // Its table of handlers in the kernel is its own, ours is its parent's. posix_spawn resets every handler
    // that it sees: it must not see SIGSYS.
    if (sig != seam::kSigsys && sig != seam::kSuspendSignal) return raw(c.nr, sig, c.a[1], c.a[2], c.a[3]);
    if (old_out != nullptr) *old_out = {};
    return 0;
  }
  constexpr long kBadAddress = -14;  // EFAULT
  if (wanted != nullptr && !can_be_read(wanted, sizeof *wanted)) return kBadAddress;
  seam::SignalAction action{};
  if (wanted != nullptr) action = *wanted;  // it may be where the old one goes
  if (old_out != nullptr && failed(raw(c.nr, sig, 0, c.a[2], 8))) return kBadAddress;  // it can be written
  auto* table = seam::state()->actions;
  const seam::SignalAction old = table[sig];
  if (wanted != nullptr) {
    table[sig] = action;
    const seam::SignalAction kernel = seam::kernel_action(static_cast<int>(sig), action, seam::state()->core);
    const long result = raw(c.nr, sig, reinterpret_cast<long>(&kernel), 0, 8);
    if (failed(result)) {
      table[sig] = old;
      return result;
    }
  }
  if (old_out != nullptr) *old_out = old;
  return 0;
}

long set_mask(const Call& c) {
  constexpr long kBlock = 0, kSet = 2;
  uint64_t set;
  const auto* given = reinterpret_cast<const uint64_t*>(c.a[1]);
  const bool closes = given != nullptr && c.a[3] == 8 && (c.a[0] == kBlock || c.a[0] == kSet) &&
                      can_be_read(given, sizeof set);
  if (closes) set = *given & ~seam::kReservedSignals;
  return raw(c.nr, c.a[0], closes ? reinterpret_cast<long>(&set) : c.a[1], c.a[2], c.a[3]);
}

// man 2 sigaltstack. The kernel has the core's stack, and the program's is where its handlers are moved to
// (handlers.cpp).
long set_alternate_stack(const Call& c) {
  constexpr uint64_t kOnStack = 1, kAutoDisarm = 1ull << 31,
                     kSmallest = 2048;  // SS_ONSTACK, SS_AUTODISARM, MINSIGSTKSZ
  constexpr long kNotPermitted = -1, kInvalid = -22, kTooSmall = -12;
  constexpr long kBadAddress = -14;
  auto* t = seam::current_thread();
  const auto* given = reinterpret_cast<const stack_t*>(c.a[0]);
  if (given != nullptr && !can_be_read(given, sizeof *given)) return kBadAddress;
  stack_t copy{};
  if (given != nullptr) copy = *given;  // it may be where the old one goes
  const stack_t* wanted = given != nullptr ? &copy : nullptr;
  if (c.a[1] != 0 && failed(raw(c.nr, 0, c.a[1]))) return kBadAddress;  // it can be written
  auto* old_out = reinterpret_cast<stack_t*>(c.a[1]);
  const stack_t old = {reinterpret_cast<void*>(t->alternate_sp), static_cast<int>(t->alternate_flags),
                       t->alternate_size};
  // This runs on the stack of the call.
  const auto here = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  const bool on_it = (t->alternate_flags & (seam::kNoAlternateStack | kAutoDisarm)) == 0 &&
                     here - t->alternate_sp < t->alternate_size;
  if (wanted != nullptr) {
    if (on_it) return kNotPermitted;
    const auto mode = static_cast<uint32_t>(wanted->ss_flags) & ~kAutoDisarm;
    if (mode != 0 && mode != kOnStack && mode != seam::kNoAlternateStack) return kInvalid;
    const bool none = mode == seam::kNoAlternateStack;
    if (!none && wanted->ss_size < kSmallest) return kTooSmall;
    const auto flags = static_cast<uint32_t>(wanted->ss_flags) & ~kOnStack;
    t->alternate_sp = none ? 0 : reinterpret_cast<uint64_t>(wanted->ss_sp);
    t->alternate_size = none ? 0 : wanted->ss_size;
    t->alternate_flags = flags;
  }
  if (old_out != nullptr) {
    *old_out = old;
    if (on_it) old_out->ss_flags |= static_cast<int>(kOnStack);
  }
  return 0;
}

void die_of(int sig) {
  const seam::SignalAction standard{};
  const uint64_t only = 1ull << (sig - 1);
  constexpr int kUnblock = 1;
  raw(__NR_rt_sigaction, sig, reinterpret_cast<long>(&standard), 0, 8);
  raw(__NR_rt_sigprocmask, kUnblock, reinterpret_cast<long>(&only), 0, 8);
  raw(__NR_tgkill, raw(__NR_getpid), raw(__NR_gettid), sig);
  for (;;) raw(__NR_exit_group, 128 + sig);
}

}  // namespace cropdl::upper
