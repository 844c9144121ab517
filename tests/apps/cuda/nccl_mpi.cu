// nvcc: -lnccl
// run: ranks=1,2,4
// One process per rank, started by MPI, which also distributes the id: collectives of several types and sizes
// on streams, in place, interleaved with kernels and with MPI, a ring of sends, two communicators.
#include <mpi.h>
#include <nccl.h>

#include <algorithm>

#include "check.h"

#define NCCL(what)                                                                                   \
  do {                                                                                               \
    ncclResult_t result = (what);                                                                    \
    if (result != ncclSuccess) fail("line %d: %s: %s", __LINE__, #what, ncclGetErrorString(result)); \
  } while (0)

template <class T>
__global__ void scale(T* data, int n, T factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= factor;
}

template <class T>
void reduce(ncclDataType_t type, int n, int rank, int ranks, ncclComm_t comm, cudaStream_t stream) {
  std::vector<T> values(n), expected(n);
  for (int i = 0; i < n; i++) {
    values[i] = static_cast<T>(rank + i % 11);
    for (int r = 0; r < ranks; r++) expected[i] += static_cast<T>(2 * (r + i % 11));
    expected[i] = expected[i] * 3;
  }
  Buffer<T> data(values);
  scale<<<(n + 127) / 128, 128, 0, stream>>>(data.data, n, T(2));
  NCCL(ncclAllReduce(data, data, n, type, ncclSum, comm, stream));
  scale<<<(n + 127) / 128, 128, 0, stream>>>(data.data, n, T(3));
  LAUNCHED();
  CALL(cudaStreamSynchronize(stream));
  expect_same(data.host(), expected);
  digest(data.host());
}

// More than the library's own memory holds.
void large(int rank, int ranks, ncclComm_t comm, cudaStream_t stream) {
  constexpr size_t kBytes = (5 << 20) + 3;
  Buffer<signed char> mine(kBytes), sum(kBytes), left(kBytes);
  CALL(cudaMemsetAsync(mine, rank + 1, kBytes, stream));
  CALL(cudaMemsetAsync(mine + kBytes / 2, 2 * rank, kBytes / 2, stream));
  NCCL(ncclAllReduce(mine, sum, kBytes, ncclInt8, ncclSum, comm, stream));
  NCCL(ncclGroupStart());
  NCCL(ncclSend(mine, kBytes, ncclInt8, (rank + 1) % ranks, comm, stream));
  NCCL(ncclRecv(left, kBytes, ncclInt8, (rank + ranks - 1) % ranks, comm, stream));
  NCCL(ncclGroupEnd());
  NCCL(ncclBroadcast(mine, mine, kBytes, ncclInt8, ranks - 1, comm, stream));
  CALL(cudaStreamSynchronize(stream));
  const auto all = [&](int first, int second) {
    std::vector<signed char> values(kBytes, static_cast<signed char>(second));
    std::fill_n(values.begin(), kBytes / 2, static_cast<signed char>(first));
    values.back() = static_cast<signed char>(first);  // an odd number of bytes
    return values;
  };
  const int before = (rank + ranks - 1) % ranks;
  expect_same(sum.host(), all(ranks * (ranks + 1) / 2, ranks * (ranks - 1)), "large sum");
  expect_same(left.host(), all(before + 1, 2 * before), "large message");
  expect_same(mine.host(), all(ranks, 2 * (ranks - 1)), "large broadcast");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, devices;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CALL(cudaGetDeviceCount(&devices));
  CALL(cudaSetDevice(rank % devices));
  ncclUniqueId ids[2];
  if (rank == 0)
    for (ncclUniqueId& id : ids) NCCL(ncclGetUniqueId(&id));
  MPI_Bcast(ids, sizeof ids, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t comm, other;
  NCCL(ncclCommInitRank(&comm, ranks, ids[0], rank));
  NCCL(ncclCommInitRank(&other, ranks, ids[1], ranks - 1 - rank));  // the ranks in reverse order
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  reduce<float>(ncclFloat32, 1, rank, ranks, comm, stream);
  reduce<float>(ncclFloat32, 10007, rank, ranks, comm, stream);
  reduce<double>(ncclFloat64, 300, rank, ranks, other, stream);
  reduce<int>(ncclInt32, 40000, rank, ranks, comm, stream);
  reduce<long long>(ncclInt64, 5, rank, ranks, other, stream);
  large(ranks - 1 - rank, ranks, other, stream);

  const int n = 500;
  std::vector<int> mine(n, rank), got(n);
  Buffer<int> out(mine), in(n), all(n * ranks);
  for (int step = 0; step < ranks; step++) {  // once around the ring
    NCCL(ncclGroupStart());
    NCCL(ncclSend(out, n, ncclInt32, (rank + 1) % ranks, comm, stream));
    NCCL(ncclRecv(in, n, ncclInt32, (rank + ranks - 1) % ranks, comm, stream));
    NCCL(ncclGroupEnd());
    CALL(cudaMemcpyAsync(out, in, n * sizeof(int), cudaMemcpyDeviceToDevice, stream));
    CALL(cudaStreamSynchronize(stream));
    EXPECT(in.host()[n - 1] == (rank + ranks - step - 1) % ranks);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  NCCL(ncclAllGather(out, all, n, ncclInt32, other, stream));
  CALL(cudaStreamSynchronize(stream));
  std::vector<int> gathered = all.host();
  for (int r = 0; r < ranks; r++) EXPECT(gathered[r * n] == ranks - 1 - r);
  digest(gathered);
  NCCL(ncclCommDestroy(other));
  NCCL(ncclCommDestroy(comm));
  CALL(cudaStreamDestroy(stream));
  uint64_t low, high;
  MPI_Allreduce(&the_digest, &low, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&the_digest, &high, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  EXPECT(low == high);
  if (rank == 0) finish();
  MPI_Finalize();
  return 0;
}
