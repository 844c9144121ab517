// nvcc: -std=c++17 -lnccl -Xcompiler -pthread -Xcompiler -Wno-cast-function-type
// run: build=long ranks=2,4 ways=static
// Ranks that join collective calls late: a thread stays in ncclCommInitRank, ncclCommSplit or ncclCommDestroy
// for several steps while the main thread uses another communicator; the last rank's thread joins steps
// later. A host function in a stream, between two collectives, waits for the main thread for two steps.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "nccl_calls.h"

constexpr int kValues = 120, kCycle = 10;

static std::mutex mutex;
static std::condition_variable turn;
static long step_now, let_go = -1;
static std::atomic<long> host_calls;

__global__ void change(uint32_t* v, uint32_t by) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) v[i] = (v[i] ^ by) * 2654435761u >> 3;
}
static void wait_for(long step) {
  std::unique_lock<std::mutex> lock(mutex);
  turn.wait(lock, [&] { return step_now >= step; });
}
static void CUDART_CB host(void* what) {
  std::unique_lock<std::mutex> lock(mutex);
  turn.wait(lock, [&] { return let_go >= reinterpret_cast<intptr_t>(what); });
  host_calls++;
}

int main(int argc, char** argv) {
  int provided, rank, ranks, device;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  CALL(cudaGetDevice(&device));
  const bool waits = steplog_has(argc, argv, "--host");
  ncclComm_t comm = communicator(MPI_COMM_WORLD), parent = communicator(MPI_COMM_WORLD),
             blocked = communicator(MPI_COMM_WORLD);
  cudaStream_t s, behind, others;
  for (cudaStream_t* one : {&s, &behind, &others})
    CALL(cudaStreamCreateWithFlags(one, cudaStreamNonBlocking));
  {
    DeviceNonce nonce;
    std::vector<std::vector<uint32_t>> all(ranks, std::vector<uint32_t>(kValues, 3));
    Buffer<uint32_t> v(all[rank]), w(std::vector<uint32_t>(kValues, 1)), x(std::vector<uint32_t>(kValues, 1));
    uint32_t of_w = 1, of_x = 1;
    std::thread maker;
    ncclUniqueId id;
    while (steplog_done < steplog_steps) {
      const long step = steplog_done;
      const int place = static_cast<int>(step % kCycle);
      {
        std::lock_guard<std::mutex> lock(mutex);
        step_now = step;
        turn.notify_all();
      }
      if (place == 1) {
        if (rank == 0) NCCL(ncclGetUniqueId(&id));
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
        maker = std::thread([&, step] {
          CALL(cudaSetDevice(device));
          const long late = rank == ranks - 1 ? 2 : 0;  // in steps
          ncclComm_t made, child;
          wait_for(step + late);
          NCCL(ncclCommInitRank(&made, ranks, id, rank));
          wait_for(step + 3 + late);
          NCCL(ncclCommSplit(parent, 0, -rank, &child, nullptr));
          NCCL(ncclAllReduce(x, x, kValues, ncclUint32, ncclSum, made, others));
          NCCL(ncclAllReduce(x, x, kValues, ncclUint32, ncclSum, child, others));
          CALL(cudaStreamSynchronize(others));
          wait_for(step + 6 + late);
          NCCL(ncclCommDestroy(child));
          NCCL(ncclCommDestroy(made));
        });
      }
      if (place == 2 && waits) {
        NCCL(ncclAllReduce(w, w, kValues, ncclUint32, ncclSum, blocked, behind));
        CALL(cudaLaunchHostFunc(behind, host, reinterpret_cast<void*>(step)));
        NCCL(ncclAllReduce(w, w, kValues, ncclUint32, ncclSum, blocked, behind));
        of_w *= static_cast<uint32_t>(ranks * ranks);
      }
      change<<<1, 64, 0, s>>>(v, static_cast<uint32_t>(step + rank));
      NCCL(ncclAllReduce(v, v, kValues / 2, ncclUint32, ncclMax, comm, s));
      for (int r = 0; r < ranks; r++)
        for (auto& y : all[r]) y = (y ^ static_cast<uint32_t>(step + r)) * 2654435761u >> 3;
      for (int i = 0; i < kValues / 2; i++) {
        uint32_t most = 0;
        for (auto& of : all) most = of[i] > most ? of[i] : most;
        for (auto& of : all) of[i] = most;
      }
      CALL(cudaStreamSynchronize(s));
      std::vector<uint32_t> got(kValues);
      CALL(cudaMemcpyAsync(got.data(), v, kValues * 4, cudaMemcpyDeviceToHost, s));
      CALL(cudaStreamSynchronize(s));
      EXPECT(got == all[rank]);
      mix(got);
      if (place == 4 && waits) {
        {
          std::lock_guard<std::mutex> lock(mutex);
          let_go = step;
          turn.notify_all();
        }
        CALL(cudaStreamSynchronize(behind));
        EXPECT(host_calls == step / kCycle + 1);
      }
      if (place == 9) {
        maker.join();
        of_x *= static_cast<uint32_t>(ranks * ranks);
        std::vector<uint32_t> two(kValues);
        CALL(cudaMemcpy(two.data(), x, kValues * 4, cudaMemcpyDeviceToHost));
        EXPECT(two[5] == of_x);
        CALL(cudaMemcpy(two.data(), w, kValues * 4, cudaMemcpyDeviceToHost));
        EXPECT(two[5] == of_w);
      }
      steplog_step();
    }
    {
      std::lock_guard<std::mutex> lock(mutex);
      step_now = let_go = steplog_steps + kCycle;
      turn.notify_all();
    }
    if (maker.joinable()) maker.join();
    CALL(cudaDeviceSynchronize());
    nonce.back();
  }
  for (ncclComm_t one : {blocked, parent, comm}) NCCL(ncclCommDestroy(one));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
