// nvcc: -lnccl -Xcompiler -pthread
// run: devices=2
// One thread per rank: ncclCommInitRank with an id from one of them, a reduction in a loop next to kernels, a
// split.
#include <nccl.h>

#include <thread>

#include "check.h"

#define NCCL(what)                                                                                   \
  do {                                                                                               \
    ncclResult_t result = (what);                                                                    \
    if (result != ncclSuccess) fail("line %d: %s: %s", __LINE__, #what, ncclGetErrorString(result)); \
  } while (0)

__global__ void add(float* data, int n, float what) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += what;
}

int main() {
  const int ranks = 2, n = 600, rounds = 5;
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  int devices;
  CALL(cudaGetDeviceCount(&devices));
  std::vector<float> results[ranks];
  auto work = [&](int rank) {
    CALL(cudaSetDevice(rank % devices));
    ncclComm_t comm, alone;
    NCCL(ncclCommInitRank(&comm, ranks, id, rank));
    Buffer<float> data(n);
    data.zero();
    cudaStream_t stream;
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaDeviceSynchronize());
    for (int r = 0; r < rounds; r++) {
      add<<<(n + 127) / 128, 128, 0, stream>>>(data, n, rank + 1.0f);
      NCCL(ncclAllReduce(data, data, n, ncclFloat, ncclSum, comm, stream));
    }
    LAUNCHED();
    NCCL(ncclCommSplit(comm, rank, 0, &alone, nullptr));
    NCCL(ncclAllReduce(data, data, n, ncclFloat, ncclSum, alone, stream));  // one rank: data stay the same
    CALL(cudaStreamSynchronize(stream));
    ncclResult_t state;
    NCCL(ncclCommGetAsyncError(comm, &state));
    EXPECT(state == ncclSuccess);
    results[rank] = data.host();
    CALL(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(alone));
    NCCL(ncclCommDestroy(comm));
  };
  std::thread one(work, 0), two(work, 1);
  one.join();
  two.join();
  float expected = 0;
  for (int r = 0; r < rounds; r++) expected = 2 * expected + 3;
  for (auto& result : results) {
    expect_same(result, std::vector<float>(n, expected));
    digest(result);
  }
  return finish();
}
