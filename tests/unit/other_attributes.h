// Fields of /proc and prctl options outside the table of attributes, with the reason: `status:VmPeak` ->
// "statistics".
#pragma once

#include <map>
#include <sstream>
#include <string>

namespace cropdl::process {

inline const std::map<std::string, std::string>& other_attributes() {
  static const std::map<std::string, std::string> others = [] {
    std::map<std::string, std::string> all;
    const auto because = [&all](const char* reason, const char* words) {
      std::istringstream in(words);
      for (std::string word; in >> word;) all[word] = reason;
    };
    because("saved with the image",
            "status:Name status:Umask prctl:PR_GET_NAME prctl:PR_GET_TID_ADDRESS proc:cwd proc:comm proc:exe "
            "proc:cmdline stat:comm");
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
            "status:VmPeak status:VmSize status:VmLck status:VmPin status:VmHWM status:VmRSS status:RssAnon "
            "status:RssFile status:RssShmem status:VmData status:VmStk status:VmExe status:VmLib "
            "status:VmPTE status:VmSwap status:HugetlbPages stat:vsize stat:rss stat:rsslim stat:startcode "
            "stat:endcode stat:startstack stat:start_data stat:end_data stat:start_brk stat:arg_start "
            "stat:arg_end stat:env_start stat:env_end");
    because("files are saved by themselves", "proc:fd proc:fdinfo status:FDSize");
    because(
        "of the moment, or statistics: the new process has its own",
        "status:State status:Ngid status:Threads status:Kthread status:CoreDumping "
        "status:voluntary_ctxt_switches status:nonvoluntary_ctxt_switches stat:state stat:flags stat:minflt "
        "stat:cminflt stat:majflt stat:cmajflt stat:utime stat:stime stat:cutime stat:cstime "
        "stat:num_threads stat:itrealvalue stat:starttime stat:kstkesp stat:kstkeip stat:wchan stat:nswap "
        "stat:cnswap stat:processor stat:delayacct_blkio_ticks stat:guest_time stat:cguest_time "
        "stat:exit_code stat:tpgid proc:io proc:sched proc:schedstat proc:stack proc:syscall proc:wchan "
        "proc:latency proc:oom_score proc:arch_status proc:ksm_stat proc:task proc:status proc:stat "
        "proc:limits proc:ns proc:attr proc:patch_state proc:stack_depth proc:seccomp_cache proc:attr/prev "
        "proc:attr/apparmor proc:attr/smack proc:cpu_resctrl_groups proc:timens_offsets prctl:PR_GET_TIMING "
        "prctl:PR_GET_AUXV");
    because("a debugger's", "status:TracerPid proc:make-it-fail proc:fail-nth");
    because("the machine's or its batch system's",
            "status:Mems_allowed status:Mems_allowed_list proc:cgroup proc:cpuset proc:net proc:mounts "
            "proc:mountinfo proc:mountstats");
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
