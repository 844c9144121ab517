// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: ranks=2,4 ways=static
// Nonblocking communicators. The ranks start to make them in different steps, so that steps end in the
// middle; collectives are polled until they are launched; communicators are finalized in one step and
// destroyed in a later one, or aborted. An error is provoked at the start; NCCL's messages about it, as texts
// and as addresses, stay the same in every step.
#include <functional>
#include <string>

#include "nccl_calls.h"

constexpr int kValues = 300, kCycle = 10;

__host__ __device__ uint32_t changed(uint32_t v, uint32_t by) {
  v = (v ^ by) * 2654435761u;
  return v ^ v >> 15;
}
__global__ void change(uint32_t* v, uint32_t by) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) v[i] = changed(v[i], by);
}
static bool under_way(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  NCCL(ncclCommGetAsyncError(comm, &state));
  EXPECT(state == ncclSuccess || state == ncclInProgress);
  return state == ncclInProgress;
}
static void until_done(ncclResult_t given, ncclComm_t comm) {
  EXPECT(given == ncclSuccess || given == ncclInProgress);
  while (under_way(comm)) {
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  ncclComm_t blocking = communicator(MPI_COMM_WORLD), always = nullptr, passing = nullptr, aborted = nullptr,
             child = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = "blind";
  auto begin = [&](ncclComm_t* comm) {  // MPI distributes the id
    static ncclUniqueId id;
    if (rank == 0) NCCL(ncclGetUniqueId(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    return [&, comm] {
      ncclResult_t made = ncclCommInitRankConfig(comm, ranks, id, rank, &config);
      EXPECT(made == ncclSuccess || made == ncclInProgress);
    };
  };
  begin (&always)();
  until_done(ncclInProgress, always);
  cudaStream_t s;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  {
    DeviceNonce nonce;
    std::vector<std::vector<uint32_t>> all(ranks, std::vector<uint32_t>(kValues));
    for (int r = 0; r < ranks; r++)
      for (int i = 0; i < kValues; i++) all[r][i] = static_cast<uint32_t>(r * 3000 + i);
    Buffer<uint32_t> v(all[rank]), sum(kValues), lost(kValues);
    std::function<void()> make = begin(&passing);
    const ncclResult_t wrong = ncclBroadcast(v, v, kValues, ncclUint32, ranks + 5, blocking, s);
    EXPECT(wrong == ncclInvalidArgument);
    const char *name = ncclGetErrorString(wrong), *of_cuda = cudaGetErrorString(cudaErrorInvalidValue),
               *last = ncclGetLastError(blocking);
    EXPECT(name && of_cuda && last);
    const std::string name_was = name, cuda_was = of_cuda;
    std::string last_was = last;
    int version_was = 0;
    NCCL(ncclGetVersion(&version_was));
    bool begun = false;
    while (steplog_done < steplog_steps) {
      const uint32_t step = static_cast<uint32_t>(steplog_done);
      const int place = static_cast<int>(step % kCycle);
      EXPECT(name == name_was && of_cuda == cuda_was);
      EXPECT(name_was == ncclGetErrorString(ncclInvalidArgument));
      if (last_was != ncclGetLastError(blocking))
        steplog_fail("NCCL's last error is \"%s\", was \"%s\"", ncclGetLastError(blocking), last_was.c_str());
      int version = 0;
      NCCL(ncclGetVersion(&version));
      EXPECT(version == version_was);
      EXPECT(!under_way(blocking) && !under_way(always));
      change<<<1, 64, 0, s>>>(v, step);
      until_done(ncclAllReduce(v, sum, kValues, ncclUint32, ncclSum, always, s), always);
      CALL(cudaMemcpyAsync(v, sum, kValues * 2, cudaMemcpyDeviceToDevice, s));  // the first half
      for (auto& of : all)
        for (auto& x : of) x = changed(x, step);
      for (int i = 0; i < kValues / 2; i++) {
        uint32_t total = 0;
        for (auto& of : all) total += of[i];
        for (auto& of : all) of[i] = total;
      }
      // Creation: rank 0 in the first step of a cycle, the last rank in the fourth.
      if (place == 0 && step > 0) make = begin(&passing);
      if (place == (rank < 3 ? rank : 3)) make(), begun = true;
      if (begun && place < 4) under_way(passing);  // polled once per step, whatever the answer
      if (place == 4) {
        while (under_way(passing)) {
        }
        int n, r;
        NCCL(ncclCommCount(passing, &n));
        NCCL(ncclCommUserRank(passing, &r));
        EXPECT(n == ranks && r == rank);
        ncclComm_t made = nullptr;
        ncclResult_t given = ncclCommSplit(passing, 0, -rank, &made, nullptr);  // inherits nonblocking
        until_done(given, passing);
        child = made;
        until_done(ncclInProgress, child);
        NCCL(ncclCommUserRank(child, &r));
        EXPECT(r == ranks - 1 - rank);
      }
      if (place == 4 || place == 5) {  // two calls in a group, polled as a whole
        ncclResult_t given = ncclGroupStart();
        EXPECT(given == ncclSuccess);
        given = ncclBroadcast(v, sum, kValues, ncclUint32, ranks - 1, passing, s);
        EXPECT(given == ncclSuccess || given == ncclInProgress);
        given = ncclBroadcast(v, lost, kValues, ncclUint32, ranks - 1, child, s);  // root: the world's rank 0
        EXPECT(given == ncclSuccess || given == ncclInProgress);
        given = ncclGroupEnd();
        until_done(given, passing);
        until_done(given, child);
        CALL(cudaStreamSynchronize(s));
        EXPECT(sum.host() == all[ranks - 1] && lost.host() == all[0]);
      }
      if (place == 5) {
        ncclResult_t given = ncclCommAbort(child);
        EXPECT(given == ncclSuccess || given == ncclInProgress);
        child = nullptr;
      }
      // Finalized by rank 0 in the sixth step, by the others in the seventh; destroyed one step later.
      if (place == (rank == 0 ? 6 : 7)) {
        ncclResult_t given = ncclCommFinalize(passing);
        EXPECT(given == ncclSuccess || given == ncclInProgress);
      }
      if (place >= 6 && place < 8) under_way(passing);
      if (place == 8) {
        while (under_way(passing)) {
        }
      }
      if (place == 9) {
        NCCL(ncclCommDestroy(passing));
        passing = nullptr, begun = false;
        // Aborted while ranks wait: only rank 0 launches.
        auto once = begin(&aborted);
        once();
        until_done(ncclInProgress, aborted);
        if (rank == 0) {
          cudaStream_t doomed;
          CALL(cudaStreamCreateWithFlags(&doomed, cudaStreamNonBlocking));
          ncclResult_t given = ncclAllReduce(lost, lost, kValues, ncclUint32, ncclSum, aborted, doomed);
          EXPECT(given == ncclSuccess || given == ncclInProgress);
          given = ncclCommAbort(aborted);
          EXPECT(given == ncclSuccess || given == ncclInProgress);
          CALL(cudaStreamSynchronize(doomed));
          CALL(cudaStreamDestroy(doomed));
        } else {
          ncclResult_t given = ncclCommAbort(aborted);
          EXPECT(given == ncclSuccess || given == ncclInProgress);
        }
        aborted = nullptr;
      }
      if (step % 3 != 1) {
        CALL(cudaStreamSynchronize(s));
        EXPECT(v.host() == all[rank]);
        mix(v.host());
      }
      LAUNCHED();
      last_was = ncclGetLastError(blocking);  // NCCL may have set another message meanwhile
      steplog_step();
    }
    CALL(cudaDeviceSynchronize());
    EXPECT(v.host() == all[rank]);
    if (begun) ncclCommAbort(passing);
    if (child) ncclCommAbort(child);
    nonce.back();
  }
  until_done(ncclCommFinalize(always), always);
  NCCL(ncclCommDestroy(always));
  NCCL(ncclCommDestroy(blocking));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
