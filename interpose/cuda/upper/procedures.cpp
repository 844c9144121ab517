// cuGetProcAddress, by which programs and NVIDIA's runtime find the driver's functions instead of linking
// them: returns this shim's, in the requested version and for the requested default stream, but none that an
// older real driver lacks. UH, any thread, UH FS base; also before cuInit. Source: cuda.h, "Driver Entry
// Point Access"; the table is made from cudaTypedefs.h (interpose/gen/driver/procedures.py).
#include "interpose/gen/driver/undeclared.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

struct Procedure {
  const char* name;  // without _v2, _ptsz
  int introduced;    // in this CUDA version: 11020
  bool per_thread;   // uses the thread's own default stream
  void* function;
};

// Sorted by name, then legacy stream first, then by version.
const Procedure procedures[] = {
#include "procedures_driver.inc"
};

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
  const Procedure* const end = std::end(procedures);
  const Procedure* one =
      std::partition_point(procedures, end, [&](const Procedure& p) { return strcmp(p.name, symbol) < 0; });
  for (; one != end && strcmp(one->name, symbol) == 0; ++one) {
    if (one->introduced > driver) continue;
    known = true;
    if (one->introduced > version) continue;
    if (one->per_thread && flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) continue;
    best = one->function;  // the newest; a per-thread one wins over any other
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
