// Signals of the program, of the core (SIGSYS) and of the checkpoint (the suspend signal).
//
// Every handler of the program is entered through `trampoline`, which gives it the UH FS base whatever was
// interrupted. The kernel's own record of a handler is the core's address; what the program set is in
// PersistentState::actions.
#include <asm/unistd.h>

#include "interpose/upper/clocks.h"
#include "interpose/upper/core.h"

extern "C" {
void cropdl_core_sigsys(int, siginfo_t*, void*);
void cropdl_core_suspend(int, siginfo_t*, void*);
void cropdl_core_trampoline(int, siginfo_t*, void*);
void cropdl_core_trigger(int, siginfo_t*, void*);
void cropdl_core_restorer();
void cropdl_core_park();
__attribute__((visibility("hidden"))) extern const char cropdl_vdso_begin[], cropdl_vdso_end[];  // core.lds
long cropdl_on_lower(void* fn, cropdl::seam::ThreadRecord*, long argument);
}

namespace cropdl::upper {
namespace {

constexpr long kInterrupted = -4;  // EINTR

// Whether a thread interrupted at `ip` may be saved: the window, or a non-PIE program below 4 GiB. The real
// vDSO and the LH are elsewhere, and the proxy vDSO's few instructions hold an address in the real one.
bool can_be_saved(uint64_t ip) {
  if (ip >= reinterpret_cast<uint64_t>(cropdl_vdso_begin) && ip < reinterpret_cast<uint64_t>(cropdl_vdso_end))
    return false;
  return seam::in_window(ip) || ip < 1ull << 32;
}

void fill_suspend(siginfo_t* info) {
  auto* words = reinterpret_cast<uint64_t*>(info);
  for (unsigned i = 0; i < sizeof *info / sizeof *words; ++i) words[i] = 0;
  info->si_code = SI_QUEUE;
  info->si_value.sival_ptr = reinterpret_cast<void*>(seam::kSuspendMagic);
}

}  // namespace

long set_action(const Call& c) {
  const long sig = c.a[0];
  const auto* wanted = reinterpret_cast<const seam::SignalAction*>(c.a[1]);
  auto* old_out = reinterpret_cast<seam::SignalAction*>(c.a[2]);
  if (sig < 1 || sig > 64 || sig == 9 || sig == 19) return raw(c.nr, sig, c.a[1], c.a[2], c.a[3]);
  if (is_spawned()) {
    // Its table of handlers in the kernel is its own, ours is its parent's. posix_spawn resets every handler
    // that it sees: it must not see SIGSYS.
    if (sig != seam::kSigsys && sig != seam::kSuspendSignal) return raw(c.nr, sig, c.a[1], c.a[2], c.a[3]);
    if (old_out != nullptr) *old_out = {};
    return 0;
  }
  auto* table = seam::state()->actions;
  const seam::SignalAction old = table[sig];
  if (wanted != nullptr) {
    const seam::SignalAction action = *wanted;
    table[sig] = action;
    if (sig != seam::kSigsys && sig != seam::kSuspendSignal) {
      const seam::SignalAction kernel = seam::kernel_action(action, seam::state()->core);
      const long result = raw(c.nr, sig, reinterpret_cast<long>(&kernel), 0, 8);
      if (failed(result)) {
        table[sig] = old;
        return result;
      }
    }
  }
  if (old_out != nullptr) *old_out = old;
  return 0;
}

// The mask to restore when the SIGSYS handler returns is the thread's mask; the core edits it there.
long set_mask(const Call& c, ucontext_t* context) {
  if (context == nullptr || c.a[3] != 8) return raw(c.nr, c.a[0], c.a[1], c.a[2], c.a[3]);
  auto* current = reinterpret_cast<uint64_t*>(&context->uc_sigmask);
  const uint64_t old = *current;
  if (const auto* set = reinterpret_cast<const uint64_t*>(c.a[1]); set != nullptr) {
    uint64_t next = *set;
    if (c.a[0] == 0)
      next = old | *set;
    else if (c.a[0] == 1)
      next = old & ~*set;
    else if (c.a[0] != 2)
      return -22;  // EINVAL
    *current = next & ~seam::kReservedSignals;
  }
  if (c.a[2] != 0) *reinterpret_cast<uint64_t*>(c.a[2]) = old;
  return 0;
}

// Calls that take a temporary mask: SIGSYS and the suspend signal stay open in it. They end with EINTR when a
// handler of the program ran, as natively, and go on when only the checkpoint interrupted them.
long masked_wait(const Call& c) {
  Call call = c;
  uint64_t mask;
  struct {
    const void* set;
    uint64_t size;
  } pair;
  switch (c.nr) {
    case __NR_rt_sigsuspend:
      mask = *reinterpret_cast<const uint64_t*>(c.a[0]) & ~seam::kReservedSignals;
      call.a[0] = reinterpret_cast<long>(&mask);
      break;
    case __NR_ppoll:
    case __NR_epoll_pwait:
    case __NR_epoll_pwait2: {
      const int i = c.nr == __NR_ppoll ? 3 : 4;
      if (c.a[i] != 0) {
        mask = *reinterpret_cast<const uint64_t*>(c.a[i]) & ~seam::kReservedSignals;
        call.a[i] = reinterpret_cast<long>(&mask);
      }
      break;
    }
    case __NR_pselect6:
      if (c.a[5] != 0) {
        pair = *reinterpret_cast<decltype(pair)*>(c.a[5]);
        if (pair.set != nullptr) {
          mask = *static_cast<const uint64_t*>(pair.set) & ~seam::kReservedSignals;
          pair.set = &mask;
        }
        call.a[5] = reinterpret_cast<long>(&pair);
      }
      break;
    default:
      break;
  }
  return timed_wait(call);
}

namespace {

// What is left of `total` ns that began at `since`. 
int64_t left(int64_t total, int64_t since) {
  const int64_t gone = now() - since;
  if (gone < 0) return total;
  return gone >= total ? 0 : total - gone;
}

}  // namespace

// Calls that the kernel never restarts after a handler, whatever SA_RESTART says (man 7 signal).
long timed_wait(const Call& c) {
  auto* t = seam::current_thread();
  const bool child = is_child();
  Call call = c;
  Time time;
  int64_t total = -1;         // ns; -1: no timeout, or an absolute one
  int timeout_argument = -1;  // index of a struct timespec
  switch (c.nr) {
    case __NR_nanosleep:
      timeout_argument = 0;
      break;
    case __NR_clock_nanosleep:
      if ((c.a[1] & 1) == 0) timeout_argument = 2;
      break;  // TIMER_ABSTIME: as it is
    case __NR_ppoll:
      timeout_argument = 2;
      break;
    case __NR_pselect6:
      timeout_argument = 4;
      break;
    case __NR_rt_sigtimedwait:
      timeout_argument = 2;
      break;
    case __NR_epoll_pwait2:
    case __NR_semtimedop:
      timeout_argument = 3;
      break;
    case __NR_select:
      if (c.a[4] != 0) {
        const auto* tv = reinterpret_cast<const Time*>(c.a[4]);
        total = tv->seconds * 1000000000 + tv->nanoseconds * 1000;
      }
      break;
    case __NR_poll:
      if (static_cast<int>(c.a[2]) >= 0) total = static_cast<int64_t>(static_cast<int>(c.a[2])) * 1000000;
      break;
    case __NR_epoll_wait:
    case __NR_epoll_pwait:
      if (static_cast<int>(c.a[3]) >= 0) total = static_cast<int64_t>(static_cast<int>(c.a[3])) * 1000000;
      break;
    default:
      break;
  }
  if (timeout_argument >= 0 && c.a[timeout_argument] != 0) {
    time = *reinterpret_cast<const Time*>(c.a[timeout_argument]);
    if (time.seconds < 0 || time.nanoseconds < 0 || time.nanoseconds >= 1000000000)
      return raw(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], c.a[4], c.a[5]);  // EINVAL is the kernel's to say
    total = time.seconds > 4000000000 ? -1 : time.seconds * 1000000000 + time.nanoseconds;
  }
  const uint32_t handlers = t->handlers;
  const int64_t since = total >= 0 ? now() : 0;
  // select() leaves its sets untouched when it is interrupted, so the call can be repeated as it stands.
  for (;;) {
    const long result = raw(call.nr, call.a[0], call.a[1], call.a[2], call.a[3], call.a[4], call.a[5]);
    if (result != kInterrupted || child || t->handlers != handlers) return result;
    if (total < 0) continue;
    const int64_t rest = left(total, since);
    time = {rest / 1000000000, rest % 1000000000};
    const int milliseconds = static_cast<int>((rest + 999999) / 1000000);
    if (timeout_argument >= 0)
      call.a[timeout_argument] = reinterpret_cast<long>(&time);
    else if (c.nr == __NR_poll)
      call.a[2] = milliseconds;
    else if (c.nr == __NR_select)
      time.nanoseconds /= 1000, call.a[4] = reinterpret_cast<long>(&time);
    else
      call.a[3] = milliseconds;
  }
}

}  // namespace cropdl::upper

