#include "interpose/host/proc_cmdline_override.h"

#include <linux/prctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/procfs.h"
#include "interpose/seam/state.h"

namespace cropdl::host {

void show_program() {
  const auto& view = seam::state()->view;
  if (view.auxiliary == 0) return;
  // PR_SET_MM_MAP sets all bounds together (man 2 prctl). The bounds that do not change come from fields 26,
  // 27, 45 to 47, 50 and 51 of /proc/self/stat (man 5 proc). The kernel works with those of data and brk:
  // they stay the lower half's, as its own malloc calls brk().
  const std::vector<std::string> stat = process_stat("self");
  if (stat.size() < 52) return;
  const auto field = [&stat](size_t n) { return strtoull(stat[n].c_str(), nullptr, 10); };
  prctl_mm_map map{};
  map.start_code = field(26);
  map.end_code = field(27);
  map.start_stack = view.auxiliary;  // natively below argv and envp: whoever scans the stack scans them, too
  map.start_data = field(45);
  map.end_data = field(46);
  map.start_brk = field(47);
  map.brk = reinterpret_cast<uint64_t>(sbrk(0));
  map.arg_start = view.arguments;
  map.arg_end = view.environment;
  map.env_start = field(50);
  map.env_end = field(51);
  map.auxv = reinterpret_cast<__u64*>(view.auxiliary);
  map.auxv_size = static_cast<uint32_t>(view.auxiliary_bytes);
  map.exe_fd = static_cast<uint32_t>(-1);
  prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

}  // namespace cropdl::host
