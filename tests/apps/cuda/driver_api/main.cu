// nvcc: -lcuda
// The driver API: PTX text loaded from a file that nvcc -ptx made, functions, globals, launches by parameters
// and by buffer, contexts, error cases, virtual memory.
#include <cuda.h>

#include <fstream>
#include <iterator>
#include <string>

#include "../check.h"

static void check_driver(CUresult result, CUresult expected, const char* what, int line) {
  const char *name = "?", *other = "?";
  cuGetErrorName(result, &name);
  cuGetErrorName(expected, &other);
  if (result != expected) fail("line %d: %s: %s instead of %s", line, what, name, other);
}
#define CU(what) check_driver((what), CUDA_SUCCESS, #what, __LINE__)
#define CU_FAILS(what, expected) check_driver((what), (expected), #what, __LINE__)

static void virtual_memory(CUfunction fill) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  size_t granularity;
  CU(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT(granularity > 0);
  CUdeviceptr range;
  CUmemGenericAllocationHandle one, two;
  CU(cuMemAddressReserve(&range, 4 * granularity, 0, 0, 0));
  CU(cuMemCreate(&one, granularity, &properties, 0));
  CU(cuMemCreate(&two, granularity, &properties, 0));
  CU(cuMemMap(range, granularity, 0, one, 0));
  CU(cuMemMap(range + granularity, granularity, 0, two, 0));
  CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CU(cuMemSetAccess(range, 2 * granularity, &access, 1));
  int n = static_cast<int>(2 * granularity / sizeof(int)), few = 64;
  // Crosses the border between the two pieces.
  CUdeviceptr middle = range + granularity - few / 2 * sizeof(int);
  void* arguments[] = {&middle, &few};
  CU(cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
  std::vector<int> got(few);
  CU(cuMemcpyDtoH(got.data(), middle, few * sizeof(int)));
  for (int i = 0; i < few; i++) EXPECT(got[i] == 3 * i);
  EXPECT(n > few);
  // The same memory is mapped at a second address.
  CU(cuMemMap(range + 2 * granularity, granularity, 0, two, 0));
  CU(cuMemSetAccess(range + 2 * granularity, granularity, &access, 1));
  int value;
  CU(cuMemcpyDtoH(&value, range + 2 * granularity, sizeof value));
  EXPECT(value == 3 * few / 2);
  CU(cuMemUnmap(range + 2 * granularity, granularity));
  CU(cuMemUnmap(range, 2 * granularity));
  CU(cuMemRelease(one));
  CU(cuMemRelease(two));
  CU_FAILS(cuMemcpyDtoH(&value, range, sizeof value), CUDA_ERROR_INVALID_VALUE);
  CU(cuMemAddressFree(range, 4 * granularity));
}

int main(int, char** arguments) {
  int count, version;
  CU_FAILS(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  CU(cuInit(0));
  CU(cuDriverGetVersion(&version));
  EXPECT(version >= 13000);
  CUdevice device;
  CUcontext context, current;
  CU(cuDeviceGet(&device, 0));
  char name[100];
  CU(cuDeviceGetName(name, sizeof name, device));
  EXPECT(name[0]);
  CUdeviceptr none;
  CU_FAILS(cuMemAlloc(&none, 4), CUDA_ERROR_INVALID_CONTEXT);
  CU(cuDevicePrimaryCtxRetain(&context, device));
  CU(cuCtxSetCurrent(context));
  CU(cuCtxGetCurrent(&current));
  EXPECT(current == context);

  std::ifstream file(std::string(arguments[0]) + ".ptx");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT(!text.empty());
  CUmodule module;
  CUfunction fill, scale;
  CU(cuModuleLoadData(&module, text.c_str()));
  CU(cuModuleGetFunction(&fill, module, "fill"));
  CU(cuModuleGetFunction(&scale, module, "scale"));
  CU_FAILS(cuModuleGetFunction(&scale, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  CU(cuModuleGetFunction(&scale, module, "scale"));
  CUdeviceptr factor;
  size_t bytes;
  CU(cuModuleGetGlobal(&factor, &bytes, module, "factor"));
  EXPECT(bytes == sizeof(float));
  float value = 2.5f;
  CU(cuMemcpyHtoD(factor, &value, sizeof value));
  CU(cuCtxSynchronize());  // the stream below does not wait for the default one
  const int n = 200;
  int n_argument = n;
  CUdeviceptr data, out;
  CU(cuMemAlloc(&data, n * sizeof(int)));
  CU(cuMemAlloc(&out, n * sizeof(float)));
  CUstream stream;
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* fill_arguments[] = {&data, &n_argument};
  CU(cuLaunchKernel(fill, 2, 1, 1, 128, 1, 1, 0, stream, fill_arguments, nullptr));
  struct {
    CUdeviceptr from, to;
    int n;
    float plus;
  } packed = {data, out, n, 0.5f};
  size_t size = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  CU(cuLaunchKernel(scale, 2, 1, 1, 128, 1, 1, 0, stream, nullptr, extra));
  std::vector<float> got(n), expected(n);
  CU(cuMemcpyDtoHAsync(got.data(), out, n * sizeof(float), stream));
  CU(cuStreamSynchronize(stream));
  for (int i = 0; i < n; i++) expected[i] = 3 * i * 2.5f + 0.5f;
  expect_same(got, expected);
  digest(got);
  CU_FAILS(cuLaunchKernel(fill, 1, 1, 1, 2048, 1, 1, 0, stream, fill_arguments, nullptr),
           CUDA_ERROR_INVALID_VALUE);
  int threads;
  CU(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill));
  EXPECT(threads >= 128);
  virtual_memory(fill);

  CUmodule bad;
  CUresult refused = cuModuleLoadData(&bad, "this is no PTX");
  EXPECT(refused == CUDA_ERROR_INVALID_IMAGE || refused == CUDA_ERROR_INVALID_PTX);
  CU_FAILS(cuModuleLoadData(
               &bad, ".version 8.0\n.target sm_75\n.address_size 64\n.entry f() { frobnicate.u32 %r1; }\n"),
           CUDA_ERROR_INVALID_PTX);
  void* entry = nullptr;
  CUdriverProcAddressQueryResult found;
  CU(cuGetProcAddress("cuMemAlloc", &entry, 13000, 0, &found));
  EXPECT(entry && found == CU_GET_PROC_ADDRESS_SUCCESS);
  CU(cuModuleUnload(module));
  CU(cuMemFree(data));
  CU_FAILS(cuMemFree(data), CUDA_ERROR_INVALID_VALUE);
  CU(cuMemFree(out));
  CU(cuStreamDestroy(stream));
  CU(cuDevicePrimaryCtxRelease(device));
  return finish();
}
