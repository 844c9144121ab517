// The table of attributes: one row each.
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "restart/process/attribute_calls.h"

namespace cropdl::process {
namespace {

// Per-thread attributes in the kernel's task_struct, besides credentials, which the C library changes for all
// threads but a raw system call for one. All others belong to the process (its memory, its signals).
constexpr const char* kOfThread[] = {"scheduling policy",
                                     "nice value",
                                     "time slice",
                                     "utilization clamp",
                                     kAffinity,
                                     "I/O priority",
                                     "memory policy",
                                     "timer slack",
                                     "time stamp counter switch (PR_SET_TSC)",
                                     "machine check policy",
                                     "I/O flusher flag",
                                     "speculation control (store bypass)",
                                     "speculation control (indirect branches)",
                                     "speculation control (L1D flush)",
                                     "parent death signal",
                                     "CPUID switch",
                                     "personality",
                                     "no_new_privs flag",
                                     "set of seccomp filters",
                                     "core scheduling cookie",
                                     "shadow stack",
                                     "thread keyring",
                                     "session keyring"};

using S = AttributeStage;

// In the order in which they are put back.
std::vector<Attribute> attributes_put_back() {
  return {
      // restore_attributes() raises limits before the credentials, which may give up the right to raise them.
      {"session", "stat:session", S::kFirst, read_session, lead_session, 0, is_leader},
      {"process group", "stat:pgrp", S::kFirst, read_group, lead_group, 0, is_leader},
      {"controlling terminal", "stat:tty_nr", S::kFirst, stat_field, leave_terminal, 7, is_0},
      {"scheduling policy", "stat:policy stat:rt_priority", S::kFirst, read_scheduling, write_scheduling},
      {"nice value", "stat:nice stat:priority", S::kFirst, read_nice, write_nice},
      {"time slice", "", S::kFirst, read_slice, write_slice},
      {"utilization clamp", "", S::kFirst, read_clamp, write_clamp},
      {"nice value of its session (autogroup)", "proc:autogroup", S::kFirst, read_file, write_file,
       kAutogroup},
      {kAffinity, "status:Cpus_allowed status:Cpus_allowed_list", S::kFirst, read_affinity, write_affinity},
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
  };
}

// A change of these refuses the checkpoint.
void add_fixed(std::vector<Attribute>& t) {
  const Attribute fixed[] = {
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
  t.insert(t.end(), std::begin(fixed), std::end(fixed));
  for (int i = 0; i < static_cast<int>(std::size(kNamespaces)); ++i)
    t.push_back({std::string(kNamespaces[i]) + " namespace", std::string("ns:") + kNamespaces[i], S::kFirst,
                 read_namespace, nullptr, i});
  for (int i = kSecurity; i <= kSockCreate; ++i)
    t.push_back({std::string("security label (") + kFiles[i] + ")", std::string("proc:") + kFiles[i],
                 S::kFirst, read_file, nullptr, i});
}

void add_limits(std::vector<Attribute>& t) {
  for (const auto& [resource, name, shown] : kLimitRows) {
    const std::string in = std::string("limits:") + shown;
    // The hard limit first: it bounds the soft one.
    t.push_back({std::string(name) + " (hard)", in, S::kLast, read_limit, write_limit, resource | kHard});
    t.push_back({name, in, S::kLast, read_limit, write_limit, resource});
  }
}

std::vector<Attribute> make_table() {
  std::vector<Attribute> t = attributes_put_back();
  add_fixed(t);
  add_limits(t);
  for (Attribute& row : t)
    row.of_thread = row.stage == S::kCredentials || row.name.find("namespace") != std::string::npos ||
                    row.name.rfind("security label", 0) == 0 ||
                    std::find(std::begin(kOfThread), std::end(kOfThread), row.name) != std::end(kOfThread);
  return t;
}

}  // namespace

std::span<const Attribute> attributes() {
  static const std::vector<Attribute> table = make_table();
  return table;
}

}  // namespace cropdl::process
