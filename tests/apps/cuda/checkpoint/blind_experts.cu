// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: build=long ranks=2,4 ways=static
// Mixture of experts: tokens are exchanged by grouped sends and receives of uneven, also empty, sizes, also
// to the rank itself; communicators by ncclCommSplit with various colours and keys (a rank may be in none);
// operations with scalars in host and device memory; two communicators on two streams, in a different order
// in every second step; temporary communicators, and MPI collectives in between.
#include "nccl_calls.h"

constexpr int kMost = 300;

static int count_of(int from, int to, long step) {
  uint64_t s = static_cast<uint64_t>(from * 131 + to * 17 + step * 7919);
  return static_cast<int>(steplog_random(&s) % 5 ? steplog_random(&s) % kMost : 0);
}
__host__ __device__ uint32_t token(int from, int to, int i, long step) {
  uint32_t v = static_cast<uint32_t>(from * 1000003 + to * 10007 + i * 31 + step);
  return (v ^ v >> 15) * 2246822519u;
}
__global__ void make(uint32_t* to, int n, int from, int dest, long step) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = token(from, dest, i, step);
}
__global__ void take(const uint32_t* got, int n, int from, int dest, long step, unsigned* wrong,
                     unsigned long long* sum) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    if (got[i] != token(from, dest, i, step)) atomicAdd(wrong, 1u);
    atomicAdd(sum, static_cast<unsigned long long>(got[i]));
  }
}
__global__ void whole(uint64_t* v, int n, uint64_t base) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] = base + i;
}
__global__ void set_scalar(uint64_t* s, uint64_t to) { *s = to; }

struct Part {  // a communicator, and its ranks' numbers in the world
  ncclComm_t comm = nullptr;
  std::vector<int> members;
  int me = -1;
};

static Part part(ncclComm_t parent, int rank, int ranks, int (*colour)(int, int), int (*key)(int, int)) {
  Part p;
  const int mine = colour(rank, ranks);
  NCCL(ncclCommSplit(parent, mine, key(rank, ranks), &p.comm, nullptr));
  if (mine == NCCL_SPLIT_NOCOLOR) {
    EXPECT(!p.comm);
    return p;
  }
  std::vector<std::pair<int, int>> order;
  for (int r = 0; r < ranks; r++)
    if (colour(r, ranks) == mine) order.push_back({key(r, ranks), r});
  for (size_t i = 0; i < order.size(); i++)
    for (size_t j = i + 1; j < order.size(); j++)
      if (order[j] < order[i]) std::swap(order[i], order[j]);
  for (auto& o : order) {
    if (o.second == rank) p.me = static_cast<int>(p.members.size());
    p.members.push_back(o.second);
  }
  return p;
}

