// Reads and writes the attributes of attribute_table.cpp. Sources: man 5 proc, man 2 prctl, Linux
// include/uapi/linux/prctl.h. Each takes the row's parameter. LH; the thread whose attribute it is.
#pragma once

#include <sys/resource.h>

#include <string>

namespace cropdl::process {

// Files from kSecurity on belong to the calling thread, the others to the process.
inline constexpr const char* kFiles[] = {"oom_score_adj", "coredump_filter", "loginuid",
                                         "autogroup",     "attr/current",    "attr/exec",
                                         "attr/fscreate", "attr/keycreate",  "attr/sockcreate"};
enum FileIndex { kOom, kCoredump, kLogin, kAutogroup, kSecurity, kExec, kFsCreate, kKeyCreate, kSockCreate };

inline constexpr const char* kNamespaces[] = {
    "uts", "mnt", "net", "ipc", "user", "pid", "pid_for_children", "cgroup", "time", "time_for_children"};

struct LimitRow {
  int resource;
  const char *name, *shown;
};
inline constexpr LimitRow kLimitRows[] = {{RLIMIT_CPU, "RLIMIT_CPU", "Max_cpu_time"},
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
inline constexpr int kHard = 256;

// Parameter: the PR_GET option times 256, plus the PR_SET option.
inline constexpr int pair(int get, int set) { return get * 256 + set; }

inline constexpr int kCpuidGet = 0x1011, kCpuidSet = 0x1012, kPermissionSupported = 0x1021,
                     kPermissionGet = 0x1022, kPermissionRequest = 0x1023, kShadowStack = 0x5005,
                     kUntagMask = 0x4001;  // arch/x86/include/uapi/asm/prctl.h

// "": this kernel lacks the attribute.
std::string read_file(int);
std::string read_namespace(int);
std::string read_root(int);
std::string stat_field(int);
std::string read_seccomp(int);
std::string read_limit(int);
std::string read_prctl(int);
std::string read_prctl_by_pointer(int);
std::string read_speculation(int);
std::string read_core_cookie(int);
std::string read_timer_ids(int);
std::string read_cpuid(int);
std::string read_arch(int);
std::string read_scheduling(int);
std::string read_slice(int);
std::string read_clamp(int);
std::string read_nice(int);
std::string read_affinity(int);
std::string read_io_priority(int);
std::string read_memory_policy(int);
std::string read_membarrier(int);
std::string read_personality(int);
std::string read_keyring(int);
std::string read_session(int);
std::string read_group(int);

// False: see errno.
bool write_file(int, const std::string&);
bool write_limit(int, const std::string&);
bool write_prctl(int, const std::string&);
bool write_mce_kill(int, const std::string&);
bool write_thp(int, const std::string&);
bool write_speculation(int, const std::string&);
bool write_timer_ids(int, const std::string&);
bool write_cpuid(int, const std::string&);
bool write_permission(int, const std::string&);
bool write_scheduling(int, const std::string&);
bool write_slice(int, const std::string&);
bool write_clamp(int, const std::string&);
bool write_nice(int, const std::string&);
bool write_affinity(int, const std::string&);
bool write_io_priority(int, const std::string&);
bool write_memory_policy(int, const std::string&);
bool write_membarrier(int, const std::string&);
bool write_personality(int, const std::string&);
bool lead_session(int, const std::string&);
bool lead_group(int, const std::string&);
bool leave_terminal(int, const std::string&);

// Whether a value can be put back.
bool is_0_or_1(const std::string&);
bool is_0(const std::string&);
bool is_leader(const std::string&);

}  // namespace cropdl::process
