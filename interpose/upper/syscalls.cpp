// The one table of what the filter traps and who performs it. interpose/lower/filter.cpp must trap the same
// numbers.
#include <asm/unistd.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {

long emulate(const Call& c, ucontext_t* context) {
  switch (c.nr) {
    case __NR_mmap: {
      const long result = seam::fs_base() == 0 ? place_thread_block(c) : place_mmap(c);
      constexpr long kExecutable = 4, kAnonymous = 0x20;
      if (!failed(result) && (c.a[2] & kExecutable) != 0 && (c.a[3] & kAnonymous) == 0 &&
          context != nullptr && seam::control()->patch_libc != 0)
        patch_libc(result, page_up(c.a[1]), static_cast<int>(c.a[4]));
      return result;
    }
    case __NR_mremap:
      return place_mremap(c);
    case __NR_brk:
      return move_brk(c.a[0]);
    case __NR_shmat:
      return place_shmat(c);

    case __NR_rt_sigaction:
      return set_action(c);
    case __NR_rt_sigprocmask:
      return set_mask(c, context);
    case __NR_rt_sigsuspend:
    case __NR_ppoll:
    case __NR_pselect6:
    case __NR_epoll_pwait:
    case __NR_epoll_pwait2:
      return masked_wait(c);
    case __NR_nanosleep:
    case __NR_poll:
    case __NR_select:
    case __NR_epoll_wait:
    case __NR_pause:
    case __NR_rt_sigtimedwait:
      return timed_wait(c);
    case __NR_clock_nanosleep:
      return (c.a[1] & 1) != 0 && is_own_clock(c.a[0]) ? sleep_until(c) : timed_wait(real_ids(c));

    case __NR_clone:
    case __NR_fork:
    case __NR_vfork:
      return clone_call(c, context);
    case __NR_exit:
      return leave_thread(c);
    case __NR_exit_group:
      return leave_process(c);
    case __NR_set_tid_address:
      if (!is_child()) seam::current_thread()->clear_tid = c.a[0];
      return seam::control()->restarted != 0 && !is_child()
                 ? (raw(c.nr, c.a[0]), seam::current_thread()->upper_tid)
                 : raw(c.nr, c.a[0]);

    case __NR_timer_create: {
      const Pin pin;
      const long result = raw(c.nr, real_ids(c).a[0], c.a[1], c.a[2]);
      if (!failed(result) && !is_child())
        __atomic_fetch_add(&seam::state()->posix_timers, 1, __ATOMIC_RELAXED);
      return result;
    }
    case __NR_timer_delete: {
      const Pin pin;
      const long result = raw(c.nr, c.a[0]);
      if (!failed(result) && !is_child())
        __atomic_fetch_sub(&seam::state()->posix_timers, 1, __ATOMIC_RELAXED);
      return result;
    }
    case __NR_semget:
    case __NR_msgget:
    case __NR_semop:
    case __NR_semtimedop:
      return system_v_call(c);

    case __NR_pidfd_open:
    case __NR_perf_event_open:
      return descriptor_call(real_ids(c));

    default:
      if (takes_path(c.nr)) return path_call(c, context);
      if (takes_clock(c.nr)) return clock_call(c);
      if (takes_ids(c.nr)) return id_call(c);
      return descriptor_call(c);
  }
}

}  // namespace cropdl::upper

struct PatchedCall {
  long rax, rdi, rsi, rdx, r10, r8, r9;
};
extern "C" void cropdl_patched_call(PatchedCall* call) {
  call->rax = cropdl::upper::emulate(
      {call->rax, {call->rdi, call->rsi, call->rdx, call->r10, call->r8, call->r9}}, nullptr);
}
