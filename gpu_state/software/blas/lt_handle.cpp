// cublasLtHandle_t, queries about the library, and its log, which is never written.
#include <dlfcn.h>

#include <mutex>
#include <set>
#include <string>

#include "gpu_state/software/blas/handle.h"
#include "gpu_state/software/blas/lt.h"
#include "gpu_state/software/blas/openblas.h"
#include "gpu_state/software/settings/settings.h"

struct cublasLtContext {};

namespace cropdl::blas::lt {
namespace {

std::mutex& mutex() {
  static auto* kept = new std::mutex;
  return *kept;
}
std::set<cublasLtHandle_t>& live() {
  static auto* kept = new std::set<cublasLtHandle_t>;
  return *kept;
}

// Asks cuBLAS's own function, if the process has loaded cuBLAS.
bool is_of_cublas(cublasLtHandle_t handle) {
  void* library = dlopen("libcublas.so.13", RTLD_NOLOAD | RTLD_LAZY);
  if (!library) return false;
  auto ask = reinterpret_cast<cublasStatus_t (*)(cublasHandle_t, cublasPointerMode_t*)>(
      dlsym(library, "cublasGetPointerMode_v2"));
  cublasPointerMode_t mode;
  bool lives = ask && ask(reinterpret_cast<cublasHandle_t>(handle), &mode) == CUBLAS_STATUS_SUCCESS;
  dlclose(library);
  return lives;
}

}  // namespace

cublasStatus_t check(cublasLtHandle_t handle) {
  {
    std::lock_guard lock(mutex());
    if (live().count(handle)) return CUBLAS_STATUS_SUCCESS;
  }
  return handle && is_of_cublas(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t refuse(const char* what) {
  settings::say_not_built(std::string("cublasLt: ") + what);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace cropdl::blas::lt

using namespace cropdl::blas;  // NOLINT

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = nullptr;
  if (!current_context() || !there()) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext;
  std::lock_guard lock(lt::mutex());
  lt::live().insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}

// Waits for the device's work, as on a device (cuBLAS documentation, "cublasLtDestroy()").
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  {
    std::lock_guard lock(lt::mutex());
    if (!lt::live().erase(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  delete handle;
  return status_of(cuCtxSynchronize());
}

const char* cublasLtGetStatusName(cublasStatus_t status) { return name_of(status); }
const char* cublasLtGetStatusString(cublasStatus_t status) { return text_of(status); }
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
size_t cublasLtGetCudartVersion() { return CUDA_VERSION; }

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  return property_of_version(type, value);
}

cublasStatus_t cublasLtLoggerSetCallback(cublasLtLoggerCallback_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerSetFile(FILE*) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerOpenFile(const char*) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerSetLevel(int) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerSetMask(int) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtLoggerForceDisable() { return CUBLAS_STATUS_SUCCESS; }

}  // extern "C"
