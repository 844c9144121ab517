// This process's rank, the number of ranks, and the launcher's command, as the launcher's environment
// variables and processes give them. launchers.h has the table of launchers. LH and tools; START.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::launching {

struct Launch {
  uint32_t rank = 0, ranks = 1;
  bool launched = false;  // by a launcher in the table
  // The MPI that the launcher belongs to: "openmpi", "mpich"; "none": the program's.
  std::string flavour = "none";
  std::string run;                   // unique to the launch, the same on all its ranks
  std::string launcher;              // executable, "" if none was found
  std::vector<std::string> options;  // the launcher's arguments before the program
};

// Fails if a launcher started this process but gives no rank or no number of ranks.
Result<Launch> read_launch(const std::string& program);

// Returns the launcher's arguments before cropdl-run, cropdl-restart or the program, of its command line
// `words`; none if it names none of them.
std::optional<std::vector<std::string>> launcher_options(const std::vector<std::string>& words,
                                                         const std::string& program);

// Returns the launcher's process that is the ancestor of all ranks of this node; 0 if this process has none.
pid_t launchers_process();

}  // namespace cropdl::launching
