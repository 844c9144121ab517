// `software-gpu info`: lists the devices that a program would find, by the public driver API.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>

namespace {

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  std::fprintf(stderr, "software-gpu: %s: %s\n", what, text ? text : "an error without a name");
  std::exit(1);
}

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(cuDeviceGetAttribute(&value, which, device), "an attribute of the device cannot be read");
  return value;
}

}  // namespace

int main() {
  check(cuInit(0), "the software GPU cannot be initialised");
  int version = 0, count = 0;
  check(cuDriverGetVersion(&version), "the version cannot be read");
  check(cuDeviceGetCount(&count), "the devices cannot be counted");
  std::printf("CUDA driver API %d.%d, %d device%s\n", version / 1000, version % 1000 / 10, count,
              count == 1 ? "" : "s");
  for (int i = 0; i < count; i++) {
    CUdevice device = 0;
    char name[256] = "";
    size_t memory = 0;
    CUuuid id{};
    check(cuDeviceGet(&device, i), "the device cannot be found");
    check(cuDeviceGetName(name, sizeof name, device), "the device's name cannot be read");
    check(cuDeviceTotalMem(&memory, device), "the device's memory cannot be read");
    check(cuDeviceGetUuid(&id, device), "the device's id cannot be read");
    std::printf("%d: %s, compute capability %d.%d, %zu MiB, %d multiprocessors, GPU-", i, name,
                attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR), memory >> 20,
                attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    for (size_t b = 0; b < sizeof id.bytes; b++)
      std::printf("%s%02x", b == 4 || b == 6 || b == 8 || b == 10 ? "-" : "",
                  static_cast<unsigned char>(id.bytes[b]));
    std::printf("\n");
  }
  return 0;
}
