// What the launcher told this process: its rank, how many there are, and how to start them again. Facts: Open
// MPI sets OMPI_COMM_WORLD_* (man 1 mpirun, "Exported Environment Variables"), Hydra sets PMI_RANK and
// PMI_SIZE (MPICH src/pm/hydra). LH and tools; START.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cropdl::lower {

struct Launch {
  uint32_t rank = 0, ranks = 1;
  std::string flavour;               // "openmpi", "mpich" (Hydra), "none"
  std::string run;                   // the same on all ranks of one launch, different from every other launch
  std::string launcher;              // executable, "" if none was found
  std::vector<std::string> options;  // its arguments in front of the program
};

Launch read_launch(const std::string& program);

}  // namespace cropdl::lower
