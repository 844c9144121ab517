// Dispatches each trapped system call to its function. interpose/host/filter.cpp must trap the same numbers.
#include <asm/unistd.h>
#include <linux/mman.h>

#include "interpose/upper/core.h"
#include "interpose/upper/trapped.h"

namespace cropdl::upper {

bool made_in_one_piece(long nr, long operation) {
  static constexpr CallSet kIndivisible(
      {// descriptors
       __NR_close, __NR_close_range, __NR_dup, __NR_dup2, __NR_dup3, __NR_fcntl, __NR_pipe, __NR_pipe2,
       __NR_socket, __NR_socketpair, __NR_epoll_create, __NR_epoll_create1, __NR_eventfd, __NR_eventfd2,
       __NR_signalfd, __NR_signalfd4, __NR_timerfd_create, __NR_inotify_init, __NR_inotify_init1,
       __NR_memfd_create, __NR_memfd_secret, __NR_userfaultfd, __NR_perf_event_open, __NR_fanotify_init,
       __NR_pidfd_open, __NR_pidfd_getfd, __NR_io_uring_setup, __NR_open_by_handle_at, __NR_bpf,
       __NR_open_tree, __NR_fsopen, __NR_fsmount, __NR_fspick, __NR_unshare, __NR_ioctl,
       444 /* landlock_create_ruleset */, 467 /* open_tree_attr */,
       // signals, threads and processes
       __NR_rt_sigaction, __NR_sigaltstack, __NR_clone, __NR_fork, __NR_vfork, __NR_exit, __NR_exit_group,
       __NR_set_tid_address, __NR_rseq,
       // what is counted or noted
       __NR_timer_create, __NR_timer_delete, __NR_io_setup, __NR_io_destroy, __NR_iopl, __NR_ioperm,
       __NR_membarrier, kLandlockRestrictSelf,
       // what returns ids by a command
       __NR_getsockopt, __NR_semctl, __NR_shmctl, __NR_msgctl});
  static constexpr CallSet kMayWaitLong({__NR_wait4, __NR_waitid, __NR_clock_nanosleep, __NR_futex});
  if (asks_for_lock(nr, operation)) return false;  // may wait long
  // Registers must hold no ids and times of this run at a cut.
  return kIndivisible.has(nr) || (!kMayWaitLong.has(nr) && (takes_ids(nr) || takes_clock(nr)));
}

namespace {

template <class Note>
long noted(long result, Note note) {
  if (!failed(result) && !is_child()) note();
  return result;
}

// Counts the result of a call that makes or ends an object in the kernel.
template <class Count>
long counted(long result, Count* alive, int change) {
  return noted(result, [=] { __atomic_fetch_add(alive, change, __ATOMIC_RELAXED); });
}

// Refuses a call whose effect no later run would have, or that would overwrite CropDL's own state.
long not_here(LineOnce which, const char* line, long error) {
  if (!is_child()) say_once(which, line);
  return error;
}

long map_code(const SystemCall& c) {
  long result = place_mmap(c);
  if (failed(result)) return result;
  if ((c.a[3] & MAP_ANONYMOUS) == 0 && from_loader(c.from) && seam::control()->patch_libc != 0)
    result = patch_libc(c, result);
  if (!seam::in_window(result) && !is_child()) seam::state()->foreign_code = 1;
  return result;
}

long map_memory(const SystemCall& c) {
  if ((c.a[2] & PROT_EXEC) != 0) return map_code(c);
  return seam::fs_base() == 0 ? place_thread_block(c) : place_mmap(c);
}

// The filter traps only these two options.
long process_option(const SystemCall& c) {
  constexpr int kTimeStamps = 26 /* PR_SET_TSC */, kForbidden = 2 /* PR_TSC_SIGSEGV */;
  if (static_cast<int>(c.a[0]) == kTimeStamps) {
    if (static_cast<int>(c.a[1]) == kForbidden && !is_child()) note_unseen(seam::kUnseenTimeStamps);
    return pass_on(c);
  }
  return not_here(kNoDispatch,
                  "cropdl: the program wants its system calls sent to itself (PR_SET_SYSCALL_USER_DISPATCH): "
                  "it is told that the kernel cannot\n",
                  kInvalid);
}

long thread_end_address(const SystemCall& c) {
  if (is_child()) return raw(c.nr, c.a[0]);
  seam::current_thread()->clear_tid = c.a[0];
  const long tid = raw(c.nr, c.a[0]);
  return seam::control()->restarted != 0 ? seam::current_thread()->virtual_tid : tid;
}

CROPDL_OWN_FRAME long signal_descriptor(const SystemCall& c) {
  SystemCall call = c;
  uint64_t wanted;
  leave_out(kSuspend, &wanted, &call.a[1]);
  return descriptor_call(call);
}

CROPDL_OWN_FRAME long descriptor_of_process(const SystemCall& c) {
  return descriptor_call(with_kernel_ids(c));
}

CROPDL_OWN_FRAME long sleep_by_clock(const SystemCall& c) {
  constexpr long kAbsolute = 1;  // TIMER_ABSTIME
  if ((c.a[1] & kAbsolute) != 0 && is_own_clock(c.a[0])) return sleep_until(c);
  SystemCall call = c;
  call.a[0] = to_kernel_clock(c.a[0]);
  return timed_wait_of_copy(&call);
}

// Calls that the kernel performs, after a change of arguments or before a note of the effect.
long kernels_call(const SystemCall& c) {
  static constexpr CallSet kSystemV({__NR_shmget, __NR_semget, __NR_msgget, __NR_semop, __NR_semtimedop});
  if (kSystemV.has(c.nr)) return system_v_call(c);
  switch (c.nr) {
    case __NR_mprotect:  // the filter traps only calls that make memory outside the window executable
    case __NR_pkey_mprotect:
      if (!is_child()) seam::state()->foreign_code = 1;
      return pass_on(c);
    case __NR_prctl:
      return process_option(c);
    case __NR_set_tid_address:
      return thread_end_address(c);
    case __NR_io_setup:
      return counted(pass_on(c), &seam::state()->io_contexts, 1);
    case __NR_io_destroy:
      return counted(pass_on(c), &seam::state()->io_contexts, -1);
    case __NR_timer_create:
      return counted(create_timer(c), &seam::state()->posix_timers, 1);
    case __NR_timer_delete:
      return counted(pass_on(c), &seam::state()->posix_timers, -1);
    case __NR_signalfd:
    case __NR_signalfd4:
      return signal_descriptor(c);
    case __NR_membarrier:  // the filter traps only registrations
      return noted(pass_on(c), [&] {
        __atomic_fetch_or(&seam::state()->membarriers, static_cast<uint32_t>(c.a[0]), __ATOMIC_RELAXED);
      });
    case kLandlockRestrictSelf:
      return noted(pass_on(c), [] { note_unseen(seam::kUnseenLandlock); });
    case __NR_iopl:
    case __NR_ioperm:
      return noted(pass_on(c), [&] {
        const auto opens = static_cast<uint32_t>(c.nr == __NR_iopl ? c.a[0] : c.a[2]);
        if (opens != 0) note_unseen(seam::kUnseenPorts);
      });
    case __NR_pidfd_open:
    case __NR_perf_event_open:
      return descriptor_of_process(c);
    case __NR_flock:
    case __NR_fcntl:
      if (asks_for_lock(c.nr, c.a[1])) return lock_file(c);
      return is_id_command(c) ? id_command(c) : descriptor_call(c);
    default:
      if (is_id_command(c)) return id_command(c);
      if (takes_path(c.nr)) return path_call(c);
      if (takes_clock(c.nr)) return clock_call(c);
      if (takes_ids(c.nr)) return id_call(c);
      return descriptor_call(c);
  }
}

}  // namespace

// Calls that the core performs itself, or repeats; all others are kernels_call().
long emulate_call(const SystemCall& c) {
  static constexpr CallSet kMaskedWaits(
      {__NR_rt_sigsuspend, __NR_ppoll, __NR_pselect6, __NR_epoll_pwait, __NR_epoll_pwait2});
  // fallocate in memory (hugetlbfs, tmpfs of older kernels): any signal ends it, and the kernel undoes it.
  static constexpr CallSet kWaits({__NR_nanosleep, __NR_poll, __NR_select, __NR_epoll_wait, __NR_pause,
                                   __NR_rt_sigtimedwait, __NR_msgrcv, __NR_msgsnd, __NR_fallocate});
  if (kMaskedWaits.has(c.nr)) return masked_wait(c);
  if (kWaits.has(c.nr)) return timed_wait(c);
  switch (c.nr) {
    case __NR_mmap:
      return map_memory(c);
    case __NR_mremap:
      return place_mremap(c);
    case __NR_munmap:
      return unmap(c);
    case __NR_brk:
      return move_brk(c.a[0]);
    case __NR_shmat:
      return place_shmat(c);
    case __NR_modify_ldt:
      return not_here(
          kLdtIsTaken,
          "cropdl: the program sets up segments (modify_ldt), which CropDL has for itself: it is told "
          "that there are none\n",
          kNoSuchCall);
    case __NR_arch_prctl:  // the filter traps only operations on GS
      return gs_call(c);
    case __NR_rseq:
      return rseq_call(c);
    case __NR_exit:
      return leave_thread(c);
    case __NR_exit_group:
      return leave_process(c);

    case __NR_rt_sigaction:
      return set_action(c);
    case __NR_rt_sigprocmask:
      return set_mask(c);
    case __NR_sigaltstack:
      return set_alternate_stack(c);
    case __NR_getrandom:  // the filter traps only calls for many bytes
      return long_random(c);
    case __NR_clock_nanosleep:
      return sleep_by_clock(c);
    case __NR_futex:
      if (futex_requeues(c.a[1])) return requeue_call(c);
      return seam::control()->restarted != 0 && !is_child() && futex_has_owner(c.a[1]) ? owned_futex(c)
                                                                                       : futex_wait(c);
    default:
      return kernels_call(c);
  }
}

}  // namespace cropdl::upper

using cropdl::upper::TrappedCall;

extern "C" void cropdl_trapped_call(TrappedCall* call) {
  // The record describes an outer wait: this call comes from a handler that interrupted it, or the program
  // left it by longjmp and other calls use its stack. Only a wait of this call counts.
  auto* t = cropdl::seam::current_thread();
  const uint64_t outer = t->masked_wait, outer_mask = t->wait_mask;
  t->masked_wait = 0;
  call->result() = cropdl::upper::emulate_call(call->call);
  t = cropdl::seam::current_thread();  // a handler may have moved this stack to another thread
  t->masked_wait = outer;
  t->wait_mask = outer_mask;
}

// All signals blocked; r11: the program's mask. Returns 0: done, mask restored; else entry.S makes the clone.
extern "C" int cropdl_masked_call(TrappedCall* call) {
  using namespace cropdl::upper;
  const uint64_t mask = call->r11;
  if (const long nr = call->call.nr; nr == __NR_clone || nr == __NR_fork || nr == __NR_vfork)
    if (const int how = prepare_clone(call, mask); how != 0) return how;
  if (call->result() >= 0) call->result() = emulate_call(call->call);
  set_signal_mask(mask);
  return 0;
}
