#include "restart/process/attribute_calls.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <new>
#include <sstream>
#include <vector>

#include "base/caught.h"
#include "base/file.h"
#include "base/format.h"
#include "base/procfs.h"

namespace cropdl::process {
namespace {

long long number(const std::string& text) { return strtoll(text.c_str(), nullptr, 10); }

// "" if a system call has failed.
std::string text_of(long result) { return result < 0 ? "" : std::to_string(result); }

std::string file_path(int which) {
  return std::string(which >= kSecurity ? "/proc/thread-self/" : "/proc/self/") + kFiles[which];
}

bool get_limit(int which, rlimit& limit) {
  return syscall(SYS_prlimit64, 0, which & ~kHard, nullptr, &limit) == 0;
}

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
bool set_scheduling(SchedulingAttributes& a) {
  a.size = sizeof a;
  return syscall(SYS_sched_setattr, 0, &a, 0) == 0;
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
  let_exceptions_through(in);
  for (std::string range; std::getline(in, range, ',');) {
    char* end = nullptr;
    const size_t first = strtoull(range.c_str(), &end, 10);
    const size_t last = *end == '-' ? strtoull(end + 1, nullptr, 10) : first;
    for (size_t i = first; i <= last && i < size * 64; ++i) mask[i / 64] |= 1ul << (i % 64);
  }
  return mask;
}

constexpr int kOwnThread = 1;  // IOPRIO_WHO_PROCESS

// The value of a leader of its session or group; else the value is the leader's id.
constexpr const char* kLeader = "its own";

}  // namespace

// --- Files of /proc

std::string read_file(int which) {
  // The machine's security modules decide which labels exist (security_getprocattr). Every thread reads all
  // of them, so an unknown label is remembered.
  static std::atomic<unsigned> unknown;
  if ((unknown.load(std::memory_order_relaxed) >> which & 1) != 0) return "";
  std::ifstream in(file_path(which));
  std::string text;
  errno = 0;
  std::getline(in, text, '\0');
  if (in.bad() && errno == ENOMEM) throw std::bad_alloc();
  if (which >= kSecurity && text.empty() && errno == EINVAL) unknown |= 1u << which;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (which == kAutogroup) {  // "/autogroup-123 nice 0": the group belongs to the session
    const size_t at = text.rfind("nice ");
    return at == std::string::npos ? "" : text.substr(at + 5);
  }
  return text;
}

bool write_file(int which, const std::string& value) {
  const std::string text = which == kCoredump ? "0x" + value : value;
  const Descriptor file(open(file_path(which).c_str(), O_WRONLY | O_CLOEXEC));
  return file && write(file.fd(), text.c_str(), text.size()) == static_cast<ssize_t>(text.size());
}

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

std::string read_prctl(int which) {
  return text_of(syscall(SYS_prctl, which / 256, 0, 0, 0, 0));  // the C library's prctl returns an int
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
std::string read_speculation(int which) { return text_of(prctl(PR_GET_SPECULATION_CTRL, which, 0, 0, 0)); }
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
constexpr int kTimerIds = 77, kGetTimerIds = 2;  // PR_TIMER_CREATE_RESTORE_IDS, since 6.15
std::string read_timer_ids(int) { return text_of(prctl(kTimerIds, kGetTimerIds, 0, 0, 0)); }
bool write_timer_ids(int, const std::string& value) { return prctl(kTimerIds, number(value), 0, 0, 0) == 0; }

// --- arch_prctl

std::string read_cpuid(int) { return text_of(syscall(SYS_arch_prctl, kCpuidGet, 0)); }
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

std::string read_scheduling(int) {
  SchedulingAttributes a;
  if (!get_scheduling(a)) return "";
  std::string text =
      formatted("{} {} {}", a.policy, a.flags & (kResetOnFork | kReclaim | kOverrun), a.priority);
  if (a.policy == SCHED_DEADLINE) text += formatted(" {} {} {}", a.runtime, a.deadline, a.period);
  return text;
}
bool write_scheduling(int, const std::string& value) {
  SchedulingAttributes a;
  if (!get_scheduling(a)) return false;
  a.runtime = a.deadline = a.period = 0;
  std::istringstream in(value);
  in >> a.policy >> a.flags >> a.priority >> a.runtime >> a.deadline >> a.period;
  return set_scheduling(a);
}
// Of the ordinary policies, since Linux 6.12; for others, and before, the kernel gives 0.
std::string read_slice(int) {
  SchedulingAttributes a;
  if (!get_scheduling(a)) return "";
  return a.policy == SCHED_DEADLINE ? "0" : std::to_string(a.runtime);
}
bool write_slice(int, const std::string& value) {
  SchedulingAttributes a;
  if (!get_scheduling(a)) return false;
  if (a.policy == SCHED_DEADLINE) return true;
  a.runtime = strtoull(value.c_str(), nullptr, 10);
  return set_scheduling(a);
}
std::string read_clamp(int) {
  SchedulingAttributes a;
  if (!get_scheduling(a) || a.size < sizeof a) return "";
  return formatted("{} {}", a.least, a.most);
}
bool write_clamp(int, const std::string& value) {
  SchedulingAttributes a;
  if (!get_scheduling(a)) return false;
  a.flags = kKeepAll | kClampBoth;
  std::istringstream(value) >> a.least >> a.most;
  return set_scheduling(a);
}

std::string read_nice(int) {
  errno = 0;
  const int nice = getpriority(PRIO_PROCESS, 0);
  return errno != 0 ? "" : std::to_string(nice);
}
bool write_nice(int, const std::string& value) {
  return setpriority(PRIO_PROCESS, 0, static_cast<int>(number(value))) == 0;
}

std::string read_affinity(int) {
  Words mask(kCpuWords);
  return syscall(SYS_sched_getaffinity, 0, mask.size() * 8, mask.data()) < 0 ? "" : list(mask);
}
bool write_affinity(int, const std::string& value) {
  const Words mask = mask_of(value, kCpuWords);
  return syscall(SYS_sched_setaffinity, 0, mask.size() * 8, mask.data()) == 0;
}

std::string read_io_priority(int) { return text_of(syscall(SYS_ioprio_get, kOwnThread, 0)); }
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
  return text_of(syscall(SYS_membarrier, kRegistrations, 0, 0));
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

std::string read_session(int) { return getsid(0) == getpid() ? kLeader : std::to_string(getsid(0)); }
std::string read_group(int) { return getpgrp() == getpid() ? kLeader : std::to_string(getpgrp()); }
bool is_leader(const std::string& value) { return value == kLeader; }
bool lead_session(int, const std::string&) { return setsid() != -1; }
bool lead_group(int, const std::string&) { return setpgid(0, 0) == 0; }
bool leave_terminal(int, const std::string&) {
  const Descriptor terminal(open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC));
  return terminal && ioctl(terminal.fd(), TIOCNOTTY) == 0;
}

}  // namespace cropdl::process
