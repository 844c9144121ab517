// nvcc: -std=c++17
// run: build=long ways=static
// Graphs that exist only within steps: captured over two streams or built by hand, instantiated, launched
// several times, updated, cloned and destroyed, so that a checkpoint may come between two of them; events
// recorded by graphs, memory copied by graph nodes, and eager work before and after.
#include "saved.h"

__global__ void add(uint32_t* v, uint32_t what) { v[threadIdx.x] = v[threadIdx.x] * 5 + what; }

static unsigned host_calls;
static void host(void* what) { host_calls += *static_cast<unsigned*>(what); }

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  cudaStream_t s, t;
  cudaEvent_t fork, join, timed;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  CALL(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CALL(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  CALL(cudaEventCreate(&timed));
  uint32_t *a, *b, *pinned;
  CALL(cudaMalloc(&a, 256));
  CALL(cudaMalloc(&b, 256));
  CALL(cudaMallocHost(&pinned, 256));
  CALL(cudaMemset(a, 0, 256));
  CALL(cudaMemset(b, 0, 256));
  CALL(cudaDeviceSynchronize());
  uint32_t ma = 0, mb = 0;
  unsigned one = 1, expected_calls = 0;
  while (steplog_done < steplog_steps) {
    const uint32_t step = static_cast<uint32_t>(steplog_done);
    add<<<1, 64, 0, s>>>(a, step);
    ma = ma * 5 + step;
    if (step % 2) {
      cudaGraph_t graph, clone;
      cudaGraphExec_t exec;
      CALL(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
      CALL(cudaEventRecord(fork, s));
      CALL(cudaStreamWaitEvent(t, fork, 0));
      add<<<1, 64, 0, t>>>(b, step + 1);
      add<<<1, 64, 0, s>>>(a, step + 2);
      CALL(cudaEventRecord(join, t));
      CALL(cudaStreamWaitEvent(s, join, 0));
      CALL(cudaLaunchHostFunc(s, host, &one));
      CALL(cudaMemcpyAsync(pinned, a, 256, cudaMemcpyDeviceToHost, s));
      CALL(cudaEventRecordWithFlags(timed, s, cudaEventRecordExternal));
      CALL(cudaStreamEndCapture(s, &graph));
      CALL(cudaGraphClone(&clone, graph));
      CALL(cudaGraphInstantiate(&exec, clone, 0));
      CALL(cudaGraphDestroy(clone));
      for (int i = 0; i < 3; i++) {
        CALL(cudaGraphLaunch(exec, s));
        mb = mb * 5 + step + 1, ma = ma * 5 + step + 2, expected_calls++;
      }
      cudaGraphExecUpdateResultInfo info;
      CALL(cudaGraphExecUpdate(exec, graph, &info));
      CALL(cudaGraphDestroy(graph));
      CALL(cudaGraphLaunch(exec, s));
      mb = mb * 5 + step + 1, ma = ma * 5 + step + 2, expected_calls++;
      CALL(cudaGraphExecDestroy(exec));  // while it may still run
    } else {
      cudaGraph_t graph;
      cudaGraphNode_t set, copy, kernel;
      cudaGraphExec_t exec;
      CALL(cudaGraphCreate(&graph, 0));
      cudaMemsetParams to = {};
      to.dst = b, to.value = step & 255, to.elementSize = 1, to.width = 256, to.height = 1;
      CALL(cudaGraphAddMemsetNode(&set, graph, nullptr, 0, &to));
      CALL(cudaGraphAddMemcpyNode1D(&copy, graph, &set, 1, b, a, 128, cudaMemcpyDeviceToDevice));
      cudaKernelNodeParams p = {};
      uint32_t what = step + 9;
      void* arguments[] = {&b, &what};
      p.func = reinterpret_cast<void*>(add), p.gridDim = 1, p.blockDim = 32, p.kernelParams = arguments;
      CALL(cudaGraphAddKernelNode(&kernel, graph, &copy, 1, &p));
      CALL(cudaGraphInstantiate(&exec, graph, 0));
      CALL(cudaGraphLaunch(exec, s));
      mb = ma * 5 + what;
      CALL(cudaGraphExecDestroy(exec));
      CALL(cudaGraphDestroy(graph));
      CALL(cudaEventRecord(timed, s));
    }
    LAUNCHED();
    CALL(cudaStreamSynchronize(s));
    CALL(cudaEventQuery(timed));
    uint32_t got[2];
    CALL(cudaMemcpy(&got[0], a, 4, cudaMemcpyDeviceToHost));
    CALL(cudaMemcpy(&got[1], b, 4, cudaMemcpyDeviceToHost));
    EXPECT(got[0] == ma && got[1] == mb);
    EXPECT(host_calls == expected_calls);
    if (step % 2) EXPECT(pinned[5] == ma);
    if (step % 2) {  // computes all of b again from the model
      CALL(cudaMemcpy(b, std::vector<uint32_t>(64, mb).data(), 256, cudaMemcpyHostToDevice));
      CALL(cudaDeviceSynchronize());
    }
    steplog_mix(ma);
    steplog_mix(mb);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}
