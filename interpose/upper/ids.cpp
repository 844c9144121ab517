// Ids of processes, threads, groups and sessions in a process that continues an image. The program may have
// stored ids of its first run anywhere in its memory. Every system call that takes or returns an id is
// translated here (kTrappedAfterRestart), in the process and in its children. UH, any thread.
//
// The translation is a bijection. An id of the first run stands for its replacement in this run: the
// process's ids, its threads' and parent's, and the other ranks' pids. A process of this run that happens to
// have such an id is shown with kForeignId added, once or more often. All other ids are the kernel's.
#include <asm/unistd.h>
#include <linux/capability.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

// The meaning of an argument or a result.
enum Role : uint8_t {
  kNone,
  kProcess,  // or a thread: they share one number space; 0 is the caller
  kGroup,    // 0 is the caller's
  kSession,
  kTarget,    // kill and wait4: > 0 a process, < -1 a group
  kSelected,  // the argument before it decides: `selection`
  kHeader,    // pointer to a capability header
  kClock,     // the id of a CPU clock contains its process
};

struct IdCalls {
  Role role;
  int place;  // index of the argument
  CallSet calls;
};
constexpr int kResult = -1;
constexpr IdCalls kIdCalls[] = {
    {kProcess, 0,
     CallSet({// groups and signals
              __NR_getpgid, __NR_getsid, __NR_setpgid, __NR_tkill, __NR_tgkill, __NR_rt_sigqueueinfo,
              __NR_rt_tgsigqueueinfo, __NR_pidfd_open,
              // scheduling
              __NR_sched_setaffinity, __NR_sched_getaffinity, __NR_sched_setparam, __NR_sched_getparam,
              __NR_sched_setscheduler, __NR_sched_getscheduler, __NR_sched_setattr, __NR_sched_getattr,
              __NR_sched_rr_get_interval,
              // resources and memory
              __NR_prlimit64, __NR_process_vm_readv, __NR_process_vm_writev, __NR_kcmp, __NR_get_robust_list,
              __NR_migrate_pages, __NR_move_pages})},
    {kProcess, 1,
     CallSet({__NR_tgkill, __NR_rt_tgsigqueueinfo, __NR_kcmp, __NR_ptrace, __NR_perf_event_open})},
    {kGroup, 1, CallSet({__NR_setpgid})},
    {kTarget, 0, CallSet({__NR_kill, __NR_wait4})},
    {kSelected, 1,
     CallSet({__NR_getpriority, __NR_setpriority, __NR_ioprio_get, __NR_ioprio_set, __NR_waitid})},
    {kHeader, 0, CallSet({__NR_capget, __NR_capset})},
    {kClock, 0,
     CallSet({__NR_clock_gettime, __NR_clock_settime, __NR_clock_getres, __NR_clock_nanosleep,
              __NR_timer_create})},
    {kProcess, kResult, CallSet({__NR_getpid, __NR_gettid, __NR_getppid, __NR_wait4})},
    {kGroup, kResult, CallSet({__NR_getpgrp, __NR_getpgid})},
    {kSession, kResult, CallSet({__NR_getsid, __NR_setsid})},
};

Role role_of(long nr, int place) {
  for (const IdCalls& ids : kIdCalls)
    if (ids.place == place && ids.calls.has(nr)) return ids.role;
  return kNone;
}

struct Pair {
  long upper, real;
};

// Visits pairs of first-run id and current id, those of `role` first: a number that was the parent's group
// then may be the process's own now.
template <class Visit>
bool any_pair(Role role, Visit visit) {
  const auto* s = seam::state();
  const Pair self{s->virtual_pid, s->kernel_pid}, parent{s->ids.virtual_parent, s->ids.kernel_parent},
      group{s->ids.virtual_group, s->ids.kernel_group},
      session{s->ids.virtual_session, s->ids.kernel_session};
  auto known = [&](const Pair& p) { return p.upper != 0 && p.real != 0 && visit(p); };
  if (role == kGroup && (known(group) || known(session))) return true;
  if (role == kSession && (known(session) || known(group))) return true;
  if (known(self) || known(parent)) return true;
  for (uint32_t i = 0; i < s->threads_high || i == 0; ++i) {
    const auto& record = s->threads[i];
    const bool counts = record.used != seam::kFree ? record.kind != seam::kSpawnedChild : renames(record);
    if (counts && known({record.virtual_tid, record.tid})) return true;
  }
  const seam::RankIds& others = seam::control()->other_ranks;
  for (uint32_t i = 0; i < others.entries; ++i)
    if (known({others.ranks[i].virtual_pid, others.ranks[i].kernel_pid})) return true;
  return known(group) || known(session);
}

