// Which libraries there are, and which of them this lower half has: compiled once for each lower half, with a
// definition for each library that it is linked with. The one place to add a library to.
#include "interpose/lower/libraries.h"

namespace cropdl::lower {

std::vector<Library*> libraries_of_this_lower_half() {
  return {
#if defined(CROPDL_WITH_MPI)
    mpi_library(),
#endif
  };
}

std::span<const StandInFile> stand_ins() {
  static constexpr StandInFile kFiles[] = {
      {"libmpi.so", "libmpi.so.40"},
      {"libmpich.so", "libmpich.so.12"},
      // Open MPI's own, which its companion libraries import from.
      {"libopen-rte.so", "stubs/libopen-rte.so.40"},
      {"libopen-pal.so", "stubs/libopen-pal.so.40"},
  };
  return kFiles;
}

}  // namespace cropdl::lower
