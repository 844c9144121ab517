// The application ABI that a shim is compiled for: mpi.h, predefined handles, constants. The build defines
// CROPDL_ABI_OPENMPI or CROPDL_ABI_MPICH. UH; included by shim.h only.
#pragma once

// Omit the C++ bindings, of another library; keep functions that MPI 3 removed and Open MPI still exports.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#define OMPI_REMOVED_USE_STATIC_ASSERT 0

// The shim exports the functions of these headers; everything else is hidden.
#pragma GCC visibility push(default)
#include <mpi.h>
#if defined(CROPDL_ABI_OPENMPI)
#include <mpi-ext.h>
#endif
#pragma GCC visibility pop

#if defined(CROPDL_ABI_OPENMPI)
#include "constants_openmpi.h"
#include "upper_handles_openmpi.h"
#elif defined(CROPDL_ABI_MPICH)
#include "constants_mpich.h"
#include "upper_handles_mpich.h"
#else
#error "the build must say which application ABI the shim is for"
#endif

// mpi.h also defines these names as macros.
#undef MPI_Aint_add
#undef MPI_Aint_diff
#undef PMPI_Aint_add
#undef PMPI_Aint_diff
