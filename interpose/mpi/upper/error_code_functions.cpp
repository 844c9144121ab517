// MPI's functions for error classes, codes and their texts. UH, any thread.
#include <cstring>

#include "interpose/mpi/upper/error_codes.h"

using namespace cropdl;
using namespace cropdl::shim;

MPI_FUNCTION(int, Error_class, int code, int* error_class) {
  if (!is_error_code(code)) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Error_class);
  *error_class = error_class_of(code);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Error_string, int code, char* string, int* length) {
  if (!is_error_code(code)) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Error_string);
  error_text(code, string, length);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_class, int* error_class) {
  if (!error_class) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Add_error_class);
  const int made = add_error_class();
  if (!made) return fail_mpi_call(kNoObject, seam::kErrOther, seam::kFn_MPI_Add_error_class);
  *error_class = made;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_code, int error_class, int* code) {
  if (!code || !is_error_class(error_class))
    return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Add_error_code);
  const int made = add_error_code(error_class);
  if (!made) return fail_mpi_call(kNoObject, seam::kErrOther, seam::kFn_MPI_Add_error_code);
  *code = made;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Add_error_string, int code, const char* string) {
  char* copy = string ? strdup(string) : nullptr;
  if (copy && set_error_text(code, copy)) return MPI_SUCCESS;
  free(copy);
  return fail_mpi_call(kNoObject, string && !copy ? seam::kErrNoMem : seam::kErrArg,
                       seam::kFn_MPI_Add_error_string);
}
#if defined(CROPDL_ABI_MPICH)
extern "C" {
#pragma weak MPIX_Delete_error_class = PMPIX_Delete_error_class
#pragma weak MPIX_Delete_error_code = PMPIX_Delete_error_code
#pragma weak MPIX_Delete_error_string = PMPIX_Delete_error_string
__attribute__((visibility("default"))) int PMPIX_Delete_error_class(int error_class) {
  return delete_error_class(error_class) ? MPI_SUCCESS : MPI_ERR_OTHER;
}
__attribute__((visibility("default"))) int PMPIX_Delete_error_code(int code) {
  return delete_error_code(code) ? MPI_SUCCESS : MPI_ERR_OTHER;
}
__attribute__((visibility("default"))) int PMPIX_Delete_error_string(int code) {
  return set_error_text(code, nullptr) ? MPI_SUCCESS : MPI_ERR_OTHER;
}
}
#endif