long to_virtual(long real, Role role);

long to_kernel(long upper, Role role) {
  long real = upper;
  const bool known = any_pair(role, [&](const Pair& p) {
    if (p.upper != upper) return false;
    real = p.real;
    return true;
  });
  if (known || upper < seam::kForeignId) return real;
  // Only an id that the program was told. Another one of this size is no process's, as natively.
  const long foreign = upper % seam::kForeignId;
  return to_virtual(foreign, role) == upper ? foreign : upper;
}

long to_virtual(long real, Role role) {
  long upper = real;
  if (any_pair(role, [&](const Pair& p) {
        if (p.real != real) return false;
        upper = p.upper;
        return true;
      }))
    return upper;
  while (any_pair(role, [&](const Pair& p) { return p.upper == upper; })) upper += seam::kForeignId;
  return upper;
}

// Which kind of ids the next argument holds.
Role selection(const SystemCall& c) {
  // PRIO_PROCESS, IOPRIO_WHO_PROCESS or P_PID; then PRIO_PGRP, IOPRIO_WHO_PGRP or P_PGID
  const int process = c.nr == __NR_getpriority || c.nr == __NR_setpriority ? 0 : 1;
  const int which = static_cast<int>(c.a[0]);
  return which == process ? kProcess : which == process + 1 ? kGroup : kNone;
}

// Bits of a CPU clock's id (include/linux/posix-timers_types.h): the complement of the pid above three bits
// that select the clock; 3 in the lowest two bits is a device's clock.
long kernel_clock(long clock) {
  const int id = static_cast<int>(clock);
  if (id >= 0 || (id & 3) == 3) return clock;
  const long process = ~(id >> 3);
  if (process == 0) return clock;
  long real = to_kernel(process, kProcess);
  // The caller's own id becomes 0: a wait for such a clock may last over a restart.
  const bool of_thread = (id & 4) != 0;
  if (!is_child() && real == (of_thread ? seam::current_thread()->tid : seam::state()->kernel_pid)) real = 0;
  return static_cast<int>(~static_cast<unsigned>(real) << 3 | (id & 7));
}

long kernel_argument(long value, Role role) {
  const int id = static_cast<int>(value);
  if (role == kClock) return kernel_clock(value);
  if (role == kTarget && id < -1) return -to_kernel(-static_cast<long>(id), kGroup);
  if (role == kTarget) role = kProcess;
  return (role == kProcess || role == kGroup) && id > 0 ? to_kernel(id, role) : value;
}

CROPDL_OWN_FRAME long with_ids(const SystemCall& c) { return pass_on(with_kernel_ids(c)); }

// The kernel writes to the header if it does not support the version (man 2 capget).
CROPDL_OWN_FRAME long capability_call(const SystemCall& c) {
  __user_cap_header_struct header;
  if (!copy_in(&header, c.a[0])) return pass_on(c);
  __user_cap_header_struct own = header;
  own.pid = static_cast<int>(kernel_argument(own.pid, kProcess));
  const long result = raw(c.nr, as_word(&own), c.a[1]);
  return own.version == header.version || copy_out(c.a[0], own.version) ? result : kBadAddress;
}

