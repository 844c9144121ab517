// nvcc: -std=c++17 -lcuda
// run: build=long ways=static,shared
// Settings of kernels, device, streams and threads: set once or changed at times, and read back in every
// step. Cooperative launches, launches with attributes, old events, kernel handles from the driver.
#include <cooperative_groups.h>
#include <cuda.h>

#include <cmath>

#include "saved.h"

#define CU(what)                                                                                 \
  do {                                                                                           \
    CUresult result_ = (what);                                                                   \
    if (result_ != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, (int)result_); \
  } while (0)

namespace cg = cooperative_groups;

__global__ void together(uint32_t* v, int rounds) {
  cg::grid_group grid = cg::this_grid();
  const unsigned n = static_cast<unsigned>(grid.size()), me = static_cast<unsigned>(grid.thread_rank());
  for (int r = 0; r < rounds; r++) {
    uint32_t next = v[(me + 1) % n] * 3 + v[me];
    grid.sync();
    v[me] = next;
    grid.sync();
  }
}
__global__ void large_shared(uint32_t* v, int n) {
  extern __shared__ uint32_t room[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) room[i] = v[0] + i;
  __syncthreads();
  if (threadIdx.x == 0) v[0] = room[n - 1] ^ room[n / 2];
}
__global__ void __launch_bounds__(128) cached(uint32_t* v) { v[threadIdx.x]++; }

// All queried settings, as one list of numbers.
struct Told {
  std::vector<std::pair<const char*, long long>> values;
  void operator()(const char* name, long long v) { values.push_back({name, v}); }
};

static cudaStream_t streams[3];
static cudaEvent_t events[4];
static CUkernel kernel;
static CUfunction function;

