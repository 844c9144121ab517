// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: ranks=2,4 ways=static
// An all-reduce between kernels, captured over two streams into a graph: instantiated, launched several
// times, updated by another capture, destroyed. In half of the steps no graph exists, and the same work is
// launched eagerly on the same communicator.
#include "nccl_calls.h"

constexpr int kValues = 256, kCycle = 12, kMade = 6, kUpdated = 8, kGone = 10;

__host__ __device__ uint32_t changed(uint32_t v, uint32_t by) {
  v = (v ^ by) * 2654435761u;
  return v ^ v >> 15;
}
// The kernels' next work is described and counted on the device.
__global__ void change(uint32_t* v, uint32_t* count) {
  v[threadIdx.x] = changed(v[threadIdx.x], *count);
  __syncthreads();
  if (threadIdx.x == 0) ++*count;
}
__global__ void take(uint32_t* v, const uint32_t* sum, const uint32_t* side, uint32_t with) {
  v[threadIdx.x] = (v[threadIdx.x] ^ sum[threadIdx.x]) + side[threadIdx.x] + with;
}
__global__ void aside(uint32_t* side, uint32_t with) { side[threadIdx.x] = side[threadIdx.x] * 3 + with; }

struct Work {
  ncclComm_t comm;
  cudaStream_t s, t;
  cudaEvent_t fork, join;
  uint32_t *v, *sum, *side, *count;
  void enqueue(uint32_t with) {
    CALL(cudaEventRecord(fork, s));
    CALL(cudaStreamWaitEvent(t, fork, 0));
    aside<<<1, kValues, 0, t>>>(side, with);
    change<<<1, kValues, 0, s>>>(v, count);
    NCCL(ncclAllReduce(v, sum, kValues, ncclUint32, ncclSum, comm, s));
    CALL(cudaEventRecord(join, t));
    CALL(cudaStreamWaitEvent(s, join, 0));
    take<<<1, kValues, 0, s>>>(v, sum, side, with);
    LAUNCHED();
  }
  cudaGraph_t capture(uint32_t with) {
    cudaGraph_t graph;
    CALL(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    enqueue(with);
    CALL(cudaStreamEndCapture(s, &graph));
    return graph;
  }
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  Work w;
  w.comm = communicator(MPI_COMM_WORLD);
  CALL(cudaStreamCreateWithFlags(&w.s, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&w.t, cudaStreamNonBlocking));
  CALL(cudaEventCreateWithFlags(&w.fork, cudaEventDisableTiming));
  CALL(cudaEventCreateWithFlags(&w.join, cudaEventDisableTiming));
  {
    DeviceNonce nonce;
    std::vector<std::vector<uint32_t>> all(ranks, std::vector<uint32_t>(kValues));
    for (int r = 0; r < ranks; r++)
      for (int i = 0; i < kValues; i++) all[r][i] = static_cast<uint32_t>(r * 4000 + i);
    std::vector<uint32_t> beside(kValues, 1);
    Buffer<uint32_t> v(all[rank]), sum(kValues), side(beside), count(std::vector<uint32_t>(1, 0));
    w.v = v, w.sum = sum, w.side = side, w.count = count;
    uint32_t counted = 0, captured = 0;
    auto model = [&](uint32_t with) {
      for (int i = 0; i < kValues; i++) {
        uint32_t total = 0;
        beside[i] = beside[i] * 3 + with;
        for (auto& of : all) total += of[i] = changed(of[i], counted);
        for (auto& of : all) of[i] = (of[i] ^ total) + beside[i] + with;
      }
      counted++;
    };
    cudaGraphExec_t exec = nullptr;
    while (steplog_done < steplog_steps) {
      const uint32_t step = static_cast<uint32_t>(steplog_done);
      const int place = static_cast<int>(step % kCycle);
      if (place == kMade) {
        cudaGraph_t graph = w.capture(captured = step);
        CALL(cudaGraphInstantiate(&exec, graph, 0));
        CALL(cudaGraphDestroy(graph));
      }
      if (place == kUpdated) {
        cudaGraph_t graph = w.capture(captured = step + 1000);
        cudaGraphExecUpdateResultInfo info;
        if (cudaGraphExecUpdate(exec, graph, &info) != cudaSuccess) {  // then instantiate again
          cudaGetLastError();
          CALL(cudaGraphExecDestroy(exec));
          CALL(cudaGraphInstantiate(&exec, graph, 0));
        }
        CALL(cudaGraphDestroy(graph));
      }
      w.enqueue(step + 5);  // eager work, mixed with a graph's
      model(step + 5);
      for (int i = 0; exec && i < 3; i++) {
        CALL(cudaGraphLaunch(exec, w.s));
        model(captured);
      }
      if (place == kGone) {
        CALL(cudaGraphExecDestroy(exec));  // while it may still run
        exec = nullptr;
      }
      if (step % 3 != 1) {
        CALL(cudaStreamSynchronize(w.s));
        EXPECT(v.host() == all[rank] && side.host() == beside && count.host()[0] == counted);
        mix(v.host());
      }
      cudaStreamCaptureStatus status;
      CALL(cudaStreamIsCapturing(w.s, &status));
      EXPECT(status == cudaStreamCaptureStatusNone);
      steplog_step();
    }
    CALL(cudaDeviceSynchronize());
    EXPECT(v.host() == all[rank]);
    mix(v.host());
    if (exec) CALL(cudaGraphExecDestroy(exec));
    nonce.back();
  }
  NCCL(ncclCommDestroy(w.comm));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
