// nvcc: -std=c++17 -lcuda
// run: ways=shared
// State of the runtime and the driver other than memory, compared with the program's own copies: numbers and
// attributes of streams, the last error, contexts and their stacks in two threads, times between events.
// Also, at the start, which memory survives a reset of the device.
#include <cuda.h>
#include <sys/mman.h>

#include <cmath>
#include <set>
#include <thread>

#include "saved.h"

#define CU(what)                                                                                 \
  do {                                                                                           \
    CUresult result_ = (what);                                                                   \
    if (result_ != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, (int)result_); \
  } while (0)

__global__ void spin(unsigned* value, int n) {
  for (int i = 0; i < n; i++) atomicAdd(value, 1);
}

__device__ unsigned variable[4];

struct Named {
  cudaStream_t stream;
  unsigned long long number;
  cudaSynchronizationPolicy policy;
};

static unsigned long long number_of(const void* memory) {
  unsigned long long number = 0;
  CU(cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, reinterpret_cast<CUdeviceptr>(memory)));
  return number;
}

static Named named(int priority, cudaSynchronizationPolicy policy) {
  Named n{};
  CALL(cudaStreamCreateWithPriority(&n.stream, cudaStreamNonBlocking, priority));
  CALL(cudaStreamGetId(n.stream, &n.number));
  cudaStreamAttrValue value{};
  value.syncPolicy = n.policy = policy;
  CALL(cudaStreamSetAttribute(n.stream, cudaStreamAttributeSynchronizationPolicy, &value));
  return n;
}

static void check(const Named& n) {
  unsigned long long number = 0;
  CALL(cudaStreamGetId(n.stream, &number));
  EXPECT(number == n.number);
  cudaStreamAttrValue value{};
  CALL(cudaStreamGetAttribute(n.stream, cudaStreamAttributeSynchronizationPolicy, &value));
  EXPECT(value.syncPolicy == n.policy);
}

// The device has been used in every way and is reset: everything of its context is gone, everything else is
// unchanged.
struct AfterReset {
  CUmemGenericAllocationHandle physical;
  CUdeviceptr range;
  cudaMemPool_t pool;
  unsigned char *pinned, *registered;
  void *block, *host;
  unsigned long long numbers[4];
  static constexpr size_t kSize = 2 << 20;

  // All buffers have different ids, and keep them.
  void number(unsigned long long (&to)[4]) const {
    void* there;
    CALL(cudaGetSymbolAddress(&there, variable));
    to[0] = number_of(block);
    to[1] = number_of(host);
    to[2] = number_of(reinterpret_cast<void*>(range + 100));
    to[3] = number_of(there);
    EXPECT(std::set<unsigned long long>(to, to + 4).size() == 4);
  }

