// The table of attributes: one row each.
#include <sys/prctl.h>

#include <iterator>
#include <vector>

#include "restart/process/attribute_calls.h"

namespace cropdl::process {
namespace {

using S = AttributeStage;

// T: in the kernel's task_struct, or a credential, which the C library changes for all threads but a raw
// system call for one. P: of the process (its memory, its signals).
constexpr bool P = false, T = true;

std::vector<Attribute> rows() {
  return {
      // In the order in which they are put back.
      // restore_attributes() raises limits before the credentials, which may give up the right to raise them.
      {P, "session", "stat:session", read_session, lead_session, 0, S::kFirst, is_leader},
      {P, "process group", "stat:pgrp", read_group, lead_group, 0, S::kFirst, is_leader},
      {P, "controlling terminal", "stat:tty_nr", stat_field, leave_terminal, 7, S::kFirst, is_0},
      {T, "scheduling policy", "stat:policy stat:rt_priority", read_scheduling, write_scheduling},
      {T, "nice value", "stat:nice stat:priority", read_nice, write_nice},
      {T, "time slice", "", read_slice, write_slice},
      {T, "utilization clamp", "", read_clamp, write_clamp},
      {P, "nice value of its session (autogroup)", "proc:autogroup", read_file, write_file, kAutogroup},
      {T, kAffinity, "status:Cpus_allowed status:Cpus_allowed_list", read_affinity, write_affinity},
      {T, "I/O priority", "", read_io_priority, write_io_priority},
      {T, "memory policy", "", read_memory_policy, write_memory_policy},
      {T, "timer slack", "prctl:PR_GET_TIMERSLACK proc:timerslack_ns", read_prctl, write_prctl,
       pair(PR_GET_TIMERSLACK, PR_SET_TIMERSLACK)},
      {P, "oom_score_adj", "proc:oom_score_adj proc:oom_adj", read_file, write_file, kOom},
      {P, "loginuid", "proc:loginuid proc:sessionid", read_file, write_file, kLogin},
      {P, "core dump filter", "proc:coredump_filter", read_file, write_file, kCoredump},
      {P, "child subreaper flag", "prctl:PR_GET_CHILD_SUBREAPER", read_prctl_by_pointer, write_prctl,
       pair(PR_GET_CHILD_SUBREAPER, PR_SET_CHILD_SUBREAPER)},
      {P, "huge page switch (PR_SET_THP_DISABLE)", "prctl:PR_GET_THP_DISABLE status:THP_enabled", read_prctl,
       write_thp, pair(PR_GET_THP_DISABLE, 0)},
      {P, "memory merging (PR_SET_MEMORY_MERGE)", "prctl:PR_GET_MEMORY_MERGE", read_prctl, write_prctl,
       pair(68, 67)},
      {T, "time stamp counter switch (PR_SET_TSC)", "prctl:PR_GET_TSC", read_prctl_by_pointer, write_prctl,
       pair(PR_GET_TSC, PR_SET_TSC), S::kLast},
      {T, "machine check policy", "prctl:PR_MCE_KILL_GET", read_prctl, write_mce_kill,
       pair(PR_MCE_KILL_GET, 0)},
      {T, "I/O flusher flag", "prctl:PR_GET_IO_FLUSHER", read_prctl, write_prctl, pair(58, 57)},
      {T, "speculation control (store bypass)",
       "prctl:PR_GET_SPECULATION_CTRL status:Speculation_Store_Bypass", read_speculation, write_speculation,
       0},
      {T, "speculation control (indirect branches)", "status:SpeculationIndirectBranch", read_speculation,
       write_speculation, 1},
      {T, "speculation control (L1D flush)", "", read_speculation, write_speculation, 2},
      {P, "timer id mode (PR_TIMER_CREATE_RESTORE_IDS)", "", read_timer_ids, write_timer_ids},
      {P, "membarrier registrations", "", read_membarrier, write_membarrier, 0, S::kFirst, nullptr, false},
      {P, "extended CPU state permission", "", read_arch, write_permission, kPermissionGet},

      {T, kGroups, "status:Groups", read_groups, nullptr, 0, S::kCredentials},
      {T, kGroupIds, "status:Gid", read_group_ids, nullptr, 0, S::kCredentials},
      {T, kUserIds, "status:Uid", read_user_ids, nullptr, 0, S::kCredentials},
      {T, kBoundingSet, "status:CapBnd prctl:PR_CAPBSET_READ", read_bounding_set, nullptr, 0,
       S::kCredentials},
      {T, kAmbientSet, "status:CapAmb prctl:PR_CAP_AMBIENT", read_ambient_set, nullptr, 0, S::kCredentials},
      {T, kSecureBits, "prctl:PR_GET_SECUREBITS prctl:PR_GET_KEEPCAPS", read_secure_bits, nullptr, 0,
       S::kCredentials},
      {T, kCapabilities, "status:CapInh status:CapPrm status:CapEff", read_capabilities, nullptr, 0,
       S::kCredentials},

      // A change of credentials resets these two (man 2 prctl).
      {P, "dumpable flag", "prctl:PR_GET_DUMPABLE", read_prctl, write_prctl,
       pair(PR_GET_DUMPABLE, PR_SET_DUMPABLE), S::kAfterCredentials, is_0_or_1},
      {T, "parent death signal", "prctl:PR_GET_PDEATHSIG", read_prctl_by_pointer, write_prctl,
       pair(PR_GET_PDEATHSIG, PR_SET_PDEATHSIG), S::kAfterCredentials},

      {T, "CPUID switch", "", read_cpuid, write_cpuid, 0, S::kLast},
      {T, "personality", "proc:personality", read_personality, write_personality, 0, S::kLast},
      {P, "write-xor-execute switch (PR_SET_MDWE)", "prctl:PR_GET_MDWE", read_prctl, write_prctl,
       pair(66, 65), S::kLast},

      // A change of these refuses the checkpoint.
      {T, "no_new_privs flag", "status:NoNewPrivs prctl:PR_GET_NO_NEW_PRIVS", read_prctl, nullptr,
       pair(PR_GET_NO_NEW_PRIVS, 0)},
      {T, "set of seccomp filters", "status:Seccomp status:Seccomp_filters prctl:PR_GET_SECCOMP",
       read_seccomp},
      {T, "core scheduling cookie", "", read_core_cookie},
      {T, "shadow stack", "status:x86_Thread_features status:x86_Thread_features_locked", read_arch, nullptr,
       kShadowStack},
      {P, "address tagging", "status:untag_mask", read_arch, nullptr, kUntagMask},
      {P, "root directory", "proc:root", read_root},
      {T, "thread keyring", "", read_keyring, nullptr, -1},
      {P, "process keyring", "", read_keyring, nullptr, -2},
      {T, "session keyring", "", read_keyring, nullptr, -3},
  };
}

}  // namespace

std::span<const Attribute> attributes() {
  static const std::vector<Attribute> table = [] {
    std::vector<Attribute> t = rows();
    for (int i = 0; i < static_cast<int>(std::size(kNamespaces)); ++i)
      t.push_back({T, std::string(kNamespaces[i]) + " namespace", std::string("ns:") + kNamespaces[i],
                   read_namespace, nullptr, i});
    for (int i = kSecurity; i <= kSockCreate; ++i)
      t.push_back({T, std::string("security label (") + kFiles[i] + ")", std::string("proc:") + kFiles[i],
                   read_file, nullptr, i});
    for (const auto& [resource, name, shown] : kLimitRows) {
      const std::string in = std::string("limits:") + shown;
      // The hard limit first: it bounds the soft one.
      t.push_back(
          {P, std::string(name) + " (hard)", in, read_limit, write_limit, resource | kHard, S::kLast});
      t.push_back({P, name, in, read_limit, write_limit, resource, S::kLast});
    }
    return t;
  }();
  return table;
}

}  // namespace cropdl::process
