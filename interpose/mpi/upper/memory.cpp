// Functions answered in the upper half because they concern the program's memory or header. UH, any thread.
#include <cstdio>

#include "interpose/mpi/upper/shim.h"

using namespace cropdl;
using namespace cropdl::shim;

// Allocates upper-half memory, which images contain. Aligned to pages from one page on, as MPIs do.
MPI_FUNCTION(int, Alloc_mem, MPI_Aint size, MPI_Info, void* base) {
  void* memory = nullptr;
  if (size < 0 || !base) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Alloc_mem);
  if (posix_memalign(&memory, size >= 4096 ? 4096 : 64, size ? static_cast<size_t>(size) : 1) != 0)
    return fail_mpi_call(kNoObject, seam::kErrNoMem, seam::kFn_MPI_Alloc_mem);
  *static_cast<void**>(base) = memory;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Free_mem, void* base) {
  free(base);
  return MPI_SUCCESS;
}

MPI_FUNCTION(int, Get_address, const void* location, MPI_Aint* address) {
  if (!address) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Get_address);
  *address = reinterpret_cast<MPI_Aint>(location);
  return MPI_SUCCESS;
}
MPI_FUNCTION(MPI_Aint, Aint_add, MPI_Aint base, MPI_Aint displacement) { return base + displacement; }
MPI_FUNCTION(MPI_Aint, Aint_diff, MPI_Aint a, MPI_Aint b) { return a - b; }

MPI_FUNCTION(int, Pcontrol, const int, ...) { return MPI_SUCCESS; }

MPI_FUNCTION(int, Get_version, int* version, int* subversion) {
  if (!version || !subversion) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Get_version);
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return MPI_SUCCESS;
}
// The version of the program's own MPI: programs parse it, and a restart must not change it.
MPI_FUNCTION(int, Get_library_version, char* version, int* length) {
  if (!version || !length) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Get_library_version);
#if defined(CROPDL_ABI_OPENMPI)
  const int n =
      snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "Open MPI v%d.%d.%d (its ABI, by CropDL %s)",
               OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION, CROPDL_VERSION);
#else
  const int n = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING,
                         "MPICH Version:\t%s\n(its ABI, by CropDL %s)\n", MPICH_VERSION, CROPDL_VERSION);
#endif
  *length = n;
  return MPI_SUCCESS;
}