static Told ask() {
  Told t;
  cudaFuncAttributes of;
  CALL(cudaFuncGetAttributes(&of, large_shared));
  t("dynamic", of.maxDynamicSharedSizeBytes);
  t("carveout", of.preferredShmemCarveout);
  t("threads", of.maxThreadsPerBlock);
  CALL(cudaFuncGetAttributes(&of, cached));
  t("carveout of cached", of.preferredShmemCarveout);
  t("registers", of.numRegs);
  t("dynamic of cached", of.maxDynamicSharedSizeBytes);
  for (cudaLimit limit : {cudaLimitStackSize, cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize,
                          cudaLimitMaxL2FetchGranularity}) {
    size_t value = 0;
    cudaError_t e = cudaDeviceGetLimit(&value, limit);
    t("limit", e == cudaSuccess ? static_cast<long long>(value) : -static_cast<long long>(e));
  }
  cudaGetLastError();
  cudaFuncCache cache;
  CALL(cudaDeviceGetCacheConfig(&cache));
  t("cache", cache);
  unsigned flags;
  CALL(cudaGetDeviceFlags(&flags));
  t("device flags", flags);
  for (auto s : streams) {
    int priority;
    unsigned long long id;
    CALL(cudaStreamGetFlags(s, &flags));
    t("stream flags", flags);
    CALL(cudaStreamGetPriority(s, &priority));
    t("priority", priority);
    CALL(cudaStreamGetId(s, &id));
    t("id", static_cast<long long>(id));
    cudaStreamAttrValue v;
    memset(&v, 0, sizeof v);
    CALL(cudaStreamGetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
    t("policy", v.syncPolicy);
    memset(&v, 0, sizeof v);
    if (cudaStreamGetAttribute(s, cudaStreamAttributeAccessPolicyWindow, &v) == cudaSuccess) {
      t("window bytes", static_cast<long long>(v.accessPolicyWindow.num_bytes));
      t("window base", reinterpret_cast<long long>(v.accessPolicyWindow.base_ptr));
      t("window hits", v.accessPolicyWindow.hitProp);
      t("window ratio", static_cast<long long>(1000 * v.accessPolicyWindow.hitRatio));
    }
    cudaGetLastError();
    int device = -1;
    if (cudaStreamGetDevice(s, &device) != cudaSuccess) cudaGetLastError();
    t("device", device);
  }
  float ms;
  CALL(cudaEventElapsedTime(&ms, events[0], events[1]));
  t("time", static_cast<long long>(std::lround(ms * 100)));
  t("recorded without timing", cudaEventElapsedTime(&ms, events[0], events[2]));
  t("never recorded", cudaEventElapsedTime(&ms, events[0], events[3]));
  t("query of never recorded", cudaEventQuery(events[3]));
  cudaGetLastError();
  int blocks, smem;
  CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, large_shared, 64, 60000));
  t("occupancy", blocks);
  CALL(cudaDeviceGetAttribute(&smem, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  t("optin", smem);
  CUkernel k;
  CUfunction f;
  CALL(cudaGetKernel(reinterpret_cast<cudaKernel_t*>(&k), large_shared));
  t("kernel", k == kernel);
  CALL(cudaGetFuncBySymbol(reinterpret_cast<cudaFunction_t*>(&f),
                           reinterpret_cast<const void*>(large_shared)));
  t("function", f == function);
  int value;
  CU(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  t("by its function", value);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CALL(cudaThreadExchangeStreamCaptureMode(&mode));
  t("mode", mode);
  CALL(cudaThreadExchangeStreamCaptureMode(&mode));
  CUcontext context;
  unsigned version;
  unsigned long long id;
  CU(cuCtxGetCurrent(&context));
  CU(cuCtxGetApiVersion(context, &version));
  CU(cuCtxGetId(context, &id));
  t("context", reinterpret_cast<long long>(context));
  t("context id", static_cast<long long>(id));
  CU(cuCtxGetFlags(&flags));
  t("context flags", flags);
  unsigned active;
  int is;
  CU(cuDevicePrimaryCtxGetState(0, &active, &is));
  t("primary flags", active);
  int runtime;
  CALL(cudaRuntimeGetVersion(&runtime));
  t("runtime", runtime);
  return t;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  CALL(cudaSetDeviceFlags(cudaDeviceScheduleYield));
  CALL(cudaDeviceSetLimit(cudaLimitStackSize, 3072));
  CALL(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 2 << 20));
  CALL(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 12 << 20));
  CALL(cudaDeviceSetCacheConfig(cudaFuncCachePreferShared));
  DeviceNonce nonce;
  int least, greatest;
  CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CALL(cudaStreamCreate(&streams[0]));
  CALL(cudaStreamCreateWithPriority(&streams[1], cudaStreamNonBlocking, greatest));
  CALL(cudaStreamCreateWithPriority(&streams[2], cudaStreamDefault, least));
  for (int i = 0; i < 4; i++)
    CALL(cudaEventCreateWithFlags(&events[i], i == 2 ? cudaEventDisableTiming : cudaEventBlockingSync));
  uint32_t *v, *w;
  CALL(cudaMalloc(&v, 1024));
  CALL(cudaMalloc(&w, 1024));
  CALL(cudaMemset(v, 1, 1024));
  CALL(cudaMemset(w, 0, 1024));
  CALL(cudaDeviceSynchronize());
  CALL(cudaFuncSetAttribute(large_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 80000));
  CALL(cudaFuncSetAttribute(large_shared, cudaFuncAttributePreferredSharedMemoryCarveout, 77));
  CALL(cudaFuncSetCacheConfig(cached, cudaFuncCachePreferL1));
  CALL(cudaFuncSetAttribute(cached, cudaFuncAttributePreferredSharedMemoryCarveout, 25));
  CALL(cudaGetKernel(reinterpret_cast<cudaKernel_t*>(&kernel), large_shared));
  CALL(cudaGetFuncBySymbol(reinterpret_cast<cudaFunction_t*>(&function),
                           reinterpret_cast<const void*>(large_shared)));
  cudaStreamAttrValue a;
  memset(&a, 0, sizeof a);
  a.syncPolicy = cudaSyncPolicySpin;
  CALL(cudaStreamSetAttribute(streams[1], cudaStreamAttributeSynchronizationPolicy, &a));
  memset(&a, 0, sizeof a);
  a.accessPolicyWindow = {v, 512, 0.25f, cudaAccessPropertyPersisting, cudaAccessPropertyStreaming};
  CALL(cudaStreamSetAttribute(streams[1], cudaStreamAttributeAccessPolicyWindow, &a));
  CALL(cudaStreamCopyAttributes(streams[2], streams[1]));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  CALL(cudaThreadExchangeStreamCaptureMode(&mode));
  CALL(cudaEventRecord(events[0], streams[0]));
  steplog_spin(3000);
  cached<<<1, 32, 0, streams[0]>>>(w);
  CALL(cudaEventRecord(events[1], streams[0]));
  CALL(cudaEventRecord(events[2], streams[0]));
  CALL(cudaDeviceSynchronize());
  Told told = ask();
  uint32_t model[64], m0;
  for (auto& m : model) m = 0x01010101;
  size_t shared = 70000;
  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    int rounds = static_cast<int>(step % 3 + 1);
    void* arguments[] = {&v, &rounds};
    CALL(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(together), 2, 32, arguments, 0, streams[0]));
    for (int r = 0; r < rounds; r++) {
      uint32_t next[64];
      for (int i = 0; i < 64; i++) next[i] = model[(i + 1) % 64] * 3 + model[i];
      memcpy(model, next, sizeof next);
    }
    // A launch with attributes and with more shared memory than is allowed by default.
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute list[2];
    list[0].id = cudaLaunchAttributePriority;
    list[0].val.priority = greatest;
    list[1].id = cudaLaunchAttributeCooperative;
    list[1].val.cooperative = 1;
    config.gridDim = 1, config.blockDim = 64, config.dynamicSmemBytes = shared, config.stream = streams[0],
    config.attrs = list, config.numAttrs = 2;
    const int n = static_cast<int>(shared / 4);
    CALL(cudaLaunchKernelEx(&config, large_shared, v, n));
    m0 = model[0];
    model[0] = (m0 + n - 1) ^ (m0 + n / 2);
    uint32_t* w32 = w;
    int fewer = 15000;
    void* by_driver[] = {&w32, &fewer};
    CU(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 60000, streams[0], by_driver, nullptr));
    EXPECT((cached<<<1, 32, 60000, streams[0]>>>(w), cudaGetLastError()) ==
           cudaErrorInvalidValue);  // too much, since it never requested more
    CALL(cudaStreamSynchronize(streams[0]));
    uint32_t got[64];
    CALL(cudaMemcpy(got, v, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(!memcmp(got, model, sizeof got));
    Told now = ask();
    EXPECT(now.values.size() == told.values.size());
    for (size_t i = 0; i < now.values.size(); i++)
      if (now.values[i].second != told.values[i].second)
        steplog_fail("%s (%zu) is %lld, was %lld", now.values[i].first, i, now.values[i].second,
                     told.values[i].second);
    if (step % 6 == 5) {  // changes settings
      shared = 60000 + 1000 * (step % 20);
      CALL(cudaFuncSetAttribute(large_shared, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(shared)));
      CALL(cudaDeviceSetLimit(cudaLimitStackSize, 2048 + 16 * step));
      CALL(cudaStreamGetAttribute(streams[2], cudaStreamAttributeAccessPolicyWindow, &a));
      a.accessPolicyWindow.num_bytes = 100 + step;
      CALL(cudaStreamSetAttribute(streams[2], cudaStreamAttributeAccessPolicyWindow, &a));
      CALL(cudaEventRecord(events[1], streams[1]));
      CALL(cudaStreamDestroy(streams[1]));
      CALL(cudaStreamCreateWithPriority(&streams[1], cudaStreamNonBlocking, greatest));
      CALL(cudaDeviceSynchronize());
      told = ask();
    }
    mix(std::vector<uint32_t>(got, got + 64));
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}
