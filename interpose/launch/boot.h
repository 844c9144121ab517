// What cropdl-run and cropdl-restart tell the lower half they become: one JSON object in the environment
// variable CROPDL_BOOT, which the program never sees. Ordinary process code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/schedule.h"

namespace cropdl::launching {

inline constexpr const char* kBootVariable = "CROPDL_BOOT";

struct Boot {
  bool restart = false;
  std::string directory;  // absolute path of the store
  // --interval as it was given: "auto", a number of seconds, "0": only when asked. "": it was not.
  std::string interval;
  double max_overhead = 0;        // --max-overhead, a fraction, 0: not given
  double mtbf = -1;               // --mtbf, seconds, 0: unknown, negative: not given
  double ends_at = -1;            // --time-limit: seconds since 1970; 0: there is none, negative: not given
  std::string at_sigterm;         // --at-sigterm: "version", "die", "": not given
  std::string keep;               // --keep, "": not given
  bool quiet = false;             // --quiet (a restart is told again)
  std::string metrics;            // --metrics, an absolute path, "": none (a restart is told again)
  std::string log;                // --log: "text" or "json" (a restart is told again)
  std::string program;            // absolute path (start only)
  std::string preload;            // LD_PRELOAD of the program, if the preload entrance took ours out of it
  uint64_t version = 0;           // to restart from, 0: the newest that is whole
  std::string installation;       // directory of our shims and core
  std::string sanitizer;          // "AddressSanitizer" if the program was built with it (start only)
  int layout = 0;                 // how often this process has started over in another layout (layout.h)
  unsigned long personality = 0;  // what it had before that
  uint64_t save_files = 0;        // --save-files, 0: as before, or the default
  bool by_reference = false;      // --by-reference (a restart goes on as before)
  bool moved_variables = false;   // --moved-variables=accept (restart only)
  std::string files;              // --files (restart only), "": the default
  bool software_gpu = false;      // --software-gpu (a restart goes on as before), and how many devices;
  int software_gpus = 0;          // 0: what CROPDL_SOFTWARE_GPUS says
};

std::string boot_text(const Boot& boot);
Result<Boot> parse_boot(const std::string& text);

// When versions are taken by themselves: `former` with what `boot` says. Its --max-overhead and --mtbf are
// about an automatic interval, and without an --interval they ask for one.
coord::Schedule wanted_schedule(const Boot& boot, const coord::Schedule& former);

// Seconds from now until others end the job, as `boot` says or else, where versions are taken unasked, the
// batch system; 0: not known. What has passed already is less than 0.
double time_limit(const Boot& boot, const coord::Schedule& schedule);

// The software device's libraries (docs/software-gpu.md) beside ours, or "": they are not installed.
std::string software_gpu_directory(const std::string& installation);

// Tells the software device's libraries in this process, by its environment, how many devices `boot` wants;
// at a restart what the user says in the environment goes before. START, once the program's is laid out.
void set_software_devices(Boot* boot);

// The software device's library of that name, if `boot` wants it in the place of NVIDIA's; else "".
std::string software_library(const Boot& boot, const std::string& soname);

}  // namespace cropdl::launching