  AfterReset() {
    CUmemAllocationProp what = {};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    const CUmemAccessDesc may = {what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    void *managed, *freed;
    CALL(cudaMallocManaged(&managed, 1000));
    memset(managed, 1, 1000);
    CALL(cudaMallocAsync(&freed, 4096, 0));
    CALL(cudaFreeAsync(freed, 0));
    CALL(cudaMallocHost(&pinned, 4096));
    CALL(cudaMemPoolCreate(&pool, &properties));
    CU(cuMemCreate(&physical, kSize, &what, 0));
    CU(cuMemAddressReserve(&range, 2 * kSize, 0, 0, 0));
    CU(cuMemMap(range, kSize, 0, physical, 0));
    CU(cuMemSetAccess(range, kSize, &may, 1));
    CALL(cudaDeviceReset());
    CALL(cudaFree(nullptr));
    CALL(cudaMemset(reinterpret_cast<void*>(range), 9, kSize));
    CALL(cudaDeviceSynchronize());
    // Registered memory that is unmapped without being unregistered.
    registered = static_cast<unsigned char*>(
        mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CALL(cudaHostRegister(registered, kSize, 0));
    munmap(registered, kSize);
    CALL(cudaMalloc(&block, 4096));
    CALL(cudaMallocHost(&host, 4096));
    number(numbers);
    const unsigned yes = 1;
    CU(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, reinterpret_cast<CUdeviceptr>(block)));
  }
  void check() {
    unsigned long long again_numbers[4];
    number(again_numbers);
    EXPECT(memcmp(numbers, again_numbers, sizeof numbers) == 0);
    unsigned synchronizes = 0;
    const auto at = reinterpret_cast<CUdeviceptr>(block);
    CU(cuPointerGetAttribute(&synchronizes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    EXPECT(synchronizes == 1);
    cudaPointerAttributes of;
    CALL(cudaPointerGetAttributes(&of, pinned));
    EXPECT(of.type == cudaMemoryTypeUnregistered);
    unsigned* managed;
    void* pooled;
    CALL(cudaMallocManaged(&managed, 1000));
    *managed = 1;
    CALL(cudaFree(managed));
    CALL(cudaMallocFromPoolAsync(&pooled, 4096, pool, 0));
    CALL(cudaFreeAsync(pooled, 0));
    CUmemGenericAllocationHandle again;
    CU(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range)));
    EXPECT(again == physical);
    CU(cuMemMap(range + kSize, kSize, 0, physical, 0));
    CU(cuMemUnmap(range + kSize, kSize));
    CU(cuMemRelease(again));
    unsigned char one = 0;
    CALL(cudaMemcpy(&one, reinterpret_cast<void*>(range + kSize - 1), 1, cudaMemcpyDeviceToHost));
    EXPECT(one == 9);
  }
  void end() {
    CALL(cudaFree(block));
    CALL(cudaFreeHost(host));
    CALL(cudaHostUnregister(registered));
    CALL(cudaMemPoolDestroy(pool));
    CU(cuMemUnmap(range, kSize));
    CU(cuMemAddressFree(range, 2 * kSize));
    CU(cuMemRelease(physical));
  }
};

static volatile bool ended;
static volatile long checks;

static void other_thread(CUcontext context) {
  CU(cuCtxSetCurrent(context));
  CU(cuCtxPushCurrent(context));
  while (!ended) {
    CUcontext current = nullptr;
    CU(cuCtxGetCurrent(&current));
    EXPECT(current == context);
    CU(cuCtxPopCurrent(&current));
    EXPECT(current == context);
    CU(cuCtxPushCurrent(context));
    EXPECT(cudaGetLastError() == cudaSuccess);
    checks = checks + 1;
  }
  CUcontext current = nullptr;
  CU(cuCtxPopCurrent(&current));
  CU(cuCtxPopCurrent(&current));
  CU(cuCtxGetCurrent(&current));
  EXPECT(current == nullptr);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  AfterReset reset;
  DeviceNonce nonce;
  Buffer<unsigned> value(std::vector<unsigned>(1));
  Named one = named(0, cudaSyncPolicyYield), two = named(-1, cudaSyncPolicySpin),
        three = named(0, cudaSyncPolicyAuto);
  CALL(cudaStreamCopyAttributes(three.stream, one.stream));
  three.policy = one.policy;
  unsigned long long legacy = 0, context_number = 0;
  CALL(cudaStreamGetId(cudaStreamLegacy, &legacy));
  CUcontext context = nullptr, its = nullptr;
  CU(cuDevicePrimaryCtxRetain(&context, 0));
  CU(cuCtxGetId(context, &context_number));
  cudaEvent_t begin, end, untimed;
  CALL(cudaEventCreate(&begin));
  CALL(cudaEventCreate(&end));
  CALL(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  float elapsed = 0;
  std::set<unsigned long long> numbers = {one.number, two.number, three.number, legacy};
  EXPECT(numbers.size() == 4);
  std::thread other(other_thread, context);
  while (steplog_done < steplog_steps) {
    check(one);
    check(two);
    check(three);
    reset.check();
    unsigned long long again = 0;
    CALL(cudaStreamGetId(cudaStreamLegacy, &again));
    EXPECT(again == legacy);
    Named passing = named(0, cudaSyncPolicyAuto);
    EXPECT(numbers.insert(passing.number).second);  // no two streams of the program ever had the same number
    CALL(cudaStreamDestroy(passing.stream));
    CU(cuStreamGetCtx(two.stream, &its));
    EXPECT(its == context);
    CU(cuCtxGetCurrent(&its));
    EXPECT(its == context);
    CU(cuCtxGetId(nullptr, &again));
    EXPECT(again == context_number);
    if (steplog_done > 0) {
      float now = 0;
      CALL(cudaEventElapsedTime(&now, begin, end));
      EXPECT(std::fabs(now - elapsed) <= 1e-4f * (1 + elapsed));
      CALL(cudaEventQuery(untimed));
      CALL(cudaStreamWaitEvent(two.stream, untimed));
      EXPECT(cudaPeekAtLastError() == cudaErrorInvalidDevice);
      EXPECT(cudaGetLastError() == cudaErrorInvalidDevice && cudaGetLastError() == cudaSuccess);
    }
    CALL(cudaEventRecord(begin, one.stream));
    spin<<<1, 32, 0, one.stream>>>(value, 50);
    LAUNCHED();
    CALL(cudaEventRecord(untimed, one.stream));
    CALL(cudaEventRecord(end, one.stream));
    cudaError_t there = cudaEventQuery(end);
    EXPECT((there == cudaSuccess || there == cudaErrorNotReady) && cudaPeekAtLastError() == cudaSuccess);
    CALL(cudaStreamSynchronize(one.stream));
    CALL(cudaEventElapsedTime(&elapsed, begin, end));
    mix(value.host());
    EXPECT(cudaSetDevice(1000) == cudaErrorInvalidDevice);  // an error for the next step to read
    steplog_step();
  }
  ended = true;
  other.join();
  cudaGetLastError();
  CU(cuDevicePrimaryCtxRelease(0));
  nonce.back();
  reset.end();
  CALL(cudaDeviceReset());
  steplog_ok();
  return 0;
}