static void check(const Part& p, int device) {
  if (!p.comm) return;
  int n, me, d;
  ncclResult_t state;
  NCCL(ncclCommCount(p.comm, &n));
  NCCL(ncclCommUserRank(p.comm, &me));
  NCCL(ncclCommCuDevice(p.comm, &d));
  NCCL(ncclCommGetAsyncError(p.comm, &state));
  EXPECT(n == static_cast<int>(p.members.size()) && me == p.me && d == device && state == ncclSuccess);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, device;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  CALL(cudaGetDevice(&device));
  ncclComm_t world = communicator(MPI_COMM_WORLD);
  Part parts[4] = {
      part(
          world, rank, ranks, [](int r, int) { return r % 2; }, [](int r, int n) { return n - r; }),
      part(
          world, rank, ranks, [](int r, int n) { return r == n - 1 ? NCCL_SPLIT_NOCOLOR : 5; },
          [](int r, int) { return -r; }),
      part(
          world, rank, ranks, [](int, int) { return 1000000; }, [](int r, int) { return r % 2; }),
      part(
          world, rank, ranks, [](int r, int) { return r; }, [](int, int) { return 0; }),
  };
  {  // a split of a split, whose parent is destroyed first
    Part between = part(
        world, rank, ranks, [](int, int) { return 2; }, [](int r, int n) { return n - r; });
    NCCL(ncclCommDestroy(parts[2].comm));
    parts[2] = between;
    ncclComm_t child;
    NCCL(ncclCommSplit(between.comm, 0, between.me, &child, nullptr));
    NCCL(ncclCommDestroy(between.comm));
    parts[2].comm = child;
  }
  cudaStream_t one, two;
  CALL(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  {
    DeviceNonce nonce;
    Buffer<uint32_t> out(ranks * kMost), in(ranks * kMost);
    Buffer<unsigned> wrong(std::vector<unsigned>(1, 0));
    Buffer<unsigned long long> sum(std::vector<unsigned long long>(1, 0));
    Buffer<uint64_t> sums(256), results(256), row(256), row_result(256 * 8), scalar(1);
    uint64_t host_scalar = 3;
    ncclRedOp_t by_host, by_device;
    NCCL(ncclRedOpCreatePreMulSum(&by_host, &host_scalar, ncclUint64, ncclScalarHostImmediate, world));
    NCCL(ncclRedOpCreatePreMulSum(&by_device, scalar.data, ncclUint64, ncclScalarDevice, world));
    host_scalar = 99;  // the scalar was read already
    unsigned long long expected = 0;
    ncclComm_t passing = nullptr;
    while (steplog_done < steplog_steps) {
      const long step = steplog_done;
      if (step % 5 == 0)
        NCCL(ncclCommSplit(world, 1, static_cast<int>(step % 2) ? -rank : rank, &passing, nullptr));
      for (auto& p : parts) check(p, device);
      size_t at = 0;
      std::vector<size_t> in_at(ranks);
      for (int r = 0; r < ranks; r++)
        make<<<1, 64, 0, one>>>(out + r * kMost, count_of(rank, r, step), rank, r, step);
      NCCL(ncclGroupStart());
      for (int r = 0; r < ranks; r++) {
        in_at[r] = at;
        if (int n = count_of(rank, r, step)) NCCL(ncclSend(out + r * kMost, n, ncclUint32, r, world, one));
        if (int n = count_of(r, rank, step)) NCCL(ncclRecv(in + at, n, ncclUint32, r, world, one));
        at += count_of(r, rank, step);
      }
      NCCL(ncclGroupEnd());
      for (int r = 0; r < ranks; r++) {
        take<<<1, 64, 0, one>>>(in + in_at[r], count_of(r, rank, step), r, rank, step, wrong, sum);
        for (int i = 0; i < count_of(r, rank, step); i++) expected += token(r, rank, i, step);
      }
      // Two communicators on two streams. The host calls them in an order that varies per step and is the
      // same on all ranks.
      set_scalar<<<1, 1, 0, two>>>(scalar, step + 2 + rank);
      whole<<<1, 64, 0, two>>>(sums, 256, step);
      whole<<<1, 64, 0, one>>>(row, 256, 1000 * (rank + 1) + step);
      auto first = [&] {
        NCCL(ncclAllReduce(sums, results, 256, ncclUint64, step % 4 < 2 ? by_host : by_device, world, two));
      };
      auto second = [&] { NCCL(ncclAllGather(row, row_result, 256, ncclUint64, parts[0].comm, one)); };
      CALL(cudaStreamSynchronize(one));
      if (step % 2)
        first(), second();
      else
        second(), first();
      if (parts[1].comm)
        NCCL(ncclBroadcast(row, row, 16, ncclUint64, static_cast<int>(step % parts[1].members.size()),
                           parts[1].comm, one));
      uint64_t least = rank, all = 0;
      MPI_Allreduce(&least, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
      EXPECT(all == static_cast<uint64_t>(ranks) * (ranks - 1) / 2);
      NCCL(ncclReduce(results, results, 1, ncclUint64, ncclMax, static_cast<int>(step % ranks), parts[2].comm,
                      two));
      if (step % 5 == 4) {
        NCCL(ncclAllReduce(row, row, 1, ncclUint64, ncclProd, passing, one));
        CALL(cudaStreamSynchronize(one));
        if (step % 2) NCCL(ncclCommFinalize(passing));
        NCCL(ncclCommDestroy(passing));
        passing = nullptr;
      }
      CALL(cudaStreamSynchronize(one));
      CALL(cudaStreamSynchronize(two));
      EXPECT(wrong.host()[0] == 0);
      EXPECT(sum.host()[0] == expected);
      uint64_t factor = 0;
      for (int r = 0; r < ranks; r++) factor += step % 4 < 2 ? 3 : step + 2 + r;
      auto got = results.host();
      for (int i = 0; i < 256; i++) EXPECT(got[i] == factor * (step + i));
      auto gathered = row_result.host();
      for (size_t m = 0; m < parts[0].members.size(); m++)
        for (int i = 0; i < 256; i++)
          EXPECT(gathered[m * 256 + i] == 1000u * (parts[0].members[m] + 1) + step + i);
      if (parts[1].comm && step % 5 != 4) {
        int root = parts[1].members[step % parts[1].members.size()];
        EXPECT(row.host()[3] == 1000u * (root + 1) + step + 3);
      }
      mix(got);
      mix(row.host());
      steplog_step();
    }
    if (passing) NCCL(ncclCommDestroy(passing));
    NCCL(ncclRedOpDestroy(by_host, world));
    NCCL(ncclRedOpDestroy(by_device, world));
    nonce.back();
  }
  for (auto& p : parts)
    if (p.comm) NCCL(ncclCommDestroy(p.comm));
  NCCL(ncclCommDestroy(world));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
