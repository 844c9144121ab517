// The core's signal handlers. entry.S begins each and calls a function of this file: what runs next.
//
// Frames of the core's own signals, and of handlers for the program's alternate stack, begin on the thread's
// signal stack. There is never more than one, since these handlers begin with all signals blocked
// (seam::kernel_action). Frames of the program's other handlers are on the interrupted stack.
#include <asm/unistd.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

// Whether a thread interrupted at `ip` may be saved: in the window, or in a non-PIE program below 4 GiB.
bool can_be_saved(uint64_t ip) { return seam::in_window(ip) || ip < 1ull << 32; }

// Whether the signal comes from the program itself: from its process, or from its timer, queue or file. With
// sigqueue() the sender writes the pid itself; the program writes the virtual pid.
bool is_own(const siginfo_t* info) {
  const int code = info->si_code;
  if (code != SI_USER && code != SI_QUEUE && code != SI_TKILL) return true;
  return info->si_pid == raw(__NR_getpid) || (code == SI_QUEUE && info->si_pid == seam::state()->virtual_pid);
}

// Notes that the thread is pinned by a call of the LH that is not the running one: a handler or callback of
// the program interrupts it, or has left it by longjmp, and then it never ends.
void note_call_below(const seam::ThreadRecord* t, bool in_lower) {
  if (t->pinned > (in_lower ? 1 : 0))
    __atomic_store_n(&seam::state()->found_above_call, 1u, __ATOMIC_SEQ_CST);
}

// Tells the agent by a descriptor. Without one the signal does nothing, or kills.
void ask_agent(Entry* e, int fd, bool kills) {
  do_nothing(e);
  if (seam::gs_base() == 0) return on_lower_thread(e);
  if (is_child() || is_own(e->info) || (kills && fd < 0)) die_of(static_cast<int>(e->sig));
  settle_for_core(seam::current_thread(), e->context);
  const uint64_t one = 1;
  if (fd >= 0) raw(__NR_write, fd, as_word(&one), 8);
}

}  // namespace
}  // namespace cropdl::upper

using namespace cropdl;
using upper::Entry;

extern "C" void cropdl_enter_handler(Entry* e) { upper::enter_handler(e); }

// A system call of the program that the filter trapped. si_syscall and the registers hold it (man 2 seccomp,
// SECCOMP_RET_TRAP). The core's entry makes it after this handler has returned.
extern "C" void cropdl_enter_sigsys(Entry* e) {
  constexpr int kSeccomp = 1;  // SYS_SECCOMP
  constexpr unsigned kX86_64 = 0xc000003e;
  if (e->info->si_code != kSeccomp || e->info->si_errno != seam::kTrapData) return upper::programs_own(e);
  upper::do_nothing(e);
  auto* g = e->context->uc_mcontext.gregs;
  g[REG_RAX] = e->info->si_syscall;
  if (e->info->si_arch != kX86_64) {
    if (!upper::is_child()) seam::state()->foreign_calls = 1;
    g[REG_RSP] -= 136;
    *reinterpret_cast<uint64_t*>(g[REG_RSP]) = static_cast<uint64_t>(g[REG_RIP]);
    g[REG_RIP] = reinterpret_cast<greg_t>(cropdl_core_int80);
    return;
  }
  if (e->info->si_syscall == __NR_rt_sigreturn) return upper::return_from_handler(g);
  g[REG_RCX] = g[REG_RIP];
  if (upper::made_in_one_piece(e->info->si_syscall, g[REG_RSI])) {
    g[REG_R11] = static_cast<greg_t>(e->context->uc_sigmask.__val[0]);
    e->context->uc_sigmask.__val[0] = ~0ul;
    g[REG_RIP] = reinterpret_cast<greg_t>(cropdl_core_masked_entry);
  } else {
    g[REG_RIP] = reinterpret_cast<greg_t>(cropdl_core_syscall_entry);
  }
}

// SIGUSR1 at its default asks the agent for a checkpoint; from no other process, or to a child, it kills.
extern "C" void cropdl_enter_trigger(Entry* e) { upper::ask_agent(e, seam::control()->trigger_fd, false); }

// SIGTERM while the program keeps its default: asks the agent for a last version, after which the job ends.
// The agent soon restores the kernel's default, for a second SIGTERM. The sender matters as for SIGUSR1.
extern "C" void cropdl_enter_last_version(Entry* e) {
  upper::ask_agent(e, seam::control()->last_version_fd, true);
}

// The suspend signal. If the thread is in the program (its FS base, its text, no LH frame below), this frame
// holds its complete context. The thread serves the LH here until it is released, or until another process
// resumes an image of this frame by rt_sigreturn. Otherwise the LH tries again.
extern "C" void cropdl_enter_suspend(Entry* e) {
  if (e->info->si_code != SI_QUEUE ||
      reinterpret_cast<uint64_t>(e->info->si_value.sival_ptr) != seam::kSuspendMagic)
    return upper::programs_own(e);
  upper::do_nothing(e);
  if (seam::gs_base() == 0 || upper::is_child()) return;
  seam::ThreadRecord* t = seam::current_thread();
  const uint64_t fs = seam::fs_base();
  if (t->kind == seam::kSpawnedChild) return;
  const bool in_lower = t->lower_fs != 0 && fs == t->lower_fs;
  upper::note_call_below(t, in_lower);
  if (in_lower) return;  // parks when it leaves the LH
  upper::settle_for_core(t, e->context);
  if (t->pinned != 0) return;  // the same
  const auto ip = static_cast<uint64_t>(e->context->uc_mcontext.gregs[REG_RIP]);
  if (!upper::can_be_saved(ip)) {  // send the signal again: the next one interrupts elsewhere
    t->asked = 0;
    return;
  }
  t->context = reinterpret_cast<uint64_t>(e->context);
  t->stopped_fs = fs;
  upper::raw(__NR_get_robust_list, 0, upper::as_word(&t->robust_list), upper::as_word(&t->robust_size));
  if (t->kind != seam::kMainThread) return upper::wait_while_stopped(t);
  __atomic_store_n(&t->parked, seam::control()->stop, __ATOMIC_SEQ_CST);
  if (t->upper_fs != fs) {  // its FS base has changed since it was last in the LH
    t->upper_fs = fs;
    seam::control()->lend_lower_fs(t);
  }
  upper::call_on_lower(reinterpret_cast<void*>(seam::control()->serve), t);
}

// At the exit from the LH: stops here if the rank must stop. All signals are blocked while registers hold ids
// of this run; then the suspend signal is delivered. A handler of the program that runs first, or a full
// signal queue (RLIMIT_SIGPENDING), delays the stop: up to kAttempts signals are sent.
extern "C" __attribute__((visibility("default"))) void cropdl_core_park() {
  seam::ThreadRecord* t = seam::current_thread();
  const auto* page = seam::control();
  if (upper::is_child() || (page->attention & seam::kAttentionStop) == 0 || t->pinned != 0) return;
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = reinterpret_cast<void*>(seam::kSuspendMagic);
  constexpr int kAttempts = 64;
  const auto is_wanted = [page, t] {
    return (page->attention & seam::kAttentionStop) != 0 && t->parked != page->stop;
  };
  for (int attempt = 0; attempt < kAttempts && is_wanted(); ++attempt) {
    if (attempt > 0) upper::raw(__NR_sched_yield);
    const upper::Undisturbed undisturbed;
    upper::raw(__NR_rt_tgsigqueueinfo, seam::state()->kernel_pid, t->tid, seam::kSuspendSignal,
               upper::as_word(&info));
  }
}
