// The driver's functions by name: programs and NVIDIA's runtime ask for them here instead of linking them.
// The addresses are this shim's, in the version and for the default stream that are asked for. What the real
// driver does not have, an older one, is not found here either. UH, any thread, UH FS base; also before
// cuInit. Source: cuda.h, "Driver Entry Point Access"; the table is cudaTypedefs.h's
// (interpose/gen/driver/procedures.py).
#include "interpose/gen/driver/undeclared.h"

#include <cstring>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

struct Procedure {
  const char* name;  // without _v2, _ptsz
  int introduced;    // CUDA version: 11020
  bool per_thread;   // its default stream is the thread's own
  void* function;
};

// Sorted by name, then those of the legacy stream, then by version.
const Procedure procedures[] = {
#include "procedures_driver.inc"
};

const Procedure* first_of(const char* name) {
  size_t first = 0, last = sizeof procedures / sizeof *procedures;
  while (first < last) {
    const size_t middle = (first + last) / 2;
    if (strcmp(procedures[middle].name, name) < 0)
      first = middle + 1;
    else
      last = middle;
  }
  return procedures + first;
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  int driver = 0;
  if (const CUresult result = cuDriverGetVersion(&driver); result != CUDA_SUCCESS) return result;
  if (symbol == nullptr || function == nullptr || version > driver) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_GET_PROC_ADDRESS_DEFAULT && flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM &&
      flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
    return CUDA_ERROR_INVALID_VALUE;
  bool known = false;
  void* best = nullptr;
  const Procedure* const end = procedures + sizeof procedures / sizeof *procedures;
  for (const Procedure* one = first_of(symbol); one != end && strcmp(one->name, symbol) == 0; ++one) {
    if (one->introduced > driver) continue;
    known = true;
    if (one->introduced > version) continue;
    if (one->per_thread && flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) continue;
    best = one->function;  // the newest, and one per thread before any other
  }
  *function = best;
  if (status != nullptr)
    *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, nullptr);
}

}  // extern "C"