using namespace cropdl;

// SIGSYS: a system call of the program that the filter trapped. si_syscall and the registers hold the call
// (man 2 seccomp, SECCOMP_RET_TRAP).
extern "C" __attribute__((visibility("default"))) void cropdl_core_sigsys(int, siginfo_t* info, void* frame) {
  auto* context = static_cast<ucontext_t*>(frame);
  auto* g = context->uc_mcontext.gregs;
  if (info->si_code != 1 /* SYS_SECCOMP */) {  // the program's own, by kill(): as it asked
    const auto& action = seam::state()->actions[seam::kSigsys];
    if (action.handler > 1)
      reinterpret_cast<void (*)(int, siginfo_t*, void*)>(action.handler)(seam::kSigsys, info, frame);
    return;
  }
  const upper::Call call{
      info->si_syscall,
      {static_cast<long>(g[REG_RDI]), static_cast<long>(g[REG_RSI]), static_cast<long>(g[REG_RDX]),
       static_cast<long>(g[REG_R10]), static_cast<long>(g[REG_R8]), static_cast<long>(g[REG_R9])}};
  g[REG_RAX] = upper::emulate(call, context);
}

// A handler of the program. The FS base at the interruption is the UH's or, inside an MPI call, the LH's.
extern "C" __attribute__((visibility("default"))) void cropdl_core_trampoline(int sig, siginfo_t* info,
                                                                              void* frame) {
  const auto* context = static_cast<ucontext_t*>(frame);
  seam::ThreadRecord* t = seam::current_thread();
  auto& entry = seam::state()->actions[sig];
  const seam::SignalAction action = entry;
  if (action.handler <= 1) return;  // reset meanwhile
  const uint64_t fs = seam::fs_base();
  const bool in_lower = t->lower_fs != 0 && fs == t->lower_fs;
  const bool pin = !upper::can_be_saved(context->uc_mcontext.gregs[REG_RIP]);
  if ((action.flags & seam::kSaResetHand) != 0 && !upper::is_child()) entry.handler = 0;
  ++t->handlers;
  if (pin) t->pinned = t->pinned + 1;
  if (in_lower) seam::set_fs_base(t->upper_fs);
  reinterpret_cast<void (*)(int, siginfo_t*, void*)>(action.handler)(sig, info, frame);
  if (in_lower) seam::set_fs_base(fs);
  if (pin) t->pinned = t->pinned - 1;
}

