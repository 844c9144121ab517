// Ids of processes, threads, groups and sessions in a process that continues an image: the program knows
// those of its first run, and may have them anywhere in its memory. Every system call that takes or gives one
// comes here (kTrappedAfterRestart), in the process itself and in its children, which share its view. UH, any
// thread.
//
// The view is a bijection without a table: ids of the first run stand for what took their place, a process of
// this run that has such a number by chance is told with kForeignId added, all others are as the kernel has
// them.
#include <asm/unistd.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

// What an argument or a result is.
enum Role : uint8_t {
  kNone,
  kProcess,   // or a thread: one space of numbers; 0 is the caller
  kGroup,     // 0 is the caller's
  kSession,   //
  kTarget,    // kill and wait4: > 0 a process, < -1 a group
  kSelected,  // by the argument before it: see `Selection`
  kHeader,    // pointer to a capability header
  kClock,     // a CPU clock has its process in it
};

struct IdCall {
  int16_t nr;
  Role arguments[3];
  Role result;
};

constexpr IdCall kIdCalls[] = {
    {__NR_getpid, {}, kProcess},
    {__NR_gettid, {}, kProcess},
    {__NR_getppid, {}, kProcess},
    {__NR_getpgrp, {}, kGroup},
    {__NR_getpgid, {kProcess}, kGroup},
    {__NR_getsid, {kProcess}, kSession},
    {__NR_setpgid, {kProcess, kGroup}, kNone},
    {__NR_setsid, {}, kSession},
    {__NR_kill, {kTarget}, kNone},
    {__NR_tkill, {kProcess}, kNone},
    {__NR_tgkill, {kProcess, kProcess}, kNone},
    {__NR_rt_sigqueueinfo, {kProcess}, kNone},
    {__NR_rt_tgsigqueueinfo, {kProcess, kProcess}, kNone},
    {__NR_sched_setaffinity, {kProcess}, kNone},
    {__NR_sched_getaffinity, {kProcess}, kNone},
    {__NR_sched_setparam, {kProcess}, kNone},
    {__NR_sched_getparam, {kProcess}, kNone},
    {__NR_sched_setscheduler, {kProcess}, kNone},
    {__NR_sched_getscheduler, {kProcess}, kNone},
    {__NR_sched_setattr, {kProcess}, kNone},
    {__NR_sched_getattr, {kProcess}, kNone},
    {__NR_sched_rr_get_interval, {kProcess}, kNone},
    {__NR_getpriority, {kNone, kSelected}, kNone},
    {__NR_setpriority, {kNone, kSelected}, kNone},
    {__NR_ioprio_get, {kNone, kSelected}, kNone},
    {__NR_ioprio_set, {kNone, kSelected}, kNone},
    {__NR_prlimit64, {kProcess}, kNone},
    {__NR_process_vm_readv, {kProcess}, kNone},
    {__NR_process_vm_writev, {kProcess}, kNone},
    {__NR_kcmp, {kProcess, kProcess}, kNone},
    {__NR_get_robust_list, {kProcess}, kNone},
    {__NR_migrate_pages, {kProcess}, kNone},
    {__NR_move_pages, {kProcess}, kNone},
    {__NR_ptrace, {kNone, kProcess}, kNone},
    {__NR_capget, {kHeader}, kNone},
    {__NR_capset, {kHeader}, kNone},
    {__NR_wait4, {kTarget}, kProcess},
    {__NR_waitid, {kNone, kSelected}, kNone},
    {__NR_pidfd_open, {kProcess}, kNone},
    {__NR_perf_event_open, {kNone, kProcess}, kNone},
    {__NR_clock_gettime, {kClock}, kNone},
    {__NR_clock_settime, {kClock}, kNone},
    {__NR_clock_getres, {kClock}, kNone},
    {__NR_clock_nanosleep, {kClock}, kNone},
    {__NR_timer_create, {kClock}, kNone},
};

const IdCall* id_call_of(long nr) {
  for (const IdCall& call : kIdCalls)
    if (call.nr == nr) return &call;
  return nullptr;
}

struct Pair {
  long upper, real;
};

// The ids of the first run and what stands for them, those of `role` first: what was the parent's group then
// may be the process's own now.
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
    if (record.used != 0 && record.kind != seam::kSpawnedChild && known({record.virtual_tid, record.tid}))
      return true;
  }
  return known(group) || known(session);
}

long to_kernel(long upper, Role role) {
  long real = upper;
  const bool known = any_pair(role, [&](const Pair& p) {
    if (p.upper != upper) return false;
    real = p.real;
    return true;
  });
  return !known && upper >= seam::kForeignId ? upper - seam::kForeignId : real;
}

long to_virtual(long real, Role role) {
  long upper = real;
  if (any_pair(role, [&](const Pair& p) {
        if (p.real != real) return false;
        upper = p.upper;
        return true;
      }))
    return upper;
  const bool taken = any_pair(role, [&](const Pair& p) { return p.upper == real; });
  return taken ? real + seam::kForeignId : real;
}

// Which processes the argument after this one selects.
Role selection(const SystemCall& c) {
  const int which = static_cast<int>(c.a[0]);
  switch (c.nr) {
    case __NR_getpriority:
    case __NR_setpriority:  // PRIO_PROCESS, PRIO_PGRP
      return which == 0 ? kProcess : which == 1 ? kGroup : kNone;
    case __NR_ioprio_get:
    case __NR_ioprio_set:  // IOPRIO_WHO_PROCESS, IOPRIO_WHO_PGRP
      return which == 1 ? kProcess : which == 2 ? kGroup : kNone;
    default:  // waitid: P_PID, P_PGID
      return which == 1 ? kProcess : which == 2 ? kGroup : kNone;
  }
}

