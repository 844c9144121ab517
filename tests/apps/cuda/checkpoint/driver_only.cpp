// nvcc: -std=c++17 -ldl
// run: ways=none
// Uses the driver API alone; every function comes from cuGetProcAddress, and that from dlsym: the primary
// context, a module of PTX text with a variable, every kind of memory, streams and events. --mapped: also a
// mapping of its own, and memory that is mapped only for a moment of each step. --addresses: also keeps the
// variable's address.
#include <cuda.h>
#include <dlfcn.h>

#include <vector>

#include "../../steplog.h"

static const char* kPtx = R"(.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .u32 launches = 100;
.visible .entry stir(.param .u64 data, .param .u32 count) {
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  .reg .pred %p<3>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r5, [count];
  mov.u32 %r1, %tid.x;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r1, %r3, %r4, %r1;
  setp.eq.u32 %p2, %r1, 0;
  @%p2 red.global.add.u32 [launches], 1;
  setp.ge.u32 %p1, %r1, %r5;
  @%p1 ret;
  mul.wide.u32 %rd2, %r1, 4;
  cvta.to.global.u64 %rd1, %rd1;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  mad.lo.u32 %r2, %r2, 1664525, %r1;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

static decltype(&cuGetProcAddress) get_proc_address;

static void* found(const char* name, int version) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult how;
  CUresult result = get_proc_address(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &how);
  if (result != CUDA_SUCCESS || !address) steplog_fail("%s is not found: %d", name, result);
  return address;
}

#define CU(what)                                                                          \
  do {                                                                                    \
    CUresult result = (what);                                                             \
    if (result != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, result); \
  } while (0)

// Found for the calling thread's own default stream: there, null is that stream.
struct OwnStream {
  CUresult (*fill)(CUdeviceptr, unsigned, size_t, CUstream);
  CUresult (*to_host)(void*, CUdeviceptr, size_t, CUstream);
  CUresult (*wait)(CUstream);
  CUresult (*id)(CUstream, unsigned long long*);
  CUresult (*id_of_any)(CUstream, unsigned long long*);
};

// One of them by the lookup function of CUDA 11, which has no status.
static OwnStream find_own_stream(void* library) {
  using First = CUresult (*)(const char*, void**, int, cuuint64_t);
  auto first = reinterpret_cast<First>(dlsym(library, "cuGetProcAddress"));
  if (!first) steplog_fail("no cuGetProcAddress");
  CUdriverProcAddressQueryResult how;
  OwnStream own = {};
  const cuuint64_t flag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  CU(first("cuMemsetD32Async", reinterpret_cast<void**>(&own.fill), CUDA_VERSION, flag));
  CU(get_proc_address("cuMemcpyDtoHAsync", reinterpret_cast<void**>(&own.to_host), CUDA_VERSION, flag, &how));
  CU(get_proc_address("cuStreamSynchronize", reinterpret_cast<void**>(&own.wait), CUDA_VERSION, flag, &how));
  CU(get_proc_address("cuStreamGetId", reinterpret_cast<void**>(&own.id), CUDA_VERSION, flag, &how));
  CU(first("cuStreamGetId", reinterpret_cast<void**>(&own.id_of_any), CUDA_VERSION,
           CU_GET_PROC_ADDRESS_LEGACY_STREAM));
  if (!own.fill || !own.to_host || !own.wait || !own.id || !own.id_of_any)
    steplog_fail("a function for the own default stream is not found");
  return own;
}

