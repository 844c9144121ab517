// What the launcher told this process: its rank, how many there are, and how to start them again. One table
// of launchers (launch.cpp). LH and tools; START.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::launching {

struct Launch {
  uint32_t rank = 0, ranks = 1;
  bool launched = false;  // by one that the table knows
  std::string flavour =
      "none";            // the MPI whose ranks it starts: "openmpi", "mpich"; "none": that of the program
  std::string run;       // the same on all ranks of one launch, different from every other launch
  std::string launcher;  // executable, "" if none was found
  std::vector<std::string> options;  // its arguments in front of the program
};

// An error: a launcher has started this process and does not tell which rank it is, or how many there are.
Result<Launch> read_launch(const std::string& program);

// The launcher's process that the ranks of this node come from; 0: none is above this one.
pid_t launchers_process();

}  // namespace cropdl::launching