// Records the process's group and session after setpgid or setsid.
void note_group() {
  if (is_child()) return;
  auto* s = seam::state();
  const long group = raw(__NR_getpgid, 0), session = raw(__NR_getsid, 0);
  if (group != s->ids.kernel_group) {
    s->ids.virtual_group = static_cast<int32_t>(to_virtual(group, kProcess));
    s->ids.kernel_group = static_cast<int32_t>(group);
  }
  if (session != s->ids.kernel_session) {
    s->ids.virtual_session = static_cast<int32_t>(to_virtual(session, kProcess));
    s->ids.kernel_session = static_cast<int32_t>(session);
  }
}

}  // namespace

void tell_sender(siginfo_t* info) {
  if (seam::control()->restarted == 0) return;
  // With sigqueue() the sender writes si_pid itself: the program, and each other rank, its virtual pid.
  if (info->si_code == SI_QUEUE && (info->si_pid == seam::state()->virtual_pid ||
                                    seam::control()->other_ranks.kernel_pid(info->si_pid) != 0))
    return;
  // Signals with a sender, and a child's end (man 2 sigaction).
  const bool sent = info->si_code <= 0 && info->si_code != SI_TIMER && info->si_code != SI_ASYNCIO;
  if ((sent || info->si_signo == SIGCHLD) && info->si_pid > 0)
    info->si_pid = static_cast<pid_t>(to_virtual(info->si_pid, kProcess));
}

void tell_waited(seam::ThreadRecord* t) {
  if (t->sender_untranslated != 0) tell_sender(reinterpret_cast<siginfo_t*>(t->sender_untranslated));
  t->sender_untranslated = 0;
}

long create_timer(const SystemCall& c) {
  sigevent event;
  const long clock = to_kernel_clock(c.a[0]);
  if (seam::control()->restarted == 0 || c.a[1] == 0 || !copy_in(&event, c.a[1]))
    return raw(c.nr, clock, c.a[1], c.a[2]);
  if ((event.sigev_notify & SIGEV_THREAD_ID) != 0)
    event._sigev_un._tid = static_cast<pid_t>(kernel_argument(event._sigev_un._tid, kProcess));
  return raw(c.nr, clock, as_word(&event), c.a[2]);
}

long to_kernel_clock(long clock) { return seam::control()->restarted != 0 ? kernel_clock(clock) : clock; }
long to_kernel_pid(long upper) { return to_kernel(upper, kProcess); }
long to_virtual_pid(long real) {
  return seam::control()->restarted != 0 && real > 0 ? to_virtual(real, kProcess) : real;
}
void tell_process(long at) {
  auto* id = reinterpret_cast<int32_t*>(at);
  *id = static_cast<int32_t>(to_virtual_pid(*id));
}
long to_kernel_group(long upper) { return to_kernel(upper, kGroup); }
long to_virtual_group(long real) { return real > 0 ? to_virtual(real, kGroup) : real; }
long to_virtual_session(long real) { return real > 0 ? to_virtual(real, kSession) : real; }
long own_process() { return to_virtual(raw(__NR_getpid), kProcess); }

bool takes_ids(long nr) {
  for (const IdCalls& ids : kIdCalls)
    if (ids.calls.has(nr)) return true;
  return false;
}

SystemCall with_kernel_ids(const SystemCall& c) {
  SystemCall call = c;
  if (seam::control()->restarted == 0) return call;
  for (int i = 0; i < 2; ++i) {
    const Role role = role_of(c.nr, i);
    call.a[i] = kernel_argument(c.a[i], role == kSelected ? selection(c) : role);
  }
  return call;
}

long id_call(const SystemCall& c) {
  if (c.nr == __NR_capget || c.nr == __NR_capset) return capability_call(c);
  // wait4 and waitid may wait long. Their kernel ids are of children, which no image has.
  const long result = with_ids(c);
  if (c.nr == __NR_waitid && result == 0 && c.a[2] != 0) tell_process(c.a[2] + 16);  // si_pid
  if (!failed(result) && (c.nr == __NR_setpgid || c.nr == __NR_setsid)) note_group();
  const Role role = role_of(c.nr, kResult);
  return role != kNone && result > 0 ? to_virtual(result, role) : result;
}

}  // namespace cropdl::upper