// Bits of a CPU clock's id (include/linux/posix-timers_types.h): the complement of the process above three
// bits that say which clock; 3 in the lowest two is a device's clock.
long kernel_clock(long clock) {
  const int id = static_cast<int>(clock);
  if (id >= 0 || (id & 3) == 3) return clock;
  const long process = ~(id >> 3);
  if (process == 0) return clock;
  long real = to_kernel(process, kProcess);
  // The caller's own as 0: such a clock may be waited for over a restart.
  const bool of_thread = (id & 4) != 0;
  if (!is_child() && real == (of_thread ? seam::current_thread()->tid : seam::state()->kernel_pid)) real = 0;
  return static_cast<int>(~static_cast<unsigned>(real) << 3 | (id & 7));
}

long kernel_argument(long value, Role role) {
  const int id = static_cast<int>(value);
  switch (role) {
    case kProcess:
    case kGroup:
      return id > 0 ? to_kernel(id, role) : value;
    case kTarget:
      return id > 0 ? to_kernel(id, kProcess) : id < -1 ? -to_kernel(-static_cast<long>(id), kGroup) : value;
    case kClock:
      return kernel_clock(value);
    default:
      return value;
  }
}

// struct __user_cap_header_struct (man 2 capget). The kernel writes into it, too, when it dislikes the
// version.
struct CapabilityHeader {
  uint32_t version;
  int32_t process;
};

long capability_call(const SystemCall& c) {
  CapabilityHeader header;
  if (!copy_in(&header, c.a[0])) return pass_on(c);
  CapabilityHeader own = header;
  own.process = static_cast<int32_t>(kernel_argument(own.process, kProcess));
  const long result = raw(c.nr, reinterpret_cast<long>(&own), c.a[1]);
  return own.version == header.version || copy_out(c.a[0], own.version) ? result : kBadAddress;
}

// The id of the child that waitid found (man 2 waitid; si_pid lies at offset 16).
void tell_child(long info) {
  if (info == 0) return;
  auto* child = reinterpret_cast<int32_t*>(info + 16);
  if (*child > 0) *child = static_cast<int32_t>(to_virtual(*child, kProcess));
}

// The process's own group and session, which setpgid and setsid have changed.
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
  // What comes with sigqueue() the sender wrote itself: the program, with the number that it knows.
  if (info->si_code == SI_QUEUE && info->si_pid == seam::state()->virtual_pid) return;
  // Those that say who sent it, and a child's end (man 2 sigaction).
  const bool sent = info->si_code <= 0 && info->si_code != SI_TIMER && info->si_code != SI_ASYNCIO;
  if ((sent || info->si_signo == SIGCHLD) && info->si_pid > 0)
    info->si_pid = static_cast<pid_t>(to_virtual(info->si_pid, kProcess));
}

void tell_waited(seam::ThreadRecord* t) {
  if (t->sender_untranslated != 0) tell_sender(reinterpret_cast<siginfo_t*>(t->sender_untranslated));
  t->sender_untranslated = 0;
}

long create_timer(const SystemCall& call) {
  SystemCall c = with_kernel_ids(call);
  struct {  // man 7 sigevent
    uint64_t value;
    int32_t signal, notify, thread, rest[11];
  } event;
  constexpr int kThread = 4;  // SIGEV_THREAD_ID
  if (seam::control()->restarted == 0 || c.a[1] == 0 || !copy_in(&event, c.a[1])) return pass_on(c);
  if ((event.notify & kThread) != 0)
    event.thread = static_cast<int32_t>(kernel_argument(event.thread, kProcess));
  c.a[1] = reinterpret_cast<long>(&event);
  return pass_on(c);
}

long to_kernel_pid(long upper) { return to_kernel(upper, kProcess); }
long to_virtual_pid(long real) {
  return seam::control()->restarted != 0 && real > 0 ? to_virtual(real, kProcess) : real;
}
long own_process() { return to_virtual(raw(__NR_getpid), kProcess); }

bool takes_ids(long nr) { return id_call_of(nr) != nullptr; }

SystemCall with_kernel_ids(const SystemCall& c) {
  SystemCall call = c;
  const IdCall* entry = seam::control()->restarted != 0 ? id_call_of(c.nr) : nullptr;
  if (entry == nullptr) return call;
  for (int i = 0; i < 3; ++i) {
    const Role role = entry->arguments[i] == kSelected ? selection(c) : entry->arguments[i];
    call.a[i] = kernel_argument(c.a[i], role);
  }
  return call;
}

long id_call(const SystemCall& c) {
  const IdCall* entry = id_call_of(c.nr);
  switch (c.nr) {
    case __NR_wait4:
    case __NR_waitid: {  // may last. Real ids in it are of children, which no image has
      const SystemCall call = with_kernel_ids(c);
      const long result = pass_on(call);
      if (c.nr == __NR_waitid && result == 0) tell_child(c.a[2]);
      return c.nr == __NR_wait4 && result > 0 ? to_virtual(result, kProcess) : result;
    }
    default:
      break;
  }
  if (c.nr == __NR_capget || c.nr == __NR_capset) return capability_call(c);
  const SystemCall call = with_kernel_ids(c);
  const long result = pass_on(call);
  if (!failed(result) && (c.nr == __NR_setpgid || c.nr == __NR_setsid)) note_group();
  return entry->result != kNone && result > 0 ? to_virtual(result, entry->result) : result;
}

}  // namespace cropdl::upper
