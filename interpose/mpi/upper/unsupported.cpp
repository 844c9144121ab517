// Functions not offered yet, because the MPI would call their callbacks from its own progress. Each says so
// once and returns an error. UH, any thread.
#include <unistd.h>
#include <cstdio>
#include <cstring>

#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {
namespace {

int refuse(seam::Fn fn) {
  static int said[seam::kFnCount / 8 + 1];
  if (!(__atomic_fetch_or(&said[fn / 8], 1 << fn % 8, __ATOMIC_RELAXED) & 1 << fn % 8)) {
    char line[160];
    const int n =
        snprintf(line, sizeof line, "cropdl: %s is not offered in this version; the call returns an error\n",
                 seam::kFunctionNames[fn]);
    if (write(2, line, static_cast<size_t>(n)) < 0) {
      // Standard error is closed; the error code remains.
    }
  }
  return fail_mpi_call(kNoObject, seam::kErrUnsupportedOperation, fn);
}

}  // namespace
}  // namespace cropdl::shim

using namespace cropdl;
using namespace cropdl::shim;

MPI_FUNCTION(int, Register_datarep, const char*, MPI_Datarep_conversion_function*,
             MPI_Datarep_conversion_function*, MPI_Datarep_extent_function*, void*) {
  return refuse(seam::kFn_MPI_Register_datarep);
}

#if defined(CROPDL_ABI_MPICH)
MPI_FUNCTION(int, Register_datarep_c, const char*, MPI_Datarep_conversion_function_c*,
             MPI_Datarep_conversion_function_c*, MPI_Datarep_extent_function*, void*) {
  return refuse(seam::kFn_MPI_Register_datarep_c);
}
// MPI_T events: there are none, so no index is valid.
MPI_FUNCTION(int, T_event_get_num, int* n) {
  *n = 0;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, T_event_get_info, int, char*, int*, int*, MPI_Datatype*, MPI_Aint*, int*, MPI_T_enum*,
             MPI_Info*, char*, int*, int*) {
  return MPI_T_ERR_INVALID_INDEX;
}
MPI_FUNCTION(int, T_event_get_index, const char*, int*) { return MPI_T_ERR_INVALID_NAME; }
MPI_FUNCTION(int, T_event_handle_alloc, int, void*, MPI_Info, MPI_T_event_registration*) {
  return MPI_T_ERR_INVALID_INDEX;
}
MPI_FUNCTION(int, T_event_handle_set_info, MPI_T_event_registration, MPI_Info) {
  return MPI_T_ERR_INVALID_HANDLE;
}
MPI_FUNCTION(int, T_event_handle_get_info, MPI_T_event_registration, MPI_Info*) {
  return MPI_T_ERR_INVALID_HANDLE;
}
MPI_FUNCTION(int, T_event_register_callback, MPI_T_event_registration, MPI_T_cb_safety, MPI_Info, void*,
             MPI_T_event_cb_function) {
  return MPI_T_ERR_INVALID_HANDLE;
}
MPI_FUNCTION(int, T_event_callback_set_info, MPI_T_event_registration, MPI_T_cb_safety, MPI_Info) {
  return MPI_T_ERR_INVALID_HANDLE;
}
MPI_FUNCTION(int, T_event_callback_get_info, MPI_T_event_registration, MPI_T_cb_safety, MPI_Info*) {
  return MPI_T_ERR_INVALID_HANDLE;
}
MPI_FUNCTION(int, T_event_handle_free, MPI_T_event_registration, void*, MPI_T_event_free_cb_function) {
  return MPI_T_ERR_INVALID_HANDLE;
}
MPI_FUNCTION(int, T_event_set_dropped_handler, MPI_T_event_registration, MPI_T_event_dropped_cb_function) {
  return MPI_T_ERR_INVALID_HANDLE;
}
MPI_FUNCTION(int, T_event_read, MPI_T_event_instance, int, void*) { return MPI_T_ERR_INVALID_HANDLE; }
MPI_FUNCTION(int, T_event_copy, MPI_T_event_instance, void*) { return MPI_T_ERR_INVALID_HANDLE; }
MPI_FUNCTION(int, T_event_get_timestamp, MPI_T_event_instance, MPI_Count*) {
  return MPI_T_ERR_INVALID_HANDLE;
}
MPI_FUNCTION(int, T_event_get_source, MPI_T_event_instance, int*) { return MPI_T_ERR_INVALID_HANDLE; }

#define MPIX_REFUSED(name, ...)                                                     \
  CROPDL_PRAGMA(weak MPIX_##name = PMPIX_##name)                                    \
  extern "C" __attribute__((visibility("default"))) int PMPIX_##name(__VA_ARGS__) { \
    return refuse(seam::kFn_MPIX_##name);                                           \
  }
MPIX_REFUSED(Grequest_start, MPI_Grequest_query_function*, MPI_Grequest_free_function*,
             MPI_Grequest_cancel_function*, MPIX_Grequest_poll_function*, MPIX_Grequest_wait_function*, void*,
             MPI_Request*)
MPIX_REFUSED(Grequest_class_create, MPI_Grequest_query_function*, MPI_Grequest_free_function*,
             MPI_Grequest_cancel_function*, MPIX_Grequest_poll_function*, MPIX_Grequest_wait_function*,
             MPIX_Grequest_class*)
MPIX_REFUSED(Grequest_class_allocate, MPIX_Grequest_class, void*, MPI_Request*)
#endif