// SIGUSR1 while the program leaves it at its default: asks the agent for a checkpoint.
extern "C" __attribute__((visibility("default"))) void cropdl_core_trigger(int, siginfo_t*, void*) {
  const int fd = seam::control()->trigger_fd;
  const uint64_t one = 1;
  if (fd >= 0 && !upper::is_child()) upper::raw(__NR_write, fd, reinterpret_cast<long>(&one), 8);
}

// The suspend signal. If the thread is in the program (its FS base, its text, no LH frame below), its context
// is complete in this frame, on its own stack: it serves the LH here until it is released, or until an image
// of this very frame is resumed in another process by rt_sigreturn. Otherwise the LH tries again.
extern "C" __attribute__((visibility("default"))) void cropdl_core_suspend(int sig, siginfo_t* info,
                                                                           void* frame) {
  auto* context = static_cast<ucontext_t*>(frame);
  seam::ThreadRecord* t = seam::current_thread();
  if (upper::is_child()) return;
  if (info->si_code != SI_QUEUE ||
      reinterpret_cast<uint64_t>(info->si_value.sival_ptr) != seam::kSuspendMagic) {
    const auto& action = seam::state()->actions[sig];
    if (action.handler > 1) cropdl_core_trampoline(sig, info, frame);
    return;
  }
  const uint64_t fs = seam::fs_base();
  if (t->lower_fs != 0 && fs == t->lower_fs) return;
  if (t->pinned != 0 || !upper::can_be_saved(context->uc_mcontext.gregs[REG_RIP])) return;
  if (t->kind != seam::kMainThread) return;  // other threads are named in the refusal and never stopped
  if (t->upper_fs != fs) {                   // has not been in the LH since
    t->upper_fs = fs;
    seam::control()->lend_lower_fs(t);
  }
  t->context = reinterpret_cast<uint64_t>(context);
  upper::raw(__NR_get_robust_list, 0, reinterpret_cast<long>(&t->robust_list),
             reinterpret_cast<long>(&t->robust_size));
  cropdl_on_lower(reinterpret_cast<void*>(seam::control()->serve), t, 0);
}

// At the exit from the LH: stops here if the rank is wanted.
extern "C" __attribute__((visibility("default"))) void cropdl_core_park() {
  seam::ThreadRecord* t = seam::current_thread();
  if (t->kind != seam::kMainThread || upper::is_child()) return;
  if ((seam::control()->attention & seam::kAttentionStop) == 0) return;
  if (t->pinned != 0) return;
  // Real ids are in registers, so not a stop there: the signal waits until they are forgotten.
  const uint64_t suspend = 1ull << (seam::kSuspendSignal - 1);
  {
    const upper::Pin pin;
    siginfo_t info;
    upper::fill_suspend(&info);
    upper::raw(__NR_rt_sigprocmask, 0 /* SIG_BLOCK */, reinterpret_cast<long>(&suspend), 0, 8);
    upper::raw(__NR_rt_tgsigqueueinfo, seam::state()->real_pid, t->tid, seam::kSuspendSignal,
               reinterpret_cast<long>(&info));
  }
  upper::raw(__NR_rt_sigprocmask, 1 /* SIG_UNBLOCK */, reinterpret_cast<long>(&suspend), 0, 8);
}
