// The table of attributes: one row each. Sources: man 5 proc, man 2 prctl, Linux include/uapi/linux/prctl.h.
#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/procfs.h"
#include "restart/process/attributes.h"
#include "restart/process/credentials.h"

namespace cropdl::process {
namespace {

long long number(const std::string& text) { return strtoll(text.c_str(), nullptr, 10); }

// --- Files of /proc

// Files from kSecurity on belong to the calling thread, the others to the process.
constexpr const char* kFiles[] = {"oom_score_adj", "coredump_filter", "loginuid",
                                  "autogroup",     "attr/current",    "attr/exec",
                                  "attr/fscreate", "attr/keycreate",  "attr/sockcreate"};
enum FileIndex { kOom, kCoredump, kLogin, kAutogroup, kSecurity, kExec, kFsCreate, kKeyCreate, kSockCreate };

std::string file_path(int which) {
  return std::string(which >= kSecurity ? "/proc/thread-self/" : "/proc/self/") + kFiles[which];
}

std::string read_file(int which) {
  // The machine's security modules decide which labels exist (security_getprocattr). Every thread reads all
  // of them, so an unknown label is remembered.
  static std::atomic<unsigned> unknown;
  if ((unknown.load(std::memory_order_relaxed) >> which & 1) != 0) return "";
  std::ifstream in(file_path(which));
  std::string text;
  errno = 0;
  std::getline(in, text, '\0');
  if (which >= kSecurity && text.empty() && errno == EINVAL) unknown |= 1u << which;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (which == kAutogroup) {  // "/autogroup-123 nice 0": the group belongs to the session
    const size_t at = text.rfind("nice ");
    return at == std::string::npos ? "" : text.substr(at + 5);
  }
  return text;
}

bool write_file(int which, const std::string& value) {
  const int fd = open(file_path(which).c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const std::string text = which == kCoredump ? "0x" + value : value;
  const ssize_t n = write(fd, text.c_str(), text.size());
  const int error = errno;
  close(fd);
  errno = error;
  return n == static_cast<ssize_t>(text.size());
}

constexpr const char* kNamespaces[] = {
    "uts", "mnt", "net", "ipc", "user", "pid", "pid_for_children", "cgroup", "time", "time_for_children"};
std::string read_namespace(int which) {
  return link_text(std::string("/proc/thread-self/ns/") + kNamespaces[which]);
}

std::string read_root(int) {
  const std::string text = link_text("/proc/thread-self/root");
  struct stat st {};
  if (text.empty() || stat("/", &st) != 0) return "";
  return formatted("{} ({}:{})", text, st.st_dev, st.st_ino);
}

std::string stat_field(int which) { return process_stat("self", static_cast<size_t>(which)); }

// Seccomp filters of this thread; kernels before 5.10 do not count them.
std::string read_seccomp(int) { return seccomp_in(kernel_text("/proc/thread-self/status")); }

// --- Limits

struct LimitRow {
  int resource;
  const char *name, *shown;
};
constexpr LimitRow kLimitRows[] = {{RLIMIT_CPU, "RLIMIT_CPU", "Max_cpu_time"},
                                   {RLIMIT_FSIZE, "RLIMIT_FSIZE", "Max_file_size"},
                                   {RLIMIT_DATA, "RLIMIT_DATA", "Max_data_size"},
                                   {RLIMIT_STACK, "RLIMIT_STACK", "Max_stack_size"},
                                   {RLIMIT_CORE, "RLIMIT_CORE", "Max_core_file_size"},
                                   {RLIMIT_RSS, "RLIMIT_RSS", "Max_resident_set"},
                                   {RLIMIT_NPROC, "RLIMIT_NPROC", "Max_processes"},
                                   {RLIMIT_NOFILE, "RLIMIT_NOFILE", "Max_open_files"},
                                   {RLIMIT_MEMLOCK, "RLIMIT_MEMLOCK", "Max_locked_memory"},
                                   {RLIMIT_AS, "RLIMIT_AS", "Max_address_space"},
                                   {RLIMIT_LOCKS, "RLIMIT_LOCKS", "Max_file_locks"},
                                   {RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING", "Max_pending_signals"},
                                   {RLIMIT_MSGQUEUE, "RLIMIT_MSGQUEUE", "Max_msgqueue_size"},
                                   {RLIMIT_NICE, "RLIMIT_NICE", "Max_nice_priority"},
                                   {RLIMIT_RTPRIO, "RLIMIT_RTPRIO", "Max_realtime_priority"},
                                   {RLIMIT_RTTIME, "RLIMIT_RTTIME", "Max_realtime_timeout"}};

// Parameter: the resource, plus kHard for the hard limit. Value -1: no limit.
constexpr int kHard = 256;
bool get_limit(int which, rlimit& limit) {
  return syscall(SYS_prlimit64, 0, which & ~kHard, nullptr, &limit) == 0;
}
std::string read_limit(int which) {
  rlimit limit{};
  if (!get_limit(which, limit)) return "";
  return std::to_string(static_cast<long long>((which & kHard) != 0 ? limit.rlim_max : limit.rlim_cur));
}
bool write_limit(int which, const std::string& value) {
  rlimit limit{};
  if (!get_limit(which, limit)) return false;
  ((which & kHard) != 0 ? limit.rlim_max : limit.rlim_cur) = static_cast<rlim_t>(number(value));
  if ((which & kHard) != 0) limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  return syscall(SYS_prlimit64, 0, which & ~kHard, &limit, nullptr) == 0;
}

// --- prctl

// Parameter: the PR_GET option times 256, plus the PR_SET option.
constexpr int pair(int get, int set) { return get * 256 + set; }
std::string read_prctl(int which) {
  const long value = syscall(SYS_prctl, which / 256, 0, 0, 0, 0);  // the C library's prctl returns an int
  return value < 0 ? "" : std::to_string(value);
}
std::string read_prctl_by_pointer(int which) {
  int value = 0;
  return prctl(which / 256, &value, 0, 0, 0) < 0 ? "" : std::to_string(value);
}
bool write_prctl(int which, const std::string& value) {
  return prctl(which % 256, static_cast<unsigned long>(number(value)), 0, 0, 0) == 0;
}
bool is_0_or_1(const std::string& value) { return value == "0" || value == "1"; }
bool is_0(const std::string& value) { return value == "0"; }

bool write_mce_kill(int, const std::string& value) {
  return prctl(PR_MCE_KILL, PR_MCE_KILL_SET, static_cast<unsigned long>(number(value)), 0, 0) == 0;
}
// PR_THP_DISABLE_EXCEPT_ADVISED, and flags that later kernels may add, are the bits above the lowest.
bool write_thp(int, const std::string& value) {
  const auto bits = static_cast<unsigned long>(number(value));
  return prctl(PR_SET_THP_DISABLE, bits & 1, bits & ~1ul, 0, 0) == 0;
}
std::string read_speculation(int which) {
  const int value = prctl(PR_GET_SPECULATION_CTRL, which, 0, 0, 0);
  return value < 0 ? "" : std::to_string(value);
}
// PR_SPEC_PRCTL only says that the value can be set.
bool write_speculation(int which, const std::string& value) {
  return prctl(PR_SET_SPECULATION_CTRL, which, static_cast<unsigned long>(number(value)) & ~PR_SPEC_PRCTL, 0,
               0) == 0;
}
std::string read_core_cookie(int) {
  unsigned long long cookie = 0;
  constexpr int kSchedCore = 62, kGet = 0, kThread = 0;  // PR_SCHED_CORE, since 5.14
  return prctl(kSchedCore, kGet, 0, kThread, &cookie) == 0 ? std::to_string(cookie) : "";
}
std::string read_timer_ids(int) {
  constexpr int kTimerIds = 77, kGet = 2;  // PR_TIMER_CREATE_RESTORE_IDS, since 6.15
  const int value = prctl(kTimerIds, kGet, 0, 0, 0);
  return value < 0 ? "" : std::to_string(value);
}
bool write_timer_ids(int, const std::string& value) { return prctl(77, number(value), 0, 0, 0) == 0; }

// --- arch_prctl

constexpr int kCpuidGet = 0x1011, kCpuidSet = 0x1012, kPermissionGet = 0x1022, kPermissionRequest = 0x1023,
              kShadowStack = 0x5005, kUntagMask = 0x4001;  // arch/x86/include/uapi/asm/prctl.h
std::string read_cpuid(int) {
  const long value = syscall(SYS_arch_prctl, kCpuidGet, 0);
  return value < 0 ? "" : std::to_string(value);
}
bool write_cpuid(int, const std::string& value) {
  return syscall(SYS_arch_prctl, kCpuidSet, number(value)) == 0;
}
std::string read_arch(int which) {
  unsigned long value = 0;
  return syscall(SYS_arch_prctl, which, &value) == 0 ? std::to_string(value) : "";
}
bool write_permission(int, const std::string& value) {  // one feature at a time; AMX's tiles are 18
  const auto wanted = strtoull(value.c_str(), nullptr, 10);
  const auto have = strtoull(read_arch(kPermissionGet).c_str(), nullptr, 10);
  for (unsigned long feature = 0; feature < 64; ++feature)
    if ((wanted & ~have) >> feature & 1)
      if (syscall(SYS_arch_prctl, kPermissionRequest, feature) != 0) return false;
  return true;
}

// --- Scheduling and memory policy

struct SchedulingAttributes {  // struct sched_attr (man 2 sched_setattr)
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
  uint32_t least, most;
};
constexpr uint64_t kResetOnFork = 1, kReclaim = 2, kOverrun = 4, kKeepAll = 0x18, kClampBoth = 0x60;

bool get_scheduling(SchedulingAttributes& a) {
  a = {};
  return syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) == 0;
}
std::string read_scheduling(int) {
  SchedulingAttributes a;
  if (!get_scheduling(a)) return "";
  std::ostringstream out;
  out << a.policy << ' ' << (a.flags & (kResetOnFork | kReclaim | kOverrun)) << ' ' << a.priority;
  if (a.policy == SCHED_DEADLINE) out << ' ' << a.runtime << ' ' << a.deadline << ' ' << a.period;
  return out.str();
}
bool write_scheduling(int, const std::string& value) {
  SchedulingAttributes a;
  if (!get_scheduling(a)) return false;
  a.size = sizeof a, a.runtime = a.deadline = a.period = 0;
  std::istringstream in(value);
  in >> a.policy >> a.flags >> a.priority >> a.runtime >> a.deadline >> a.period;
  return syscall(SYS_sched_setattr, 0, &a, 0) == 0;
}
std::string read_clamp(int) {
  SchedulingAttributes a;
  if (!get_scheduling(a) || a.size < sizeof a) return "";
  return formatted("{} {}", a.least, a.most);
}
bool write_clamp(int, const std::string& value) {
  SchedulingAttributes a;
  if (!get_scheduling(a)) return false;
  a.size = sizeof a, a.flags = kKeepAll | kClampBoth;
  std::istringstream(value) >> a.least >> a.most;
  return syscall(SYS_sched_setattr, 0, &a, 0) == 0;
}

std::string read_nice(int) {
  errno = 0;
  const int nice = getpriority(PRIO_PROCESS, 0);
  return errno != 0 ? "" : std::to_string(nice);
}
bool write_nice(int, const std::string& value) {
  return setpriority(PRIO_PROCESS, 0, static_cast<int>(number(value))) == 0;
}

using Words = std::vector<unsigned long>;
constexpr size_t kCpuWords = 128, kNodeWords = 16;  // 8192 processors, 1024 nodes

std::string list(const Words& mask) {  // "0-3,8", as the kernel writes it
  std::string out;
  const size_t bits = mask.size() * 64;
  const auto has = [&](size_t i) { return i < bits && (mask[i / 64] >> (i % 64) & 1) != 0; };
  for (size_t i = 0; i < bits; ++i) {
    if (!has(i)) continue;
    size_t last = i;
    while (has(last + 1)) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(i);
    if (last != i) out += formatted("-{}", last);
    i = last;
  }
  return out;
}
Words mask_of(const std::string& text, size_t size) {
  Words mask(size);
  std::istringstream in(text);
  for (std::string range; std::getline(in, range, ',');) {
    char* end = nullptr;
    const size_t first = strtoull(range.c_str(), &end, 10);
    const size_t last = *end == '-' ? strtoull(end + 1, nullptr, 10) : first;
    for (size_t i = first; i <= last && i < size * 64; ++i) mask[i / 64] |= 1ul << (i % 64);
  }
  return mask;
}

std::string read_affinity(int) {
  Words mask(kCpuWords);
  return syscall(SYS_sched_getaffinity, 0, mask.size() * 8, mask.data()) < 0 ? "" : list(mask);
}
bool write_affinity(int, const std::string& value) {
  const Words mask = mask_of(value, kCpuWords);
  return syscall(SYS_sched_setaffinity, 0, mask.size() * 8, mask.data()) == 0;
}

constexpr int kOwnThread = 1;  // IOPRIO_WHO_PROCESS
std::string read_io_priority(int) {
  const long value = syscall(SYS_ioprio_get, kOwnThread, 0);
  return value < 0 ? "" : std::to_string(value);
}
bool write_io_priority(int, const std::string& value) {
  return syscall(SYS_ioprio_set, kOwnThread, 0, number(value)) == 0;
}

std::string read_memory_policy(int) {
  int mode = 0;
  Words nodes(kNodeWords);
  if (syscall(SYS_get_mempolicy, &mode, nodes.data(), nodes.size() * 64, 0, 0) != 0) return "";
  return formatted("{} {}", mode, list(nodes));
}
bool write_memory_policy(int, const std::string& value) {
  const Words nodes = mask_of(value.substr(value.find(' ') + 1), kNodeWords);
  return syscall(SYS_set_mempolicy, number(value), nodes.data(), nodes.size() * 64) == 0;
}

std::string read_membarrier(int) {
  constexpr int kRegistrations = 1 << 9;  // MEMBARRIER_CMD_GET_REGISTRATIONS, since 6.3
  const long mask = syscall(SYS_membarrier, kRegistrations, 0, 0);
  return mask < 0 ? "" : std::to_string(mask);
}
bool write_membarrier(int, const std::string& value) {
  const long mask = number(value);
  for (int bit = 0; bit < 31; ++bit)
    if ((mask >> bit & 1) != 0 && syscall(SYS_membarrier, 1 << bit, 0, 0) != 0) return false;
  return true;
}

// --- Others

std::string read_personality(int) { return std::to_string(personality(0xffffffff)); }
bool write_personality(int, const std::string& value) {
  return personality(static_cast<unsigned long>(number(value))) != -1;
}

std::string read_keyring(int which) {  // KEY_SPEC_*_KEYRING; the query does not make it
  const long id = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, which, 0);
  return id > 0 ? std::to_string(id) : errno == ENOKEY ? "none" : "";
}

// The value of a leader of its session or group; else the value is the leader's id.
constexpr const char* kLeader = "its own";
std::string read_session(int) { return getsid(0) == getpid() ? kLeader : std::to_string(getsid(0)); }
std::string read_group(int) { return getpgrp() == getpid() ? kLeader : std::to_string(getpgrp()); }
bool is_leader(const std::string& value) { return value == kLeader; }
bool lead_session(int, const std::string&) { return setsid() != -1; }
bool lead_group(int, const std::string&) { return setpgid(0, 0) == 0; }
bool leave_terminal(int, const std::string&) {
  const int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return false;
  const int result = ioctl(fd, TIOCNOTTY);
  close(fd);
  return result == 0;
}

// Per-thread attributes: in the kernel's task_struct, or in credentials, which the C library changes for all
// threads but a raw system call for one. All others belong to the process (its memory, its signals).
constexpr const char* kOfThread[] = {"scheduling policy",
                                     "nice value",
                                     "utilization clamp",
                                     "CPU affinity",
                                     "I/O priority",
                                     "memory policy",
                                     "timer slack",
                                     "time stamp counter switch (PR_SET_TSC)",
                                     "machine check policy",
                                     "I/O flusher flag",
                                     "speculation control (store bypass)",
                                     "speculation control (indirect branches)",
                                     "speculation control (L1D flush)",
                                     kGroups,
                                     kGroupIds,
                                     kUserIds,
                                     kBoundingSet,
                                     kAmbientSet,
                                     kSecureBits,
                                     kCapabilities,
                                     "parent death signal",
                                     "CPUID switch",
                                     "personality",
                                     "no_new_privs flag",
                                     "set of seccomp filters",
                                     "core scheduling cookie",
                                     "shadow stack",
                                     "thread keyring",
                                     "session keyring"};

std::vector<Attribute> make_table() {
  using S = AttributeStage;
  std::vector<Attribute> t = {
      // restore_attributes() raises limits before the credentials, which may give up the right to raise them.
      {"session", "stat:session", S::kFirst, read_session, lead_session, 0, is_leader},
      {"process group", "stat:pgrp", S::kFirst, read_group, lead_group, 0, is_leader},
      {"controlling terminal", "stat:tty_nr", S::kFirst, stat_field, leave_terminal, 7, is_0},
      {"scheduling policy", "stat:policy stat:rt_priority", S::kFirst, read_scheduling, write_scheduling},
      {"nice value", "stat:nice stat:priority", S::kFirst, read_nice, write_nice},
      {"utilization clamp", "", S::kFirst, read_clamp, write_clamp},
      {"nice value of its session (autogroup)", "proc:autogroup", S::kFirst, read_file, write_file,
       kAutogroup},
      {"CPU affinity", "status:Cpus_allowed status:Cpus_allowed_list", S::kFirst, read_affinity,
       write_affinity},
      {"I/O priority", "", S::kFirst, read_io_priority, write_io_priority},
      {"memory policy", "", S::kFirst, read_memory_policy, write_memory_policy},
      {"timer slack", "prctl:PR_GET_TIMERSLACK proc:timerslack_ns", S::kFirst, read_prctl, write_prctl,
       pair(PR_GET_TIMERSLACK, PR_SET_TIMERSLACK)},
      {"oom_score_adj", "proc:oom_score_adj proc:oom_adj", S::kFirst, read_file, write_file, kOom},
      {"loginuid", "proc:loginuid proc:sessionid", S::kFirst, read_file, write_file, kLogin},
      {"core dump filter", "proc:coredump_filter", S::kFirst, read_file, write_file, kCoredump},
      {"child subreaper flag", "prctl:PR_GET_CHILD_SUBREAPER", S::kFirst, read_prctl_by_pointer, write_prctl,
       pair(PR_GET_CHILD_SUBREAPER, PR_SET_CHILD_SUBREAPER)},
      {"huge page switch (PR_SET_THP_DISABLE)", "prctl:PR_GET_THP_DISABLE status:THP_enabled", S::kFirst,
       read_prctl, write_thp, pair(PR_GET_THP_DISABLE, 0)},
      {"memory merging (PR_SET_MEMORY_MERGE)", "prctl:PR_GET_MEMORY_MERGE", S::kFirst, read_prctl,
       write_prctl, pair(68, 67)},
      {"time stamp counter switch (PR_SET_TSC)", "prctl:PR_GET_TSC", S::kLast, read_prctl_by_pointer,
       write_prctl, pair(PR_GET_TSC, PR_SET_TSC)},
      {"machine check policy", "prctl:PR_MCE_KILL_GET", S::kFirst, read_prctl, write_mce_kill,
       pair(PR_MCE_KILL_GET, 0)},
      {"I/O flusher flag", "prctl:PR_GET_IO_FLUSHER", S::kFirst, read_prctl, write_prctl, pair(58, 57)},
      {"speculation control (store bypass)", "prctl:PR_GET_SPECULATION_CTRL status:Speculation_Store_Bypass",
       S::kFirst, read_speculation, write_speculation, 0},
      {"speculation control (indirect branches)", "status:SpeculationIndirectBranch", S::kFirst,
       read_speculation, write_speculation, 1},
      {"speculation control (L1D flush)", "", S::kFirst, read_speculation, write_speculation, 2},
      {"timer id mode (PR_TIMER_CREATE_RESTORE_IDS)", "", S::kFirst, read_timer_ids, write_timer_ids},
      {"membarrier registrations", "", S::kFirst, read_membarrier, write_membarrier, 0, nullptr, false},
      {"extended CPU state permission", "", S::kFirst, read_arch, write_permission, kPermissionGet},

      {kGroups, "status:Groups", S::kCredentials, read_groups},
      {kGroupIds, "status:Gid", S::kCredentials, read_group_ids},
      {kUserIds, "status:Uid", S::kCredentials, read_user_ids},
      {kBoundingSet, "status:CapBnd prctl:PR_CAPBSET_READ", S::kCredentials, read_bounding_set},
      {kAmbientSet, "status:CapAmb prctl:PR_CAP_AMBIENT", S::kCredentials, read_ambient_set},
      {kSecureBits, "prctl:PR_GET_SECUREBITS prctl:PR_GET_KEEPCAPS", S::kCredentials, read_secure_bits},
      {kCapabilities, "status:CapInh status:CapPrm status:CapEff", S::kCredentials, read_capabilities},

      // A change of credentials resets these two (man 2 prctl).
      {"dumpable flag", "prctl:PR_GET_DUMPABLE", S::kAfterCredentials, read_prctl, write_prctl,
       pair(PR_GET_DUMPABLE, PR_SET_DUMPABLE), is_0_or_1},
      {"parent death signal", "prctl:PR_GET_PDEATHSIG", S::kAfterCredentials, read_prctl_by_pointer,
       write_prctl, pair(PR_GET_PDEATHSIG, PR_SET_PDEATHSIG)},

      {"CPUID switch", "", S::kLast, read_cpuid, write_cpuid},
      {"personality", "proc:personality", S::kLast, read_personality, write_personality},
      {"write-xor-execute switch (PR_SET_MDWE)", "prctl:PR_GET_MDWE", S::kLast, read_prctl, write_prctl,
       pair(66, 65)},

      // Cannot be put back: a change refuses the checkpoint.
      {"no_new_privs flag", "status:NoNewPrivs prctl:PR_GET_NO_NEW_PRIVS", S::kFirst, read_prctl, nullptr,
       pair(PR_GET_NO_NEW_PRIVS, 0)},
      {"set of seccomp filters", "status:Seccomp status:Seccomp_filters prctl:PR_GET_SECCOMP", S::kFirst,
       read_seccomp},
      {"core scheduling cookie", "", S::kFirst, read_core_cookie},
      {"shadow stack", "status:x86_Thread_features status:x86_Thread_features_locked", S::kFirst, read_arch,
       nullptr, kShadowStack},
      {"address tagging", "status:untag_mask", S::kFirst, read_arch, nullptr, kUntagMask},
      {"root directory", "proc:root", S::kFirst, read_root},
      {"thread keyring", "", S::kFirst, read_keyring, nullptr, -1},
      {"process keyring", "", S::kFirst, read_keyring, nullptr, -2},
      {"session keyring", "", S::kFirst, read_keyring, nullptr, -3},
  };
  for (int i = 0; i < static_cast<int>(std::size(kNamespaces)); ++i)
    t.push_back({std::string(kNamespaces[i]) + " namespace", std::string("ns:") + kNamespaces[i], S::kFirst,
                 read_namespace, nullptr, i});
  for (int i = kSecurity; i <= kSockCreate; ++i)
    t.push_back({std::string("security label (") + kFiles[i] + ")", std::string("proc:") + kFiles[i],
                 S::kFirst, read_file, nullptr, i});
  for (const LimitRow& row : kLimitRows) {  // the hard limit first: it bounds the soft one
    t.push_back({std::string(row.name) + " (hard)", std::string("limits:") + row.shown, S::kLast, read_limit,
                 write_limit, row.resource | kHard});
    t.push_back(
        {row.name, std::string("limits:") + row.shown, S::kLast, read_limit, write_limit, row.resource});
  }
  for (Attribute& row : t)
    row.of_thread = row.name.find("namespace") != std::string::npos ||
                    row.name.rfind("security label", 0) == 0 ||
                    std::find(std::begin(kOfThread), std::end(kOfThread), row.name) != std::end(kOfThread);
  return t;
}

}  // namespace

std::span<const Attribute> attributes() {
  static const std::vector<Attribute> table = make_table();
  return table;
}

const std::map<std::string, std::string>& other_attributes() {
  static const std::map<std::string, std::string> others = [] {
    std::map<std::string, std::string> all;
    const auto because = [&all](const char* reason, const char* words) {
      std::istringstream in(words);
      for (std::string word; in >> word;) all[word] = reason;
    };
    because("saved with the image",
            "status:Name status:Umask prctl:PR_GET_NAME prctl:PR_GET_TID_ADDRESS proc:cwd "
            "proc:comm proc:exe proc:cmdline stat:comm");
    because(
        "ids are virtual after a restart, but their text in /proc is the kernel's",
        "status:Tgid status:Pid status:PPid status:NStgid status:NSpid status:NSpgid status:NSsid stat:pid "
        "stat:ppid");
    because("signals are saved by themselves",
            "status:SigQ status:SigPnd status:ShdPnd status:SigBlk status:SigIgn status:SigCgt stat:signal "
            "stat:blocked stat:sigignore stat:sigcatch stat:exit_signal proc:timers");
    because("memory is saved by itself",
            "proc:maps proc:smaps proc:smaps_rollup proc:numa_maps proc:pagemap proc:mem proc:map_files "
            "proc:clear_refs proc:auxv proc:environ proc:statm proc:ksm_stat proc:ksm_merging_pages "
            "status:VmPeak "
            "status:VmSize status:VmLck status:VmPin status:VmHWM status:VmRSS status:RssAnon status:RssFile "
            "status:RssShmem status:VmData status:VmStk status:VmExe status:VmLib status:VmPTE status:VmSwap "
            "status:HugetlbPages stat:vsize stat:rss stat:rsslim stat:startcode stat:endcode stat:startstack "
            "stat:start_data stat:end_data stat:start_brk stat:arg_start stat:arg_end stat:env_start "
            "stat:env_end");
    because("files are saved by themselves", "proc:fd proc:fdinfo status:FDSize");
    because(
        "of the moment, or statistics: the new process has its own",
        "status:State status:Ngid status:Threads status:Kthread status:CoreDumping "
        "status:voluntary_ctxt_switches status:nonvoluntary_ctxt_switches stat:state stat:flags stat:minflt "
        "stat:cminflt stat:majflt stat:cmajflt stat:utime stat:stime stat:cutime stat:cstime "
        "stat:num_threads "
        "stat:itrealvalue stat:starttime stat:kstkesp stat:kstkeip stat:wchan stat:nswap stat:cnswap "
        "stat:processor stat:delayacct_blkio_ticks stat:guest_time stat:cguest_time stat:exit_code "
        "stat:tpgid "
        "proc:io proc:sched proc:schedstat proc:stack proc:syscall proc:wchan proc:latency proc:oom_score "
        "proc:arch_status proc:ksm_stat proc:task proc:status proc:stat proc:limits proc:ns proc:attr "
        "proc:patch_state proc:stack_depth proc:seccomp_cache proc:attr/prev proc:attr/apparmor "
        "proc:attr/smack "
        "proc:cpu_resctrl_groups proc:timens_offsets prctl:PR_GET_TIMING prctl:PR_GET_AUXV");
    because("a debugger's", "status:TracerPid proc:make-it-fail proc:fail-nth");
    because("the machine's or its batch system's",
            "status:Mems_allowed status:Mems_allowed_list proc:cgroup proc:cpuset proc:net proc:mounts "
            "proc:mountinfo "
            "proc:mountstats");
    because("a namespace's", "proc:uid_map proc:gid_map proc:projid_map proc:setgroups");
    because(
        "not of x86-64",
        "prctl:PR_GET_UNALIGN prctl:PR_GET_FPEMU prctl:PR_GET_FPEXC prctl:PR_GET_ENDIAN prctl:PR_GET_FP_MODE "
        "prctl:PR_SVE_GET_VL prctl:PR_SME_GET_VL prctl:PR_PAC_GET_ENABLED_KEYS prctl:PR_GET_TAGGED_ADDR_CTRL "
        "prctl:PR_RISCV_V_GET_CONTROL prctl:PR_PPC_GET_DEXCR prctl:PR_GET_SHADOW_STACK_STATUS");
    return all;
  }();
  return others;
}

}  // namespace cropdl::process
