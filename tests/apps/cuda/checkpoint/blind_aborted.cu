// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: build=long ranks=2,4 ways=static
// Aborted communicators. On one, only the first rank launches, and its stream waits for ranks that never
// come, for two steps; meanwhile all ranks use another communicator and MPI; then all abort the first. Others
// are aborted before use. --at-once: aborts in the step of the launch.
#include "nccl_calls.h"

constexpr int kValues = 200, kCycle = 8;

__host__ __device__ uint32_t changed(uint32_t v, uint32_t by) {
  v = (v ^ by) * 2654435761u;
  return v ^ v >> 15;
}
__global__ void change(uint32_t* v, uint32_t by) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) v[i] = changed(v[i], by);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  const bool at_once = steplog_has(argc, argv, "--at-once");
  ncclComm_t comm = communicator(MPI_COMM_WORLD), doomed = nullptr;
  cudaStream_t s, alone;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&alone, cudaStreamNonBlocking));
  {
    DeviceNonce nonce;
    std::vector<std::vector<uint32_t>> all(ranks, std::vector<uint32_t>(kValues));
    for (int r = 0; r < ranks; r++)
      for (int i = 0; i < kValues; i++) all[r][i] = static_cast<uint32_t>(r * 3000 + i);
    Buffer<uint32_t> v(all[rank]), lost(kValues), after(std::vector<uint32_t>(kValues, 0));
    uint32_t afterwards = 0;
    while (steplog_done < steplog_steps) {
      const uint32_t step = static_cast<uint32_t>(steplog_done);
      const int place = static_cast<int>(step % kCycle);
      const bool used = step / kCycle % 3 == 0;
      if (place == 1) doomed = communicator(MPI_COMM_WORLD);
      if (place == (at_once ? 5 : 3) && used && rank == 0)
        NCCL(ncclAllReduce(lost, lost, kValues, ncclUint32, ncclSum, doomed, alone));
      change<<<1, 64, 0, s>>>(v, step);
      NCCL(ncclAllReduce(v, v, kValues / 2, ncclUint32, ncclSum, comm, s));
      change<<<1, 64, 0, s>>>(v, static_cast<uint32_t>(rank));
      for (auto& of : all)
        for (auto& x : of) x = changed(x, step);
      for (int i = 0; i < kValues / 2; i++) {
        uint32_t total = 0;
        for (auto& of : all) total += of[i];
        for (auto& of : all) of[i] = total;
      }
      for (int r = 0; r < ranks; r++)
        for (auto& x : all[r]) x = changed(x, static_cast<uint32_t>(r));
      if (place == 5) {
        NCCL(ncclCommAbort(doomed));
        doomed = nullptr;
        change<<<1, 64, 0, alone>>>(after, step);  // after the abort the stream runs on
        CALL(cudaStreamSynchronize(alone));
        afterwards = changed(afterwards, step);
      }
      uint64_t mine = step + static_cast<uint64_t>(rank), sum = 0;
      MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
      EXPECT(sum == static_cast<uint64_t>(ranks) * step + ranks * (ranks - 1) / 2);
      CALL(cudaStreamSynchronize(s));
      LAUNCHED();
      std::vector<uint32_t> got(kValues);
      CALL(cudaMemcpyAsync(got.data(), v, kValues * 4, cudaMemcpyDeviceToHost, s));
      CALL(cudaStreamSynchronize(s));
      EXPECT(got == all[rank]);
      mix(got);
      steplog_step();
    }
    if (doomed) NCCL(ncclCommAbort(doomed));
    CALL(cudaDeviceSynchronize());
    EXPECT(after.host()[7] == afterwards);
    nonce.back();
  }
  NCCL(ncclCommDestroy(comm));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
