// The program's signal handlers, entered from the core's (handlers.cpp) and left again.
#include <asm/unistd.h>

#include "interpose/seam/signal_frame.h"
#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

// struct rt_sigframe of the kernel (arch/x86/include/asm/sigframe.h): restorer, the kernel's ucontext, which
// is shorter than the C library's, and siginfo. The floating point state is elsewhere on the same stack.
constexpr uint64_t kContextSize = 304, kInfoSize = 128;
constexpr uint64_t kFrameSize = 8 + kContextSize + kInfoSize;

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

// Like the kernel without room for a handler's frame (force_sigsegv): a fault at the interrupted instruction.
void fault_instead_of(const Entry* e) {
  const auto& action = seam::state()->actions[SIGSEGV];
  const bool blocked = (e->context->uc_sigmask.__val[0] >> (SIGSEGV - 1) & 1) != 0;
  if (e->sig == SIGSEGV || blocked || action.handler <= 1) die_of(SIGSEGV);
  siginfo_t info{};
  info.si_signo = SIGSEGV;
  info.si_code = SI_KERNEL;
  const long self = raw(__NR_gettid), process = raw(__NR_getpid);
  if (failed(raw(__NR_rt_tgsigqueueinfo, process, self, SIGSEGV, as_word(&info))))
    raw(__NR_tgkill, process, self, SIGSEGV);
}

// Shows the program its own alternate stack in a frame that the kernel has made on the interrupted stack. The
// program's rt_sigreturn of it is trapped, and return_from_handler() gives the kernel the core's stack back;
// not where the core, or text outside the window, makes that call.
void show_programs_stack(const seam::ThreadRecord* t, const Entry* e) {
  const uint64_t restorer = *reinterpret_cast<const uint64_t*>(e->frame);
  if (is_spawned() || !seam::in_window(restorer) || restorer - seam::kCore < seam::kCoreSize) return;
  e->context->uc_stack = programs_stack(t);
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
  const stack_t programs = programs_stack(t);
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
  // The handler may have changed its own stack in the frame. The kernel gets the core's stack back.
  if (disarm || context->uc_stack.ss_sp != programs.ss_sp || context->uc_stack.ss_size != programs.ss_size) {
    t->alternate_sp = reinterpret_cast<uint64_t>(context->uc_stack.ss_sp);
    t->alternate_size = context->uc_stack.ss_size;
    t->alternate_flags = static_cast<uint32_t>(context->uc_stack.ss_flags) & ~1u;
  }
  context->uc_stack = kernels;
  // return_from_handler() does not see a return by the core itself.
  context->uc_sigmask.__val[0] &= ~seam::kReservedSignals;
}

}  // namespace

void do_nothing(Entry* e) { e->handler = reinterpret_cast<uint64_t>(cropdl_return); }

void on_lower_thread(const Entry* e) {
  if (e->info->si_code > 0 && e->info->si_code != SI_KERNEL) die_of(static_cast<int>(e->sig));
  raw(__NR_rt_tgsigqueueinfo, raw(__NR_getpid), seam::state()->threads[0].tid, e->sig, as_word(e->info));
}

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
      raw(__NR_rt_sigaction, sig, as_word(&kernel), 0, 8);
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
  if (!moved) {
    if (!in_lower) show_programs_stack(t, e);
    return set_signal_mask(mask);
  }
  t->moved_mask = mask;
  t->has_moved = 1;
}

void return_from_handler(greg_t* g) {
  auto* frame = reinterpret_cast<ucontext_t*>(g[REG_RSP]);
  if (can_be_read(frame, kContextSize)) {
    const uint64_t mask = frame->uc_sigmask.__val[0];
    if ((mask & seam::kReservedSignals) != 0)
      copy_out(as_word(&frame->uc_sigmask), mask & ~seam::kReservedSignals);
    const stack_t& stack = frame->uc_stack;
    const uint64_t own = seam::signal_stack(seam::current_thread());
    if (!is_spawned() &&
        (reinterpret_cast<uint64_t>(stack.ss_sp) != own || stack.ss_size != seam::kSignalStackSize))
      copy_out(as_word(&stack), stack_t{reinterpret_cast<void*>(own), 0, seam::kSignalStackSize});
  }
  g[REG_RIP] = static_cast<greg_t>(seam::state()->core.restorer);
}

void programs_own(Entry* e) {
  const auto& action = seam::state()->actions[e->sig];
  if (action.handler == 0) die_of(static_cast<int>(e->sig));
  enter_handler(e);
}

}  // namespace cropdl::upper
