// Calls the runtime in its own code and in that of a library (opened at step --late), and the driver by name.
// --visible: sets CUDA_VISIBLE_DEVICES and expects that many --devices. --begins: uses a device only from
// that step on. Allocates no device memory: the test is about finding functions, not about what they do.
#include <cuda.h>
#include <dlfcn.h>

#include "../apps/steplog.h"

__global__ void nothing() {}

using CountDevices = CUresult (*)(int*);

int main(int count, char** arguments) {
  steplog_open(count, arguments, -1);
  const char* library = nullptr;
  const char* visible = nullptr;
  long late = 0, wanted = 0, begins = 0;
  for (int i = 1; i + 1 < count; i++) {
    if (!strcmp(arguments[i], "--library")) library = arguments[i + 1];
    if (!strcmp(arguments[i], "--late")) late = atol(arguments[i + 1]);
    if (!strcmp(arguments[i], "--visible")) visible = arguments[i + 1];
    if (!strcmp(arguments[i], "--begins")) begins = atol(arguments[i + 1]);
    if (!strcmp(arguments[i], "--devices")) wanted = atol(arguments[i + 1]);
  }
  while (steplog_done < begins) steplog_step();
  if (visible) setenv("CUDA_VISIBLE_DEVICES", visible, 1);
  int devices = 0;
  STEPLOG_CHECK(cudaGetDeviceCount(&devices) == cudaSuccess);
  STEPLOG_CHECK(wanted == 0 || devices == wanted);
  cudaStream_t stream;
  STEPLOG_CHECK(cudaStreamCreate(&stream) == cudaSuccess);
  if (visible) setenv("CUDA_VISIBLE_DEVICES", "0", 1);  // for programs that it starts: the driver has begun
  int (*of_library)() = nullptr;
  while (steplog_done < steplog_steps) {
    void* by_name = nullptr;
    cudaDriverEntryPointQueryResult found;
    STEPLOG_CHECK(cudaGetDriverEntryPointByVersion("cuDeviceGetCount", &by_name, 12000, cudaEnableDefault,
                                                   &found) == cudaSuccess);
    STEPLOG_CHECK(found == cudaDriverEntryPointSuccess);
    int told = 0;
    char place[32];
    STEPLOG_CHECK(cudaDeviceGetPCIBusId(place, sizeof place, 0) == cudaSuccess);
    steplog_mix_bytes(place, strlen(place));
    STEPLOG_CHECK(reinterpret_cast<CountDevices>(by_name)(&told) == CUDA_SUCCESS && told == devices);
    nothing<<<1, 32, 0, stream>>>();
    STEPLOG_CHECK(cudaGetLastError() == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess);
    if (library && !of_library && steplog_done >= late) {
      void* opened = dlopen(library, RTLD_NOW);
      if (!opened) steplog_fail("%s", dlerror());
      of_library = reinterpret_cast<int (*)()>(dlsym(opened, "devices_of_library"));
      steplog_at("opened");
    }
    if (of_library) STEPLOG_CHECK(of_library() == devices);
    steplog_mix(devices);
    steplog_step();
  }
  steplog_ok();
}
