// The list of all libraries, and of the libraries in this lower half. Compiled once for each lower half, with
// a macro for each library that the lower half is linked with. A new library is added here only.
#include "interpose/libraries/libraries.h"

namespace cropdl::libraries {

std::vector<Library*> libraries_of_this_lower_half() {
  return {
#if defined(CROPDL_WITH_MPI)
    mpi_library(),
#endif
#if defined(CROPDL_WITH_CUDA)
        cuda_library(),
#endif
  };
}

std::span<const StandInFile> stand_ins() {
  // The first row that matches counts. Images refer to the device libraries' rows by position.
  static constexpr StandInFile kFiles[] = {
    {"libmpi.so.12", "libmpich.so.12"},  // has MPICH's ABI (interpose/entry/program.cpp)
    {"libmpich.so", "libmpich.so.12"},
    // Open MPI's internal libraries, from which its companion libraries import.
    {"libopen-rte.so", "stubs/libopen-rte.so.40"},
    {"libopen-pal.so", "stubs/libopen-pal.so.40"},
#if defined(CROPDL_WITH_CUDA)
    {"libcuda.so", "libcuda.so.1", StandInFile::kDevice},
    {"libnccl.so.2", "libnccl.so.2", StandInFile::kDeviceOfOneVersion},
    // CUDA 13's.
    {"libcudart.so.13", "libcudart.so.13", StandInFile::kDeviceOfOneVersion},
    {"libcublas.so.13", "libcublas.so.13", StandInFile::kDeviceOfOneVersion},
    {"libcublasLt.so.13", "libcublasLt.so.13", StandInFile::kDeviceOfOneVersion},
    {"libcurand.so.10", "libcurand.so.10", StandInFile::kDeviceOfOneVersion},
#endif
    {"libmpi.so", "libmpi.so.40"},
  };
  return kFiles;
}

}  // namespace cropdl::libraries
