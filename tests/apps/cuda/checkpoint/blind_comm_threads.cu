// nvcc: -std=c++17 -lnccl -Xcompiler -pthread -Xcompiler -Wno-cast-function-type
// run: build=long ranks=2,4 ways=static
// Two threads per rank, each with its own communicator, stream and order of calls, and with MPI collectives
// on its own MPI communicator (MPI_THREAD_MULTIPLE); one thread runs up to three steps ahead of the other.
// Each has an unread CUDA error. After half of the steps the second thread ends, and a new one takes over its
// objects.
#include <condition_variable>
#include <mutex>
#include <thread>

#include "nccl_calls.h"

constexpr int kEach = 64, kMostRanks = 4, kMost = kEach * kMostRanks, kAhead = 3;
using Values = std::vector<uint32_t>;

static std::mutex mutex;
static std::condition_variable turn;
static long allowed, arrived[2];
static uint64_t digests[2];

__host__ __device__ uint32_t changed(uint32_t v, uint32_t by) {
  v = (v ^ by) * 2654435761u;
  return v ^ v >> 15;
}
__global__ void change(uint32_t* v, int n, uint32_t by) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] = changed(v[i], by);
}

struct Line {  // the objects of one thread, which it hands over
  int id, rank, ranks, device;
  MPI_Comm mpi;
  ncclComm_t comm;
  cudaStream_t stream;
  std::vector<Values> all;
  uint32_t *v, *part;
};

static void work(Line* line, long from, long until) {
  Line& l = *line;
  const int n = kEach * l.ranks;
  int current = -1;
  CALL(cudaSetDevice(l.device));
  cudaError_t mine = cudaSuccess;
  for (long step = from; step < until; step++) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      turn.wait(lock, [&] { return allowed > step; });
    }
    const cudaError_t found = cudaGetLastError();
    if (found != mine) steplog_fail("thread %d: its last error is %d, was %d", l.id, found, mine);
    CALL(cudaGetDevice(&current));
    if (current != l.device) steplog_fail("thread %d: its device is %d, was %d", l.id, current, l.device);
    const uint32_t by = static_cast<uint32_t>(step * 2 + l.id);
    change<<<1, 64, 0, l.stream>>>(l.v, n, by);
    LAUNCHED();
    for (auto& of : l.all)
      for (auto& x : of) x = changed(x, by);
    Values total(n, 0);
    for (auto& of : l.all)
      for (int i = 0; i < n; i++) total[i] += of[i];
    auto own = [&] {
      uint64_t sent = static_cast<uint64_t>(step + l.rank), got = 0;
      MPI_Allreduce(&sent, &got, 1, MPI_UINT64_T, MPI_SUM, l.mpi);
      EXPECT(got == static_cast<uint64_t>(step * l.ranks + l.ranks * (l.ranks - 1) / 2));
    };
    if (l.id == 0) {
      own();
      NCCL(ncclReduceScatter(l.v, l.part, kEach, ncclUint32, ncclSum, l.comm, l.stream));
      NCCL(ncclAllGather(l.part, l.v, kEach, ncclUint32, l.comm, l.stream));
      for (auto& of : l.all) of = total;
      if (step % 4 == l.rank % 4) steplog_spin(2 * steplog_pace);
      CALL(cudaStreamSynchronize(l.stream));
    } else {
      const int root = static_cast<int>(step % l.ranks);
      for (int k = 0; k < 3; k++) {
        NCCL(ncclReduce(l.v, l.v, n, ncclUint32, ncclSum, root, l.comm, l.stream));
        change<<<1, 64, 0, l.stream>>>(l.v, n, static_cast<uint32_t>(l.rank));
        Values sum(n, 0);
        for (auto& of : l.all)
          for (int i = 0; i < n; i++) sum[i] += of[i];
        l.all[root] = sum;
        for (int r = 0; r < l.ranks; r++)
          for (auto& x : l.all[r]) x = changed(x, static_cast<uint32_t>(r));
      }
      if (step % 2) CALL(cudaStreamSynchronize(l.stream));
      own();
    }
    if (step % 3 == 0) {
      CALL(cudaStreamSynchronize(l.stream));
      Values got(n);
      CALL(cudaMemcpyAsync(got.data(), l.v, n * 4, cudaMemcpyDeviceToHost, l.stream));
      CALL(cudaStreamSynchronize(l.stream));
      if (got != l.all[l.rank]) steplog_fail("thread %d: differs", l.id);
      for (auto x : got) digests[l.id] = digests[l.id] * 31 + x;
    }
    // An error for the next step to read.
    if (l.id == 0) mine = cudaSetDevice(1000 + static_cast<int>(step));
    if (l.id == 1) {
      change<<<1, 4096, 0, l.stream>>>(l.v, n, 0);
      mine = cudaPeekAtLastError();
    }
    EXPECT(mine != cudaSuccess);
    std::lock_guard<std::mutex> lock(mutex);
    arrived[l.id] = step + 1;
    turn.notify_all();
  }
}

int main(int argc, char** argv) {
  int provided, rank, ranks, device;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  EXPECT(provided == MPI_THREAD_MULTIPLE);
  choose_device();
  CALL(cudaGetDevice(&device));
  {
    DeviceNonce nonce;
    Line lines[2];
    for (int id = 0; id < 2; id++) {
      Line& l = lines[id];
      l.id = id, l.rank = rank, l.ranks = ranks, l.device = device;
      MPI_Comm_dup(MPI_COMM_WORLD, &l.mpi);
      l.comm = communicator(l.mpi);
      CALL(cudaStreamCreateWithFlags(&l.stream, cudaStreamNonBlocking));
      l.all.assign(ranks, Values(kEach * ranks));
      for (int r = 0; r < ranks; r++)
        for (int i = 0; i < kEach * ranks; i++) l.all[r][i] = static_cast<uint32_t>(r * 999 + i + id);
      CALL(cudaMalloc(&l.v, kMost * 4));
      CALL(cudaMalloc(&l.part, kEach * 4));
      CALL(cudaMemcpy(l.v, l.all[rank].data(), kEach * ranks * 4, cudaMemcpyHostToDevice));
    }
    CALL(cudaDeviceSynchronize());
    const long half = steplog_steps / 2;
    allowed = 1;
    std::thread first(work, &lines[0], 0, steplog_steps), second(work, &lines[1], 0, half), third;
    while (steplog_done < steplog_steps) {
      const long step = steplog_done;
      {
        std::unique_lock<std::mutex> lock(mutex);
        allowed = step + 1 + (step % 2 ? kAhead : 0) > allowed ? step + 1 + (step % 2 ? kAhead : 0) : allowed;
        turn.notify_all();
        turn.wait(lock, [&] { return arrived[0] > step && arrived[1] > step; });
      }
      if (step + 1 == half) {
        second.join();
        third = std::thread(work, &lines[1], half, steplog_steps);
      }
      EXPECT(cudaPeekAtLastError() == cudaSuccess);  // the error of this thread
      steplog_step();
    }
    first.join();
    if (second.joinable()) second.join();
    if (third.joinable()) third.join();
    for (uint64_t digest : digests) steplog_mix(digest);
    nonce.back();
    for (Line& l : lines) {
      NCCL(ncclCommDestroy(l.comm));
      MPI_Comm_free(&l.mpi);
    }
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
