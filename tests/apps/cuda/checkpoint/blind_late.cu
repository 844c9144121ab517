// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: build=long ranks=2,4 ways=static
// Alternating MPI and NCCL collectives that overlap: nonblocking MPI reductions run during NCCL's. One rank
// is very late while the others wait for the collective in cudaStreamSynchronize, in an event, or by polling.
// Two communicators on two streams, nested groups, registered memory and NCCL's own, communicators that are
// finalized and made again.
#include "nccl_calls.h"

constexpr int kValues = 600;
__global__ void change(uint32_t* v, uint32_t with) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) v[i] = (v[i] ^ with) * 2654435761u >> 4;
}
__global__ void stamp(volatile uint32_t* to, uint32_t what) { *to = what; }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  const long late = steplog_pace * (steplog_has(argc, argv, "--late") ? 60 : 3);
  ncclComm_t a = communicator(MPI_COMM_WORLD), b = communicator(MPI_COMM_WORLD), passing = nullptr;
  cudaStream_t s, t;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  cudaEvent_t event;
  CALL(cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming));
  {
    DeviceNonce nonce;
    std::vector<std::vector<uint32_t>> model(ranks, std::vector<uint32_t>(kValues));
    for (int r = 0; r < ranks; r++)
      for (int i = 0; i < kValues; i++) model[r][i] = static_cast<uint32_t>(r * 7000 + i);
    Buffer<uint32_t> v(model[rank]), sum(std::vector<uint32_t>(kValues, 0)),
        max(std::vector<uint32_t>(kValues, 0)), ring(model[rank]);
    uint32_t* own;
    void* handle;
    volatile uint32_t* word;
    NCCL(ncclMemAlloc(reinterpret_cast<void**>(&own), kValues * 4));
    NCCL(ncclCommRegister(a, sum, kValues * 4, &handle));
    CALL(cudaHostAlloc(const_cast<uint32_t**>(&word), 64, cudaHostAllocMapped));
    *word = 0;
    CALL(cudaMemset(own, 0, kValues * 4));
    CALL(cudaDeviceSynchronize());
    while (steplog_done < steplog_steps) {
      const uint32_t step = static_cast<uint32_t>(steplog_done);
      uint64_t mine = rank * 1000 + step, all = 0;
      MPI_Request request = MPI_REQUEST_NULL;
      const bool waits_for_mpi = step % 3 != 2;
      if (step % 3 == 1) MPI_Iallreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD, &request);
      change<<<1, 128, 0, s>>>(v, step);
      for (auto& m : model)
        for (auto& x : m) x = (x ^ step) * 2654435761u >> 4;
      if (step % 4 == 3 && static_cast<int>(step / 4) % ranks == rank) {
        steplog_at("late");
        steplog_spin(late);
      }
      CALL(cudaEventRecord(event, s));
      CALL(cudaStreamWaitEvent(t, event, 0));
      NCCL(ncclGroupStart());
      NCCL(ncclAllReduce(v, sum, kValues, ncclUint32, ncclSum, a, s));
      NCCL(ncclGroupStart());
      if (step % 2) NCCL(ncclSend(ring, kValues, ncclUint32, (rank + 1) % ranks, a, s));
      if (step % 2) NCCL(ncclRecv(own, kValues, ncclUint32, (rank + ranks - 1) % ranks, a, s));
      NCCL(ncclGroupEnd());
      NCCL(ncclGroupEnd());
      NCCL(ncclAllReduce(v, max, kValues, ncclUint32, ncclMax, b, t));
      if (step % 2) CALL(cudaMemcpyAsync(ring, own, kValues * 4, cudaMemcpyDeviceToDevice, s));
      stamp<<<1, 1, 0, s>>>(word, step + 1);
      if (step % 7 == 2) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = step % 2;
        ncclUniqueId id;
        if (rank == 0) NCCL(ncclGetUniqueId(&id));
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        setenv("NCCL_COLLNET_ENABLE", step % 2 ? "1" : "0", 1);  // as Megatron-LM does
        ncclResult_t made = ncclCommInitRankConfig(&passing, ranks, id, rank, &config);
        EXPECT(made == ncclSuccess || made == ncclInProgress);
        ncclResult_t state = ncclInProgress;
        while (state == ncclInProgress) NCCL(ncclCommGetAsyncError(passing, &state));
        EXPECT(state == ncclSuccess);
      }
      if (passing) {
        ncclResult_t given = ncclBroadcast(own, own, 1, ncclUint32, 0, passing, s), state = ncclInProgress;
        EXPECT(given == ncclSuccess || given == ncclInProgress);
        while (state == ncclInProgress) NCCL(ncclCommGetAsyncError(passing, &state));
      }
      switch (step % 4) {
        case 0:
          CALL(cudaStreamSynchronize(s));
          break;
        case 1:
          CALL(cudaEventRecord(event, s));
          CALL(cudaEventSynchronize(event));
          break;
        case 2:
          while (cudaStreamQuery(s) == cudaErrorNotReady) {
          }
          CALL(cudaStreamQuery(s));
          break;
        case 3:
          while (*word != step + 1) {  // polls a word that the device writes
          }
          CALL(cudaStreamSynchronize(s));
      }
      EXPECT(*word == step + 1);
      if (request != MPI_REQUEST_NULL) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      } else if (waits_for_mpi) {
        MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
      }
      if (waits_for_mpi) EXPECT(all == static_cast<uint64_t>(1000 * ranks * (ranks - 1) / 2 + ranks * step));
      CALL(cudaStreamSynchronize(t));
      auto got_sum = sum.host(), got_max = max.host();
      for (int i = 0; i < kValues; i++) {
        uint32_t want = 0, most = 0;
        for (auto& m : model) want += m[i], most = m[i] > most ? m[i] : most;
        EXPECT(got_sum[i] == want && got_max[i] == most);
      }
      if (passing && step % 7 == 5) {
        ncclResult_t state = ncclCommFinalize(passing);
        EXPECT(state == ncclSuccess || state == ncclInProgress);
        do NCCL(ncclCommGetAsyncError(passing, &state));
        while (state == ncclInProgress);
      }
      if (passing && step % 7 == 5) {
        NCCL(ncclCommDestroy(passing));
        passing = nullptr;
      }
      mix(got_sum);
      steplog_step();
    }
    mix(ring.host());
    if (passing) NCCL(ncclCommAbort(passing));
    NCCL(ncclCommDeregister(a, handle));
    NCCL(ncclMemFree(own));
    nonce.back();
  }
  NCCL(ncclCommDestroy(a));
  NCCL(ncclCommDestroy(b));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
