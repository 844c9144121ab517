// The calls that the filter redirects to the core's `emulate_call`: of both halves, so that they agree.
#pragma once

#include <asm/unistd.h>

namespace cropdl::upper {

inline constexpr int kLandlockRestrictSelf = 446;

// Always trapped (if the instruction pointer lies in the window). The filter looks for them in this order.
inline constexpr int kTrapped[] = {
    // frequent
    __NR_close, __NR_openat, __NR_open, __NR_brk, __NR_mremap, __NR_rt_sigaction, __NR_poll, __NR_epoll_wait,
    __NR_nanosleep, __NR_clock_nanosleep, __NR_select, __NR_ppoll, __NR_pselect6, __NR_epoll_pwait,
    __NR_epoll_pwait2, __NR_rt_sigtimedwait, __NR_rt_sigsuspend, __NR_pause,
    // others
    __NR_readlink, __NR_readlinkat, __NR_clone, __NR_fork, __NR_vfork, __NR_exit, __NR_exit_group,
    __NR_set_tid_address, __NR_shmat, __NR_dup, __NR_dup2, __NR_dup3, __NR_pipe, __NR_pipe2, __NR_socket,
    __NR_socketpair, __NR_accept, __NR_accept4, __NR_creat, __NR_openat2, __NR_epoll_create,
    __NR_epoll_create1, __NR_eventfd, __NR_eventfd2, __NR_signalfd, __NR_signalfd4, __NR_timerfd_create,
    __NR_inotify_init, __NR_inotify_init1, __NR_memfd_create, __NR_userfaultfd, __NR_perf_event_open,
    __NR_fanotify_init, __NR_pidfd_open, __NR_pidfd_getfd, __NR_io_uring_setup, __NR_mq_open,
    __NR_memfd_secret, __NR_close_range, __NR_timer_create, __NR_timer_delete, __NR_execve, __NR_execveat,
    __NR_sigaltstack, __NR_semget, __NR_msgget, __NR_semop, __NR_semtimedop, __NR_io_setup, __NR_io_destroy,
    __NR_msgrcv, __NR_msgsnd, __NR_rt_sigreturn, __NR_rseq, __NR_modify_ldt, kLandlockRestrictSelf};

// Further calls that make descriptors. The filter examines arguments of ioctl, fcntl and reads of the input.
inline constexpr int kMakesDescriptors[] = {  // received
    __NR_recvmsg, __NR_recvmmsg,
    // made
    __NR_open_by_handle_at, __NR_bpf, __NR_open_tree, __NR_fsopen, __NR_fsmount, __NR_fspick, __NR_unshare,
    444 /* landlock_create_ruleset */, 467 /* open_tree_attr */};

// ioctls that return a new descriptor (man 2 ioctl_tty, ioctl_ns)
inline constexpr unsigned kDescriptorIoctls[] = {0x5441 /* TIOCGPTPEER */, 0xb701 /* NS_GET_USERNS */,
                                                 0xb702 /* NS_GET_PARENT */};

// Calls that read from their first argument, a descriptor; trapped for 0 if it is a pipe or a socket.
inline constexpr int kReads[] = {__NR_read, __NR_readv, __NR_preadv2, __NR_recvfrom, __NR_splice, __NR_tee};

// Trapped only if the core handles them: PersistentState::segments, PersistentState::core_level.
inline constexpr int kTrappedSinceSegments[] = {__NR_shmget};
inline constexpr int kTrappedSinceLevel1[] = {__NR_iopl, __NR_ioperm, __NR_fallocate};
inline constexpr int kTrappedSinceLevel2[] = {__NR_flock};
inline constexpr int kLocksSinceLevel2[] = {6 /* F_SETLK */, 7 /* F_SETLKW */, 37 /* F_OFD_SETLK */,
                                            38 /* F_OFD_SETLKW */};  // of fcntl

// Trapped only in a process that continues an image: they return or take ids of the first run (ids.cpp).
inline constexpr int kTrappedAfterRestart[] = {
    __NR_getpid, __NR_gettid, __NR_getppid, __NR_getpgrp, __NR_getpgid, __NR_getsid, __NR_setpgid,
    __NR_setsid, __NR_kill, __NR_tkill, __NR_tgkill, __NR_rt_sigqueueinfo, __NR_rt_tgsigqueueinfo,
    __NR_sched_setaffinity, __NR_sched_getaffinity, __NR_sched_setparam, __NR_sched_getparam,
    __NR_sched_setscheduler, __NR_sched_getscheduler, __NR_sched_setattr, __NR_sched_getattr,
    __NR_sched_rr_get_interval, __NR_getpriority, __NR_setpriority, __NR_ioprio_get, __NR_ioprio_set,
    __NR_prlimit64, __NR_process_vm_readv, __NR_process_vm_writev, __NR_kcmp, __NR_get_robust_list,
    __NR_migrate_pages, __NR_move_pages, __NR_ptrace, __NR_capget, __NR_capset, __NR_wait4, __NR_waitid,
    // Clocks that continue over a restart (clocks.cpp).
    __NR_clock_gettime, __NR_clock_getres, __NR_getrusage, __NR_times,
    // Paths in /proc contain ids (proc_paths.cpp).
    __NR_stat, __NR_lstat, __NR_newfstatat, __NR_statx, __NR_access, __NR_faccessat, __NR_faccessat2,
    __NR_chdir, __NR_statfs, __NR_inotify_add_watch};

inline constexpr int kTrappedAfterRestartSinceLevel2[] = {__NR_sysinfo};  // a clock: its uptime

// Commands that take or return ids (id_commands.cpp); trapped after a restart, since core level 2.
struct IdCommand {
  int nr;
  unsigned command;
};
inline constexpr unsigned kSetOwn = 8, kGetOwn = 9, kSetOwnEx = 15, kGetOwnEx = 16;  // F_SETOWN and its kin
inline constexpr unsigned kTerminalSession = 0x5429;                                 // TIOCGSID
inline constexpr IdCommand kIdCommands[] = {
    {__NR_fcntl, 5 /* F_GETLK */},
    {__NR_fcntl, 36 /* F_OFD_GETLK */},
    {__NR_fcntl, kSetOwn},
    {__NR_fcntl, kGetOwn},
    {__NR_fcntl, kSetOwnEx},
    {__NR_fcntl, kGetOwnEx},
    {__NR_ioctl, 0x540f /* TIOCGPGRP */},
    {__NR_ioctl, kTerminalSession},
    {__NR_getsockopt, 17 /* SO_PEERCRED */},
    {__NR_semctl, 11 /* GETPID */},
    {__NR_shmctl, 2 /* IPC_STAT */},
    {__NR_shmctl, 13 /* SHM_STAT */},
    {__NR_shmctl, 15 /* SHM_STAT_ANY */},
    {__NR_msgctl, 2 /* IPC_STAT */},
    {__NR_msgctl, 11 /* MSG_STAT */},
    {__NR_msgctl, 13 /* MSG_STAT_ANY */},
};
// The argument that holds the command.
constexpr int command_argument(long nr) { return nr == __NR_getsockopt || nr == __NR_semctl ? 2 : 1; }

// Fail with ENOSYS, which glibc handles. clone3's arguments are in memory, where the filter cannot see.
inline constexpr int kAbsent[] = {__NR_clone3};

}  // namespace cropdl::upper
