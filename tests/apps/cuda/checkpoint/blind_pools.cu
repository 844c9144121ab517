// nvcc: -std=c++17
// run: build=long ways=static
// Pools with release thresholds: blocks are allocated in one stream, used in another behind an event, and
// freed in a third. Every step queries pool usage and attributes. Blocks are permanent, freed at once, or
// freed by cudaFree; ordinary memory is freed and allocated again in every step.
#include "saved.h"

__global__ void fill(uint32_t* v, int n, uint32_t with) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] = with + i;
}
__global__ void sum(const uint32_t* v, int n, unsigned long long* to) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(to, static_cast<unsigned long long>(v[i]));
}
static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  uint64_t value = 0;
  CALL(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}
static int flag(cudaMemPool_t pool, cudaMemPoolAttr which) {
  int value = -1;
  CALL(cudaMemPoolGetAttribute(pool, which, &value));
  return value;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  cudaStream_t s[3];
  for (auto& one : s) CALL(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  cudaEvent_t made, used;
  CALL(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  CALL(cudaEventCreateWithFlags(&used, cudaEventDisableTiming));
  cudaMemPool_t first, own, current;
  CALL(cudaDeviceGetDefaultMemPool(&first, 0));
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  properties.maxSize = 0;
  CALL(cudaMemPoolCreate(&own, &properties));
  uint64_t threshold = 3 << 20, all = UINT64_MAX;
  int off = 0;
  CALL(cudaMemPoolSetAttribute(own, cudaMemPoolAttrReleaseThreshold, &threshold));
  CALL(cudaMemPoolSetAttribute(own, cudaMemPoolReuseAllowOpportunistic, &off));
  CALL(cudaMemPoolSetAttribute(first, cudaMemPoolAttrReleaseThreshold, &all));
  CALL(cudaMemPoolSetAttribute(first, cudaMemPoolReuseAllowInternalDependencies, &off));
  CALL(cudaDeviceSetMemPool(0, own));
  unsigned long long* total;
  CALL(cudaMalloc(&total, 8));
  CALL(cudaMemset(total, 0, 8));
  CALL(cudaDeviceSynchronize());
  constexpr int kKept = 6, kMost = 60000;
  uint32_t* kept[kKept] = {};
  int sizes[kKept] = {};
  uint32_t with[kKept] = {};
  unsigned long long expected = 0;
  uint64_t state = 3, high = 0, baseline = attribute(first, cudaMemPoolAttrUsedMemCurrent),
           own_baseline = attribute(own, cudaMemPoolAttrUsedMemCurrent), last_used = own_baseline;
  EXPECT(own_baseline == 0 && baseline == 0);
  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    for (int round = 0; round < 3; round++) {
      int k = static_cast<int>(steplog_random(&state) % kKept);
      if (kept[k]) {
        if (steplog_random(&state) % 3) {
          CALL(cudaFreeAsync(kept[k], s[2]));
        } else {
          CALL(cudaStreamSynchronize(s[1]));
          CALL(cudaStreamSynchronize(s[2]));
          CALL(cudaFree(kept[k]));
        }
        kept[k] = nullptr;
      }
      sizes[k] = static_cast<int>(1 + steplog_random(&state) % kMost);
      with[k] = static_cast<uint32_t>(step * 10 + round);
      if (k % 2)
        CALL(cudaMallocAsync(&kept[k], sizes[k] * 4, s[0]));
      else
        CALL(cudaMallocFromPoolAsync(&kept[k], sizes[k] * 4, first, s[0]));
      fill<<<1, 64, 0, s[0]>>>(kept[k], sizes[k], with[k]);
      uint32_t* at_once;
      CALL(cudaMallocAsync(&at_once, 1000, s[0]));
      fill<<<1, 32, 0, s[0]>>>(at_once, 250, 9);
      CALL(cudaEventRecord(made, s[0]));
      CALL(cudaFreeAsync(at_once, s[0]));
      CALL(cudaStreamWaitEvent(s[1], made, 0));
      for (int i = 0; i < kKept; i++)
        if (kept[i]) {
          sum<<<1, 64, 0, s[1]>>>(kept[i], sizes[i] < 500 ? sizes[i] : 500, total);
          for (int j = 0; j < sizes[i] && j < 500; j++) expected += with[i] + j;
        }
      CALL(cudaEventRecord(used, s[1]));
      CALL(cudaStreamWaitEvent(s[2], used, 0));
      CALL(cudaStreamWaitEvent(s[0], used, 0));
    }
    uint32_t* ordinary;
    CALL(cudaMalloc(&ordinary, 4096 + step * 512));
    fill<<<1, 32, 0, s[1]>>>(ordinary, 1024, 5);
    CALL(cudaStreamSynchronize(s[1]));
    CALL(cudaFree(ordinary));
    LAUNCHED();
    if (step % 3 == 2) {  // other steps end while work is pending
      for (auto one : s) CALL(cudaStreamSynchronize(one));
      unsigned long long now;
      CALL(cudaMemcpy(&now, total, 8, cudaMemcpyDeviceToHost));
      EXPECT(now == expected);
    }
    if (step % 8 == 7) CALL(cudaMemPoolTrimTo(own, 1 << 20));
    CALL(cudaDeviceGetMemPool(&current, 0));
    EXPECT(current == own);
    EXPECT(attribute(own, cudaMemPoolAttrReleaseThreshold) == 3u << 20);
    EXPECT(attribute(first, cudaMemPoolAttrReleaseThreshold) == UINT64_MAX);
    EXPECT(flag(own, cudaMemPoolReuseAllowOpportunistic) == 0 &&
           flag(first, cudaMemPoolReuseAllowOpportunistic) == 1);
    EXPECT(flag(first, cudaMemPoolReuseAllowInternalDependencies) == 0 &&
           flag(own, cudaMemPoolReuseFollowEventDependencies) == 1);
    uint64_t used_now[2] = {attribute(first, cudaMemPoolAttrUsedMemCurrent),
                            attribute(own, cudaMemPoolAttrUsedMemCurrent)},
             least[2] = {};
    for (int i = 0; i < kKept; i++)
      if (kept[i]) least[i % 2] += sizes[i] * 4;
    for (int p = 0; p < 2; p++)
      // Freed memory may count for a while.
      if (used_now[p] < least[p])
        steplog_fail("pool %d uses %llu, blocks %llu", p, (unsigned long long)used_now[p],
                     (unsigned long long)least[p]);
    EXPECT(attribute(own, cudaMemPoolAttrReservedMemCurrent) >= used_now[1]);
    uint64_t high_now = attribute(own, cudaMemPoolAttrUsedMemHigh);
    if (high_now < high || high_now < used_now[1])
      steplog_fail("most used %llu, was %llu", (unsigned long long)high_now, (unsigned long long)high);
    high = high_now;
    for (int i = 0; i < kKept; i++)
      if (kept[i]) {
        cudaPointerAttributes of;
        CALL(cudaPointerGetAttributes(&of, kept[i]));
        EXPECT(of.type == cudaMemoryTypeDevice);
      }
    steplog_mix(expected);
    last_used = used_now[1];
    steplog_step();
  }
  (void)last_used;
  CALL(cudaDeviceSynchronize());
  for (int i = 0; i < kKept; i++)
    if (kept[i]) {
      std::vector<uint32_t> got(sizes[i]);
      CALL(cudaMemcpy(got.data(), kept[i], got.size() * 4, cudaMemcpyDeviceToHost));
      for (int j = 0; j < sizes[i]; j++) EXPECT(got[j] == with[i] + j);
    }
  nonce.back();
  steplog_ok();
  return 0;
}
