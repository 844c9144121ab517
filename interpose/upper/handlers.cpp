// The core's signal handlers. entry.S begins each of them and calls a function of this file, which decides
// what runs next.
//
// Frames of the core's own signals, and of handlers for the program's alternate stack, begin on the thread's
// signal stack. There is never more than one, since these handlers begin with all signals blocked
// (seam::kernel_action). Frames of the program's other handlers are on the interrupted stack.
#include <asm/unistd.h>
#include <linux/futex.h>

#include "interpose/seam/signal_frame.h"
#include "interpose/upper/core.h"

#pragma GCC visibility push(hidden)  // avoids a table of addresses: the core has no data
extern "C" {
void cropdl_core_syscall_entry();
void cropdl_core_masked_entry();
void cropdl_core_int80();
void cropdl_return();
extern const char cropdl_descriptor_made[], cropdl_descriptor_noted[];
extern const char cropdl_sigwait_made[], cropdl_sigwait_noted[];
}
#pragma GCC visibility pop

namespace cropdl::upper {

void note_descriptor(const greg_t* g) {
  const auto ip = static_cast<uint64_t>(g[REG_RIP]);
  if (ip < reinterpret_cast<uint64_t>(cropdl_descriptor_made) ||
      ip >= reinterpret_cast<uint64_t>(cropdl_descriptor_noted))
    return;
  const auto fd = static_cast<uint64_t>(g[REG_RAX]);
  if (fd < seam::kMaxDescriptors) seam::set_owned(seam::state(), fd, true);
}

namespace {

struct Entry {  // as entry.S lays it out: the handler's arguments
  long sig;
  siginfo_t* info;
  ucontext_t* context;
  uint64_t frame;     // stack pointer; the address of the restorer is there
  uint64_t handler;   // the code to jump to
  uint64_t argument;  // its rcx
};

// struct rt_sigframe of the kernel (arch/x86/include/asm/sigframe.h): restorer, the kernel's ucontext, which
// is shorter than the C library's, and siginfo. The floating point state is elsewhere on the same stack.
constexpr uint64_t kContextSize = 304, kInfoSize = 128;
constexpr uint64_t kFrameSize = 8 + kContextSize + kInfoSize;

struct VdsoFrame {  // as entry.S lays it out
  uint64_t alignment, entry, rdi, rsi, rdx, r15, r14, r13, r12, rbp, rbx;
};

void begin_vdso_call_anew(seam::ThreadRecord* t, greg_t* g) {
  const uint64_t at = t->vdso_frame;
  if (at == 0) return;
  const auto* f = reinterpret_cast<const VdsoFrame*>(at);
  g[REG_RIP] = static_cast<greg_t>(f->entry);
  g[REG_RSP] = static_cast<greg_t>(at + sizeof *f);
  g[REG_RDI] = static_cast<greg_t>(f->rdi);
  g[REG_RSI] = static_cast<greg_t>(f->rsi);
  g[REG_RDX] = static_cast<greg_t>(f->rdx);
  g[REG_R15] = static_cast<greg_t>(f->r15);
  g[REG_R14] = static_cast<greg_t>(f->r14);
  g[REG_R13] = static_cast<greg_t>(f->r13);
  g[REG_R12] = static_cast<greg_t>(f->r12);
  g[REG_RBP] = static_cast<greg_t>(f->rbp);
  g[REG_RBX] = static_cast<greg_t>(f->rbx);
  t->vdso_frame = 0;
}

constexpr uint16_t kSyscall = 0x050f;  // the instruction

// Ends the system call at the instruction pointer with EINTR.
void end_with_eintr(greg_t* g) {
  g[REG_RAX] = kInterrupted;
  g[REG_RIP] += sizeof kSyscall;
}

// Ends the core's wait for an owned futex instead of letting the kernel restart it. After a restart the
// kernel does not know the owner's id, so the core must examine the futex again (futexes.cpp).
void leave_owned_futex(greg_t* g) {
  const auto ip = static_cast<uint64_t>(g[REG_RIP]);
  if (ip - seam::kCore >= seam::kCoreSize || g[REG_RAX] != __NR_futex || !futex_has_owner(g[REG_RSI])) return;
  if (!is_child() && *reinterpret_cast<const uint16_t*>(ip) == kSyscall) end_with_eintr(g);
}

// System calls that the kernel restarts after a handler with SA_RESTART, and ends with EINTR after another
// handler (man 7 signal).
bool is_restarted(long nr, long operation) {
  switch (nr) {
    case __NR_read:
    case __NR_readv:
    case __NR_preadv:
    case __NR_preadv2:
    case __NR_write:
    case __NR_writev:
    case __NR_pwritev:
    case __NR_pwritev2:
    case __NR_sendfile:
    case __NR_splice:
    case __NR_tee:
    case __NR_vmsplice:
    case __NR_getrandom:
    case __NR_ioctl:
    case __NR_open:
    case __NR_openat:
    case __NR_openat2:
    case __NR_creat:
    case __NR_wait4:
    case __NR_waitid:
    case __NR_accept:
    case __NR_accept4:
    case __NR_connect:
    case __NR_recvfrom:
    case __NR_recvmsg:
    case __NR_recvmmsg:
    case __NR_sendto:
    case __NR_sendmsg:
    case __NR_sendmmsg:
    case __NR_flock:
    case __NR_mq_timedsend:
    case __NR_mq_timedreceive:
    case 449:  // futex_waitv
    case 455:  // futex_wait
      return true;
    case __NR_fcntl:
      return operation == 7 /* F_SETLKW */ || operation == 38 /* F_OFD_SETLKW */;
    case __NR_futex:
      operation &= FUTEX_CMD_MASK;
      return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
    default:
      return false;
  }
}

// The core's own signals all have SA_RESTART: after one of them, the interrupted call is at its instruction
// again. This notes the instruction, so that a handler of the program without SA_RESTART that runs next ends
// the call as natively. (A call that has not begun looks the same if an earlier call left this value in rcx.
// It ends as if the signal had come a moment later.)
void note_rewound(seam::ThreadRecord* t, const greg_t* g) {
  const auto ip = static_cast<uint64_t>(g[REG_RIP]);
  t->rewound = 0;
  if (static_cast<uint64_t>(g[REG_RCX]) != ip + sizeof kSyscall || !is_restarted(g[REG_RAX], g[REG_RSI]))
    return;
  uint16_t instruction;
  if (copy_in(&instruction, static_cast<long>(ip)) && instruction == kSyscall) t->rewound = ip;
}

void end_rewound_call(seam::ThreadRecord* t, const seam::SignalAction& action, greg_t* g) {
  const uint64_t at = t->rewound;
  t->rewound = 0;
  if (at == 0 || at != static_cast<uint64_t>(g[REG_RIP]) || (action.flags & seam::kSaRestart) != 0) return;
  if (static_cast<uint64_t>(g[REG_RCX]) == at + sizeof kSyscall) end_with_eintr(g);
}

// Completes a signal wait that the kernel has ended but whose sender is not yet translated.
void end_sigwait(seam::ThreadRecord* t, greg_t* g) {
  const auto made = reinterpret_cast<uint64_t>(cropdl_sigwait_made);
  const auto noted = reinterpret_cast<uint64_t>(cropdl_sigwait_noted);
  if (static_cast<uint64_t>(g[REG_RIP]) - made < noted - made) {
    t->sender_untranslated = g[REG_RAX] > 0 ? static_cast<uint64_t>(g[REG_RSI]) : 0;
    g[REG_RIP] = static_cast<greg_t>(noted);
  }
  tell_waited(t);
}

// Changes the interrupted context such that it can be saved, or never be returned to.
void settle(seam::ThreadRecord* t, ucontext_t* context) {
  auto* g = context->uc_mcontext.gregs;
  begin_vdso_call_anew(t, g);
  leave_owned_futex(g);
  end_sigwait(t, g);
  if (!is_child()) note_descriptor(g);
}
// The same after an interruption by a signal of the core.
void settle_for_core(seam::ThreadRecord* t, ucontext_t* context) {
  settle(t, context);
  note_rewound(t, context->uc_mcontext.gregs);
}

// Whether a thread interrupted at `ip` may be saved: `ip` is in the window, or in a non-PIE program below 4
// GiB.
bool can_be_saved(uint64_t ip) { return seam::in_window(ip) || ip < 1ull << 32; }

bool on_signal_stack(const seam::ThreadRecord* t, uint64_t frame) {
  const auto* s = seam::state();
  if (t < s->threads) return frame >= seam::kSignalStacks && frame < seam::kHeapBegin;  // its parent's
  return frame - seam::signal_stack(t) < seam::kSignalStackSize;
}

void copy(uint64_t to, uint64_t from, uint64_t bytes) {
  auto* a = reinterpret_cast<uint64_t*>(to);
  const auto* b = reinterpret_cast<const uint64_t*>(from);
  for (uint64_t i = 0; i < bytes / 8; ++i) a[i] = b[i];
}

uint64_t float_state_size(uint64_t state) {
  return (seam::saved_registers(reinterpret_cast<const void*>(state)).extended_bytes + 7ull) & ~7ull;
}

// Moves the frame from the signal stack to the stack of the program's handler: its alternate stack, or the
// interrupted stack. False if there is no room, or no memory.
bool move_frame(seam::ThreadRecord* t, const seam::SignalAction& action, Entry* e) {
  constexpr uint64_t kRedZone = 128;
  auto* g = e->context->uc_mcontext.gregs;
  const auto interrupted = static_cast<uint64_t>(g[REG_RSP]);
  const bool there_is = (t->alternate_flags & seam::kNoAlternateStack) == 0 && t->alternate_size != 0;
  const bool on_it = there_is && interrupted - t->alternate_sp < t->alternate_size;
  const bool to_alternate = (action.flags & seam::kSaOnStack) != 0 && there_is && !on_it;
  uint64_t top = to_alternate ? t->alternate_sp + t->alternate_size : interrupted - kRedZone;
  const auto state = reinterpret_cast<uint64_t>(e->context->uc_mcontext.fpregs);
  const uint64_t end = top;
  if (state != 0) top = (top - float_state_size(state)) & ~63ull;  // XSAVE's alignment
  const uint64_t frame = ((top - kFrameSize) & ~15ull) - 8;        // as after a call
  if ((to_alternate || on_it) && frame < t->alternate_sp) return false;
  if (!can_be_written(reinterpret_cast<void*>(frame), end - frame)) return false;
  if (state != 0) copy(top, state, float_state_size(state));
  copy(frame, e->frame, kFrameSize);
  e->frame = frame;
  e->context = reinterpret_cast<ucontext_t*>(frame + 8);
  e->info = reinterpret_cast<siginfo_t*>(frame + 8 + kContextSize);
  if (state != 0) e->context->uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(top);
  return true;
}

// Acts like the kernel when it cannot make a handler's frame (force_sigsegv): raises a fault at the
// interrupted instruction.
void fault_instead_of(const Entry* e) {
  const auto& action = seam::state()->actions[SIGSEGV];
  const bool blocked = (e->context->uc_sigmask.__val[0] >> (SIGSEGV - 1) & 1) != 0;
  if (e->sig == SIGSEGV || blocked || action.handler <= 1) die_of(SIGSEGV);
  siginfo_t info;
  auto* words = reinterpret_cast<uint64_t*>(&info);
  for (unsigned i = 0; i < sizeof info / sizeof *words; ++i) words[i] = 0;
  info.si_signo = SIGSEGV;
  info.si_code = SI_KERNEL;
  const long self = raw(__NR_gettid), process = raw(__NR_getpid);
  if (failed(raw(__NR_rt_tgsigqueueinfo, process, self, SIGSEGV, reinterpret_cast<long>(&info))))
    raw(__NR_tgkill, process, self, SIGSEGV);
}

// Runs a handler whose frame was moved, or that interrupted the lower half, and returns from it. For a moved
// frame, signals are unblocked only here: earlier, the next signal would find the thread on its signal stack.
void run_and_return(int sig, siginfo_t* info, void* frame, uint64_t handler) {
  auto* context = static_cast<ucontext_t*>(frame);
  auto* t = seam::current_thread();
  const uint64_t fs = seam::fs_base();
  const bool in_lower = t->lower_fs != 0 && fs == t->lower_fs;
  constexpr uint64_t kAutoDisarm = 1ull << 31;
  const stack_t kernels = context->uc_stack;
  const stack_t programs = {reinterpret_cast<void*>(t->alternate_sp), static_cast<int>(t->alternate_flags),
                            t->alternate_size};
  context->uc_stack = programs;
  const bool disarm = (t->alternate_flags & kAutoDisarm) != 0;
  if (disarm) t->alternate_sp = t->alternate_size = 0, t->alternate_flags = seam::kNoAlternateStack;
  if (in_lower) {
    t->pinned = t->pinned + 1;
    seam::set_fs_base(t->upper_fs);
  }
  if (t->has_moved != 0) {
    t->has_moved = 0;
    set_signal_mask(t->moved_mask);
  }
  reinterpret_cast<void (*)(int, siginfo_t*, void*)>(handler)(sig, info, frame);
  if (in_lower) {
    seam::set_fs_base(fs);
    t->pinned = t->pinned - 1;
  }
  // The frame shows the program its own stack, which the handler may have changed. The kernel must get the
  // core's stack back.
  if (disarm || context->uc_stack.ss_sp != programs.ss_sp || context->uc_stack.ss_size != programs.ss_size) {
    t->alternate_sp = reinterpret_cast<uint64_t>(context->uc_stack.ss_sp);
    t->alternate_size = context->uc_stack.ss_size;
    t->alternate_flags = static_cast<uint32_t>(context->uc_stack.ss_flags) & ~1u;
  }
  context->uc_stack = kernels;
  // return_from_handler() does not see a return by the core itself.
  context->uc_sigmask.__val[0] &= ~seam::kReservedSignals;
}

void do_nothing(Entry* e) { e->handler = reinterpret_cast<uint64_t>(cropdl_return); }

// A thread of the LH has GS base 0 and blocks signals. A signal that arrives nevertheless is for the main
// thread, or is a fault of the LH.
void on_lower_thread(const Entry* e) {
  if (e->info->si_code > 0 && e->info->si_code != SI_KERNEL) die_of(static_cast<int>(e->sig));
  raw(__NR_rt_tgsigqueueinfo, raw(__NR_getpid), seam::state()->threads[0].tid, e->sig,
      reinterpret_cast<long>(e->info));
}

// Returns the thread's mask when the signal arrived. If the signal ended a wait with a temporary mask
// (masked_wait), the frame has the mask from before the wait. The next signal finds the wait over.
uint64_t mask_before(seam::ThreadRecord* t, int sig, const ucontext_t* context) {
  const auto* g = context->uc_mcontext.gregs;
  const auto ip = static_cast<uint64_t>(g[REG_RIP]);
  const auto given = static_cast<greg_t>(t->masked_wait);
  const bool has_ended =
      given != 0 && g[REG_RAX] == kInterrupted && ip - seam::kCore < seam::kCoreSize &&
      reinterpret_cast<const uint16_t*>(ip)[-1] == kSyscall &&
      (g[REG_RDI] == given || g[REG_R8] == given || g[REG_R9] == given || g[REG_R10] == given);
  if (!has_ended) return context->uc_sigmask.__val[0];
  t->masked_wait = 0;
  // false: a signal of the core ended the wait just before.
  const bool by_it = (t->wait_mask >> (sig - 1) & 1) == 0;
  return by_it ? t->wait_mask : context->uc_sigmask.__val[0];
}

// Enters the program's handler for an arrived signal, if there is one. All signals, the suspend signal too,
// are blocked until this is done: a stopped thread holds no untranslated id of this run (tell_sender), and no
// other handler sees a half-done state. The next pending signal is delivered when the mask is set.
void enter_handler(Entry* e) {
  do_nothing(e);
  if (seam::gs_base() == 0) return on_lower_thread(e);
  seam::ThreadRecord* t = seam::current_thread();
  if (!is_spawned()) tell_sender(e->info);
  const auto sig = static_cast<int>(e->sig);
  auto& entry = seam::state()->actions[sig];
  const seam::SignalAction action = entry;
  const bool moved = on_signal_stack(t, e->frame);
  settle(t, e->context);
  if (action.handler <= 1) return;  // reset meanwhile
  end_rewound_call(t, action, e->context->uc_mcontext.gregs);
  if ((action.flags & seam::kSaResetHand) != 0) {
    if (!is_spawned()) entry.handler = 0;
    if (seam::has_core_default(sig, seam::state()->core)) {
      const seam::SignalAction kernel = seam::kernel_action(sig, {}, seam::state()->core);
      raw(__NR_rt_sigaction, sig, reinterpret_cast<long>(&kernel), 0, 8);
    }
  }
  ++t->handlers;
  const uint64_t fs = seam::fs_base();
  const bool in_lower = t->lower_fs != 0 && fs == t->lower_fs;
  if (moved && !move_frame(t, action, e)) return fault_instead_of(e);
  e->handler = moved || in_lower ? reinterpret_cast<uint64_t>(run_and_return) : action.handler;
  e->argument = action.handler;
  const uint64_t own = (action.flags & seam::kSaNoDefer) != 0 ? 0 : 1ull << (sig - 1);
  const uint64_t mask = (mask_before(t, sig, e->context) | action.mask | own) & ~seam::kReservedSignals;
  if (!moved) return set_signal_mask(mask);
  t->moved_mask = mask;
  t->has_moved = 1;
}

// rt_sigreturn of the program. The program may have changed the mask and the signal stack in the frame at the
// stack pointer (a coroutine library returns into another context).
void return_from_handler(greg_t* g) {
  auto* frame = reinterpret_cast<ucontext_t*>(g[REG_RSP]);
  if (can_be_read(frame, kContextSize)) {
    const uint64_t mask = frame->uc_sigmask.__val[0];
    if ((mask & seam::kReservedSignals) != 0)
      copy_out(reinterpret_cast<long>(&frame->uc_sigmask), mask & ~seam::kReservedSignals);
    const stack_t& stack = frame->uc_stack;
    const uint64_t own = seam::signal_stack(seam::current_thread());
    if (!is_spawned() &&
        (reinterpret_cast<uint64_t>(stack.ss_sp) != own || stack.ss_size != seam::kSignalStackSize))
      copy_out(reinterpret_cast<long>(&stack),
               stack_t{reinterpret_cast<void*>(own), 0, seam::kSignalStackSize});
  }
  g[REG_RIP] = static_cast<greg_t>(seam::state()->core.restorer);
}

// Handles a signal number of the core that the program uses itself, sent by kill() and its kin.
void programs_own(Entry* e) {
  const auto& action = seam::state()->actions[e->sig];
  if (action.handler == 0) die_of(static_cast<int>(e->sig));
  enter_handler(e);
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
  if (upper::made_in_one_piece(e->info->si_syscall)) {
    g[REG_R11] = static_cast<greg_t>(e->context->uc_sigmask.__val[0]);
    e->context->uc_sigmask.__val[0] = ~0ul;
    g[REG_RIP] = reinterpret_cast<greg_t>(cropdl_core_masked_entry);
  } else {
    g[REG_RIP] = reinterpret_cast<greg_t>(cropdl_core_syscall_entry);
  }
}

namespace cropdl::upper {
namespace {
// Whether the signal comes from the program itself: from its process, or from its timer, queue or file. With
// sigqueue() the sender writes the pid itself; the program writes the virtual pid.
bool is_own(const siginfo_t* info) {
  const int code = info->si_code;
  if (code != SI_USER && code != SI_QUEUE && code != SI_TKILL) return true;
  return info->si_pid == raw(__NR_getpid) || (code == SI_QUEUE && info->si_pid == seam::state()->virtual_pid);
}
}  // namespace
}  // namespace cropdl::upper

// SIGUSR1 while the program keeps its default: asks the agent for a checkpoint. A SIGUSR1 from no other
// process, or to a child, kills as natively.
extern "C" void cropdl_enter_trigger(Entry* e) {
  upper::do_nothing(e);
  if (seam::gs_base() == 0) return upper::on_lower_thread(e);
  if (upper::is_child() || upper::is_own(e->info)) upper::die_of(static_cast<int>(e->sig));
  upper::settle_for_core(seam::current_thread(), e->context);
  const int fd = seam::control()->trigger_fd;
  const uint64_t one = 1;
  if (fd >= 0) upper::raw(__NR_write, fd, reinterpret_cast<long>(&one), 8);
}

// SIGTERM while the program keeps its default: asks the agent for a last version, after which the job ends.
// The agent soon restores the kernel's default, for a second SIGTERM. The sender matters as for SIGUSR1.
extern "C" void cropdl_enter_last_version(Entry* e) {
  upper::do_nothing(e);
  if (seam::gs_base() == 0) return upper::on_lower_thread(e);
  const int fd = seam::control()->last_version_fd;
  if (upper::is_child() || upper::is_own(e->info) || fd < 0) upper::die_of(static_cast<int>(e->sig));
  upper::settle_for_core(seam::current_thread(), e->context);
  const uint64_t one = 1;
  upper::raw(__NR_write, fd, reinterpret_cast<long>(&one), 8);
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
  if (t->lower_fs != 0 && fs == t->lower_fs) return;  // parks when it leaves the LH
  upper::settle_for_core(t, e->context);
  if (t->pinned != 0) return;  // the same
  const auto ip = static_cast<uint64_t>(e->context->uc_mcontext.gregs[REG_RIP]);
  if (!upper::can_be_saved(ip)) {  // send the signal again: the next one interrupts elsewhere
    t->asked = 0;
    return;
  }
  t->context = reinterpret_cast<uint64_t>(e->context);
  t->stopped_fs = fs;
  upper::raw(__NR_get_robust_list, 0, reinterpret_cast<long>(&t->robust_list),
             reinterpret_cast<long>(&t->robust_size));
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
  if (upper::is_child()) return;
  if ((seam::control()->attention & seam::kAttentionStop) == 0) return;
  if (t->pinned != 0) return;
  siginfo_t info;
  auto* words = reinterpret_cast<uint64_t*>(&info);
  for (unsigned i = 0; i < sizeof info / sizeof *words; ++i) words[i] = 0;
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = reinterpret_cast<void*>(seam::kSuspendMagic);
  constexpr int kAttempts = 64;
  const auto* page = seam::control();
  const auto is_wanted = [page, t] {
    return (page->attention & seam::kAttentionStop) != 0 && t->parked != page->stop;
  };
  for (int attempt = 0; attempt < kAttempts && is_wanted(); ++attempt) {
    if (attempt > 0) upper::raw(__NR_sched_yield);
    const upper::Undisturbed undisturbed;
    upper::raw(__NR_rt_tgsigqueueinfo, seam::state()->kernel_pid, t->tid, seam::kSuspendSignal,
               reinterpret_cast<long>(&info));
  }
}
