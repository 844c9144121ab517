// The instructions that cropdl-run and cropdl-restart pass to the lower half that they become: one JSON
// object in the environment variable CROPDL_BOOT, which the program never sees. Ordinary process code.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "coord/schedule.h"

namespace cropdl::launching {

inline constexpr const char* kBootVariable = "CROPDL_BOOT";

struct Boot {
  bool restart = false;
  std::string directory;  // absolute path of the store
  // --interval as given: "auto", a number of seconds, "0": only on request. "": not given.
  std::string interval;
  double max_overhead = 0;        // --max-overhead, a fraction, 0: not given
  double mtbf = -1;               // --mtbf, seconds, 0: unknown, negative: not given
  double ends_at = -1;            // --time-limit: seconds since 1970; 0: none, negative: not given
  std::string at_sigterm;         // --at-sigterm: "version", "die", "": not given
  std::string keep;               // --keep, "": not given
  bool quiet = false;             // --quiet (not inherited by a restart)
  std::string metrics;            // --metrics, an absolute path, "": none (not inherited by a restart)
  std::string log;                // --log: "text" or "json" (not inherited by a restart)
  std::string program;            // absolute path (start only)
  std::string script;             // absolute path of the script that the program runs, "": none (start only)
  std::string preload;            // the program's LD_PRELOAD, without libcropdl.so
  uint64_t version = 0;           // to restart from, 0: the newest intact one
  std::string installation;       // directory of the shims and the core
  std::string sanitizer;          // "AddressSanitizer" if the program was built with it (start only)
  int layout = 0;                 // number of execs for another layout (host/address_reservation.cpp)
  unsigned long personality = 0;  // the process's personality before the first of them
  uint64_t save_files = 0;        // --save-files, 0: as before, or the default
  bool by_reference = false;      // --by-reference (a restart inherits it)
  bool compress = false;          // --compress (a restart inherits it)
  bool moved_variables = false;   // --moved-variables=accept (restart only)
  std::string files;              // --files (restart only), "": the default
  bool software_gpu = false;      // --software-gpu (a restart has the version's)
  int software_gpus = 0;          // number of its devices; 0: from CROPDL_SOFTWARE_GPUS
  bool software_nccl = false;     // --software-nccl (a restart inherits it)
};

std::string boot_text(const Boot& boot);
Result<Boot> parse_boot(const std::string& text);

// Returns the schedule of automatic versions: `former`, changed by the options in `boot`. --max-overhead and
// --mtbf apply to an automatic interval, and select one if --interval is not given.
coord::Schedule wanted_schedule(const Boot& boot, const coord::Schedule& former);

// The seconds until the job's time limit; 0: unknown, negative: passed. From `boot`, or else from the batch
// system if the schedule takes versions automatically; `*note`: a line if that cannot be read.
double time_limit(const Boot& boot, const coord::Schedule& schedule, std::string* note);

// The folder of the software device's libraries (docs/software-gpu.md), in or beside the installation, or "".
std::string software_gpu_directory(const std::string& installation);

// The same of NCCL over any driver (--software-nccl).
std::string software_nccl_directory(const std::string& installation);

// Passes the number of devices to the software device's libraries by the environment: `boot`'s, or the user's
// there, or else `former`, the image's. START, after the program's environment is laid out.
void set_software_devices(Boot* boot, int former = 0);

// Whether `boot` selects the software NCCL for the library `soname`.
bool is_software_nccl(const Boot& boot, const std::string& soname);

// The path of our own library `soname` (software device, NCCL over any driver) if `boot` selects it, else "".
std::string software_library(const Boot& boot, const std::string& soname);

}  // namespace cropdl::launching
