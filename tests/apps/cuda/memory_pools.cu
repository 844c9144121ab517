// Stream-ordered allocation from the default pool and from the program's own: freed in order, reused,
// trimmed, counted.
// run: also=shared,per-thread
#include "check.h"

__global__ void fill(int* data, int n, int value) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = value + i;
}

__global__ void add(const int* from, int* to, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] += from[i];
}

int main() {
  const int n = 1000;
  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  cudaMemPool_t pool, own;
  CALL(cudaDeviceGetDefaultMemPool(&pool, 0));
  uint64_t keep = ~uint64_t{0};
  CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  Buffer<int> sum(n);
  CALL(cudaMemsetAsync(sum, 0, n * sizeof(int), stream));
  std::vector<int> expected(n);
  for (int round = 0; round < 10; round++) {
    int *a, *b;
    CALL(cudaMallocAsync(&a, n * sizeof(int), stream));
    CALL(cudaMallocAsync(&b, n * sizeof(int), stream));
    EXPECT(a != b);
    fill<<<1, 64, 0, stream>>>(a, n, round);
    fill<<<1, 64, 0, stream>>>(b, n, 100 * round);
    add<<<1, 64, 0, stream>>>(a, sum, n);
    CALL(cudaFreeAsync(a, stream));
    add<<<1, 64, 0, stream>>>(b, sum, n);
    CALL(cudaFreeAsync(b, stream));
    for (int i = 0; i < n; i++) expected[i] += round * 101 + 2 * i;
  }
  LAUNCHED();
  CALL(cudaStreamSynchronize(stream));
  expect_same(sum.host(), expected);
  uint64_t used, reserved;
  CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  EXPECT(used == 0 && reserved >= 2 * n * sizeof(int));
  CALL(cudaMemPoolTrimTo(pool, 0));
  CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  EXPECT(reserved == 0);

  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  CALL(cudaMemPoolCreate(&own, &properties));
  int* c;
  CALL(cudaMallocFromPoolAsync(&c, n * sizeof(int), own, stream));
  fill<<<1, 64, 0, stream>>>(c, n, 5);
  CALL(cudaMemcpyAsync(sum, c, n * sizeof(int), cudaMemcpyDeviceToDevice, stream));
  CALL(cudaFreeAsync(c, stream));
  CALL(cudaStreamSynchronize(stream));
  for (int i = 0; i < n; i++) expected[i] = 5 + i;
  expect_same(sum.host(), expected);
  CALL(cudaMemPoolDestroy(own));
  CALL(cudaStreamDestroy(stream));
  digest(sum.host());
  return finish();
}
