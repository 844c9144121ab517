// Reads and writes the attributes of attribute_table.cpp. Sources: man 5 proc, man 2 prctl, Linux
// include/uapi/linux/prctl.h. Each takes the row's parameter. LH; the thread whose attribute it is.
#pragma once

#include <sys/resource.h>

#include "restart/process/attributes.h"

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

AttributeReader read_file, read_namespace, read_root, stat_field, read_seccomp, read_limit, read_prctl,
    read_prctl_by_pointer, read_speculation, read_core_cookie, read_timer_ids, read_cpuid, read_arch,
    read_scheduling, read_slice, read_clamp, read_nice, read_affinity, read_io_priority, read_memory_policy,
    read_membarrier, read_personality, read_keyring, read_session, read_group;

AttributeWriter write_file, write_limit, write_prctl, write_mce_kill, write_thp, write_speculation,
    write_timer_ids, write_cpuid, write_permission, write_scheduling, write_slice, write_clamp, write_nice,
    write_affinity, write_io_priority, write_memory_policy, write_membarrier, write_personality, lead_session,
    lead_group, leave_terminal;

// Credentials (credentials.cpp). Of ids: real, effective, saved, file system's; of capabilities: effective,
// permitted, inheritable.
AttributeReader read_user_ids, read_group_ids, read_groups, read_capabilities, read_bounding_set,
    read_ambient_set, read_secure_bits;

inline constexpr const char *kUserIds = "user ids", *kGroupIds = "group ids",
                            *kGroups = "supplementary groups", *kCapabilities = "capabilities",
                            *kBoundingSet = "capability bounding set", *kAmbientSet = "ambient capabilities",
                            *kSecureBits = "securebits";

// Whether a value can be put back.
AttributeTest is_0_or_1, is_0, is_leader;

}  // namespace cropdl::process