// `word`: of device memory, with the number of finished steps.
static void use_own_stream(const OwnStream& own, CUdeviceptr word) {
  unsigned value = 0;
  unsigned long long mine = 0, same = 0;
  CU(own.to_host(&value, word, 4, nullptr));
  CU(own.wait(nullptr));
  if (steplog_done > 0 && value != static_cast<unsigned>(steplog_done))
    steplog_fail("the own stream's word is %u", value);
  CU(own.fill(word, static_cast<unsigned>(steplog_done) + 1, 1, nullptr));
  CU(own.wait(nullptr));
  CU(own.id(nullptr, &mine));
  CU(own.id_of_any(CU_STREAM_PER_THREAD, &same));
  if (mine != same) steplog_fail("null is stream %llu, the own one %llu", mine, same);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) steplog_fail("%s", dlerror());
  get_proc_address = reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(library, "cuGetProcAddress_v2"));
  if (!get_proc_address) steplog_fail("no cuGetProcAddress_v2");
  auto init = reinterpret_cast<CUresult (*)(unsigned)>(found("cuInit", CUDA_VERSION));
  auto device_get = reinterpret_cast<CUresult (*)(CUdevice*, int)>(found("cuDeviceGet", CUDA_VERSION));
  auto retain =
      reinterpret_cast<CUresult (*)(CUcontext*, CUdevice)>(found("cuDevicePrimaryCtxRetain", CUDA_VERSION));
  auto release = reinterpret_cast<CUresult (*)(CUdevice)>(found("cuDevicePrimaryCtxRelease", CUDA_VERSION));
  auto set_current = reinterpret_cast<CUresult (*)(CUcontext)>(found("cuCtxSetCurrent", CUDA_VERSION));
  auto get_current = reinterpret_cast<CUresult (*)(CUcontext*)>(found("cuCtxGetCurrent", CUDA_VERSION));
  auto load = reinterpret_cast<CUresult (*)(CUmodule*, const void*)>(found("cuModuleLoadData", CUDA_VERSION));
  auto function = reinterpret_cast<CUresult (*)(CUfunction*, CUmodule, const char*)>(
      found("cuModuleGetFunction", CUDA_VERSION));
  auto global = reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t*, CUmodule, const char*)>(
      found("cuModuleGetGlobal", CUDA_VERSION));
  auto unload = reinterpret_cast<CUresult (*)(CUmodule)>(found("cuModuleUnload", CUDA_VERSION));
  auto allocate = reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t)>(found("cuMemAlloc", CUDA_VERSION));
  auto allocate_pitch = reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t*, size_t, size_t, unsigned)>(
      found("cuMemAllocPitch", CUDA_VERSION));
  auto give_back = reinterpret_cast<CUresult (*)(CUdeviceptr)>(found("cuMemFree", CUDA_VERSION));
  auto allocate_host =
      reinterpret_cast<CUresult (*)(void**, size_t, unsigned)>(found("cuMemHostAlloc", CUDA_VERSION));
  auto free_host = reinterpret_cast<CUresult (*)(void*)>(found("cuMemFreeHost", CUDA_VERSION));
  auto to_device =
      reinterpret_cast<CUresult (*)(CUdeviceptr, const void*, size_t)>(found("cuMemcpyHtoD", CUDA_VERSION));
  auto to_host =
      reinterpret_cast<CUresult (*)(void*, CUdeviceptr, size_t)>(found("cuMemcpyDtoH", CUDA_VERSION));
  auto to_host_later = reinterpret_cast<CUresult (*)(void*, CUdeviceptr, size_t, CUstream)>(
      found("cuMemcpyDtoHAsync", CUDA_VERSION));
  auto fill =
      reinterpret_cast<CUresult (*)(CUdeviceptr, unsigned, size_t)>(found("cuMemsetD32", CUDA_VERSION));
  auto launch = reinterpret_cast<CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                              unsigned, unsigned, CUstream, void**, void**)>(
      found("cuLaunchKernel", CUDA_VERSION));
  auto stream_create =
      reinterpret_cast<CUresult (*)(CUstream*, unsigned)>(found("cuStreamCreate", CUDA_VERSION));
  auto stream_wait = reinterpret_cast<CUresult (*)(CUstream)>(found("cuStreamSynchronize", CUDA_VERSION));
  auto stream_destroy = reinterpret_cast<CUresult (*)(CUstream)>(found("cuStreamDestroy", CUDA_VERSION));
  auto event_create =
      reinterpret_cast<CUresult (*)(CUevent*, unsigned)>(found("cuEventCreate", CUDA_VERSION));
  auto event_record = reinterpret_cast<CUresult (*)(CUevent, CUstream)>(found("cuEventRecord", CUDA_VERSION));
  auto event_query = reinterpret_cast<CUresult (*)(CUevent)>(found("cuEventQuery", CUDA_VERSION));
  auto event_destroy = reinterpret_cast<CUresult (*)(CUevent)>(found("cuEventDestroy", CUDA_VERSION));
  auto granularity =
      reinterpret_cast<CUresult (*)(size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags)>(
          found("cuMemGetAllocationGranularity", CUDA_VERSION));
  auto reserve =
      reinterpret_cast<CUresult (*)(CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long)>(
          found("cuMemAddressReserve", CUDA_VERSION));
  auto create =
      reinterpret_cast<CUresult (*)(CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*,
                                    unsigned long long)>(found("cuMemCreate", CUDA_VERSION));
  auto map = reinterpret_cast<CUresult (*)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
                                           unsigned long long)>(found("cuMemMap", CUDA_VERSION));
  auto access = reinterpret_cast<CUresult (*)(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t)>(
      found("cuMemSetAccess", CUDA_VERSION));
  auto unmap = reinterpret_cast<CUresult (*)(CUdeviceptr, size_t)>(found("cuMemUnmap", CUDA_VERSION));
  auto retain_memory = reinterpret_cast<CUresult (*)(CUmemGenericAllocationHandle*, void*)>(
      found("cuMemRetainAllocationHandle", CUDA_VERSION));
  auto release_memory =
      reinterpret_cast<CUresult (*)(CUmemGenericAllocationHandle)>(found("cuMemRelease", CUDA_VERSION));
  auto give_range_back =
      reinterpret_cast<CUresult (*)(CUdeviceptr, size_t)>(found("cuMemAddressFree", CUDA_VERSION));

  CUdevice device;
  CUcontext context, current;
  CU(init(0));
  CU(device_get(&device, 0));
  CU(retain(&context, device));
  CU(set_current(context));
  const unsigned n = 2000;
  const bool is_mapped = steplog_has(argc, argv, "--mapped"),
             addresses = steplog_has(argc, argv, "--addresses");
  CUmodule module;
  CUfunction stir;
  CUdeviceptr launches, values, pitched, range, nonce;
  size_t bytes, pitch, page;
  CU(load(&module, kPtx));
  CU(function(&stir, module, "stir"));
  if (addresses) CU(global(&launches, &bytes, module, "launches"));
  CU(allocate(&nonce, sizeof steplog_nonce));
  CU(to_device(nonce, &steplog_nonce, sizeof steplog_nonce));
  CU(allocate(&values, n * 4));
  CU(allocate_pitch(&pitched, &pitch, 100, 3, 4));
  CU(fill(pitched, 0x01020304, pitch * 3 / 4));
  unsigned* pinned;
  CU(allocate_host(reinterpret_cast<void**>(&pinned), n * 4, 0));
  for (unsigned i = 0; i < n; i++) pinned[i] = i;
  CU(to_device(values, pinned, n * 4));
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle physical, seldom, again;
  CUmemAccessDesc may = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (is_mapped) {
    CU(granularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CU(reserve(&range, 3 * page, 0, 0, 0));
    CU(create(&seldom, page, &properties, 0));
    CU(create(&physical, page, &properties, 0));
    CU(map(range, page, 0, physical, 0));
    CU(access(range, page, &may, 1));
  } else {
    CU(allocate(&range, n * 4));
  }
  CU(fill(range, 7, n));
  CUstream stream;
  CUevent event;
  CU(stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CU(event_create(&event, CU_EVENT_DISABLE_TIMING));
  std::vector<unsigned> before(pinned, pinned + n), mapped(n, 7), got(n);
  const OwnStream own = find_own_stream(library);
  CU(to_host(got.data(), range, 4));  // the fill is complete: the stream does not wait for it
  while (steplog_done < steplog_steps) {
    unsigned count = n, counted = 0;
    CU(get_current(&current));
    if (current != context) steplog_fail("another context is current");
    for (CUdeviceptr data : {values, range}) {
      void* arguments[] = {&data, &count};
      CU(launch(stir, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr));
    }
    if (is_mapped) {
      CUdeviceptr at = range + 2 * page;
      CU(map(at, page, 0, seldom, 0));
      CU(access(at, page, &may, 1));
      if (steplog_done > 0) CU(to_host(&counted, at + page - 4, 4));
      if (counted != static_cast<unsigned>(steplog_done))
        steplog_fail("%u where nothing was mapped", counted);
      CU(fill(at, static_cast<unsigned>(steplog_done) + 1, page / 4));
      CU(to_host(&counted, at, 4));  // it is complete
      CU(retain_memory(&again, reinterpret_cast<void*>(at)));
      if (again != seldom) steplog_fail("another handle of the same memory");
      CU(unmap(at, page));
      CU(release_memory(again));
    }
    use_own_stream(own, pitched);
    CU(event_record(event, stream));
    CU(to_host_later(pinned, values, n * 4, stream));
    CU(stream_wait(stream));
    CU(event_query(event));
    if (addresses) CU(to_host(&counted, launches, 4));
    if (addresses && counted != 102 + 2 * static_cast<unsigned>(steplog_done))
      steplog_fail("%u launches after %ld steps", counted, steplog_done);
    CU(to_host(got.data(), range, n * 4));
    for (unsigned i = 0; i < n; i++) {
      before[i] = before[i] * 1664525u + i;
      mapped[i] = mapped[i] * 1664525u + i;
    }
    if (before != std::vector<unsigned>(pinned, pinned + n)) steplog_fail("the values differ");
    if (mapped != got) steplog_fail("the mapped values differ");
    CU(to_host(&counted, pitched + 2 * pitch + 96, 4));
    if (counted != 0x01020304) steplog_fail("the pitched memory differs");
    steplog_mix_bytes(pinned, n * 4);
    steplog_step();
  }
  CU(event_destroy(event));
  CU(stream_destroy(stream));
  if (is_mapped) {
    CU(unmap(range, page));
    CU(release_memory(physical));
    CU(release_memory(seldom));
    CU(give_range_back(range, 3 * page));
  } else {
    CU(give_back(range));
  }
  CU(free_host(pinned));
  CU(give_back(pitched));
  CU(give_back(values));
  uint64_t kept = 0;
  CU(to_host(&kept, nonce, sizeof kept));
  if (kept != steplog_nonce) steplog_fail("the nonce differs");
  steplog_nonce = kept;
  CU(give_back(nonce));
  CU(unload(module));
  CU(release(device));
  steplog_ok();
  return 0;
}
