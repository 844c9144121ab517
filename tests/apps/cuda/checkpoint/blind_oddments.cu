// nvcc: -std=c++17 -lnccl -Xcompiler -pthread -Xcompiler -Wno-cast-function-type
// run: ranks=2,4 ways=static
// Rare uses of NCCL: a group started in one step and ended in the next; profiler entry points; communicators
// that shrink by different ranks, one split after NCCL refused a rank's first try, and one made from two ids;
// collectives on default streams, on a high-priority stream, and on streams destroyed while they run;
// operations destroyed right after the call; gathers, scatters and all-to-alls.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "nccl_calls.h"

constexpr int kEach = 60, kMostRanks = 4, kAll = kEach * kMostRanks;
using Values = std::vector<uint32_t>;

static std::mutex mutex;
static std::condition_variable turn;
static long stage;  // two stages per step: group started, group to be ended

__host__ __device__ uint32_t value(int rank, int i, long step) {
  uint32_t v = static_cast<uint32_t>(rank * 4099 + i * 17 + step * 131);
  return (v ^ v >> 7) * 2654435761u;
}
__global__ void fill(uint32_t* v, int n, int rank, long step) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] = value(rank, i, step);
}
__global__ void set(uint32_t* v, uint32_t to) { *v = to; }

template <class F>
static void equal(const uint32_t* from, int n, int line, F want) {
  Values got(n);
  CALL(cudaMemcpy(got.data(), from, n * 4, cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++)
    if (got[i] != want(i)) steplog_fail("line %d: [%d] is %u, not %u", line, i, got[i], want(i));
  mix(got);
}
static void until(long at) {
  std::unique_lock<std::mutex> lock(mutex);
  turn.wait(lock, [&] { return stage >= at; });
}
static void reached(long at) {
  std::lock_guard<std::mutex> lock(mutex);
  stage = at;
  turn.notify_all();
}

int main(int argc, char** argv) {
  int rank, ranks, device, provided, least, most;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  CALL(cudaGetDevice(&device));
  ncclComm_t comm = communicator(MPI_COMM_WORLD), grouped = communicator(MPI_COMM_WORLD), shrunk = nullptr,
             of_two = nullptr, other_shrunk = nullptr, split = nullptr;
  if (rank == 0) {  // the other ranks know nothing of it
    ncclConfig_t wrong = NCCL_CONFIG_INITIALIZER;
    wrong.blocking = 7;
    EXPECT(ncclCommSplit(comm, 0, rank, &split, &wrong) == ncclInvalidArgument && split == nullptr);
  }
  NCCL(ncclCommSplit(comm, 0, -rank, &split, nullptr));
  cudaStream_t s, aside, high;
  CALL(cudaDeviceGetStreamPriorityRange(&least, &most));
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, most));
  {
    DeviceNonce nonce;
    Buffer<uint32_t> in(kAll), out(kAll), sent(kEach), got(kEach), factor(1), old(kAll), early(kAll);
    CALL(cudaMemset(got, 0, kEach * 4));
    CALL(cudaDeviceSynchronize());
    std::thread other([&] {
      CALL(cudaSetDevice(device));
      for (long step = 0; step < steplog_steps; step++) {
        until(3 * step + 1);
        fill<<<1, 32, 0, aside>>>(sent, kEach, rank, step + 7);
        NCCL(ncclGroupStart());
        NCCL(ncclSend(sent, kEach, ncclUint32, (rank + 1) % ranks, grouped, aside));
        NCCL(ncclGroupStart());
        NCCL(ncclRecv(got, kEach, ncclUint32, (rank + ranks - 1) % ranks, grouped, aside));
        NCCL(ncclGroupEnd());
        reached(3 * step + 2);
        until(3 * step + 3);  // the step ends in between
        NCCL(ncclGroupEnd());
        CALL(cudaStreamSynchronize(aside));
        reached(3 * step + 4);
      }
    });
    reached(1);
    const int n = kEach * ranks;
    while (steplog_done < steplog_steps) {
      const long step = steplog_done;
      const int root = static_cast<int>(step % ranks);
      until(3 * step + 2);
      fill<<<1, 64, 0, s>>>(in, n, rank, step);
      auto total = [&](int i) {
        uint32_t sum = 0;
        for (int r = 0; r < ranks; r++) sum += value(r, i, step);
        return sum;
      };
      NCCL(pncclAllReduce(in, out, n, ncclUint32, ncclSum, comm, s));
      CALL(cudaStreamSynchronize(s));
      equal(out, n, __LINE__, total);
      if (step > 0) equal(early, n, __LINE__, [&](int i) { return value(i / kEach, i % kEach, step - 1); });
      NCCL(ncclAllGather(in, early, kEach, ncclUint32, comm, high));  // checked in the next step
      NCCL(ncclAlltoAll(in, out, kEach, ncclUint32, comm, nullptr));
      CALL(cudaStreamSynchronize(nullptr));
      equal(out, n, __LINE__, [&](int i) { return value(i / kEach, rank * kEach + i % kEach, step); });
      NCCL(ncclGather(in, out, kEach, ncclUint32, root, comm, cudaStreamPerThread));
      CALL(cudaStreamSynchronize(cudaStreamPerThread));
      if (rank == root) equal(out, n, __LINE__, [&](int i) { return value(i / kEach, i % kEach, step); });
      NCCL(ncclScatter(in, out, kEach, ncclUint32, root, comm, cudaStreamLegacy));
      CALL(cudaStreamSynchronize(cudaStreamLegacy));
      equal(out, kEach, __LINE__, [&](int i) { return value(root, rank * kEach + i, step); });
      {  // stream, event and operation are destroyed at once, while the stream still has work
        cudaStream_t brief;
        cudaEvent_t event;
        ncclRedOp_t by;
        if (step > 1)
          equal(old, n, __LINE__, [&](int i) {
            uint32_t sum = 0;
            for (int r = 0; r < ranks; r++) sum += value(r, i, step - 1) * static_cast<uint32_t>(step + r);
            return sum;
          });
        CALL(cudaStreamCreateWithFlags(&brief, cudaStreamNonBlocking));
        CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        set<<<1, 1, 0, brief>>>(factor, static_cast<uint32_t>(step + 1 + rank));
        NCCL(ncclRedOpCreatePreMulSum(&by, factor, ncclUint32, ncclScalarDevice, comm));
        NCCL(ncclAllReduce(in, old, n, ncclUint32, by, comm, brief));
        NCCL(ncclRedOpDestroy(by, comm));
        CALL(cudaEventRecord(event, brief));
        CALL(cudaStreamWaitEvent(s, event, 0));
        CALL(cudaEventDestroy(event));
        CALL(cudaStreamDestroy(brief));
      }
      if (step % 7 == 2 && rank != ranks - 1) {
        int last = ranks - 1;
        NCCL(ncclCommShrink(comm, &last, 1, &shrunk, nullptr, NCCL_SHRINK_DEFAULT));
      }
      if (shrunk) {
        int count = 0, me = -1;
        NCCL(ncclCommCount(shrunk, &count));
        NCCL(ncclCommUserRank(shrunk, &me));
        EXPECT(count == ranks - 1 && me == rank);
        NCCL(ncclBcast(out, kEach, ncclUint32, count - 1, shrunk, s));
        CALL(cudaStreamSynchronize(s));
        equal(out, kEach, __LINE__, [&](int i) { return value(root, (count - 1) * kEach + i, step); });
        if (step % 7 == 5) {
          NCCL(ncclCommDestroy(shrunk));
          shrunk = nullptr;
        }
      }
      if (step % 9 == 3) {
        ncclUniqueId ids[2];
        if (rank == 0)
          for (ncclUniqueId& id : ids) NCCL(ncclGetUniqueId(&id));
        MPI_Bcast(ids, sizeof ids, MPI_BYTE, 0, MPI_COMM_WORLD);
        NCCL(ncclCommInitRankScalable(&of_two, ranks, ranks - 1 - rank, 2, ids, nullptr));
      }
      if (of_two) {
        NCCL(ncclReduceScatter(in, out, kEach, ncclUint32, ncclSum, of_two, s));
        CALL(cudaStreamSynchronize(s));
        equal(out, kEach, __LINE__, [&](int i) { return total((ranks - 1 - rank) * kEach + i); });
        if (step % 9 == 7) {
          NCCL(ncclCommDestroy(of_two));
          of_two = nullptr;
        }
      }
      if (step % 7 == 3 && rank != 0) {  // the last rank has never shrunk it, the others have
        int first = 0;
        NCCL(ncclCommShrink(comm, &first, 1, &other_shrunk, nullptr, NCCL_SHRINK_DEFAULT));
      }
      if (other_shrunk) {
        NCCL(ncclBroadcast(in, out, kEach, ncclUint32, ranks - 2, other_shrunk, s));
        CALL(cudaStreamSynchronize(s));
        equal(out, kEach, __LINE__, [&](int i) { return value(ranks - 1, i, step); });
        if (step % 7 == 6) {
          NCCL(ncclCommDestroy(other_shrunk));
          other_shrunk = nullptr;
        }
      }
      NCCL(ncclReduceScatter(in, out, kEach, ncclUint32, ncclSum, split, s));
      CALL(cudaStreamSynchronize(s));
      equal(out, kEach, __LINE__, [&](int i) { return total((ranks - 1 - rank) * kEach + i); });
      LAUNCHED();
      steplog_step();  // inside the other thread's group, with work pending on the destroyed stream
      reached(3 * step + 3);
      until(3 * step + 4);
      equal(got, kEach, __LINE__, [&](int i) { return value((rank + ranks - 1) % ranks, i, step + 7); });
      CALL(cudaStreamSynchronize(high));
      CALL(cudaStreamSynchronize(s));  // waits for the destroyed stream's event
    }
    other.join();
    nonce.back();
  }
  for (ncclComm_t one : {shrunk, other_shrunk, split, of_two, grouped, comm})
    if (one) NCCL(ncclCommDestroy(one));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
