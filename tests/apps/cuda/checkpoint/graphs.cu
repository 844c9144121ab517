// nvcc: -std=c++17
// run: ways=static
// In every fourth step a CUDA graph is captured, launched and destroyed; no graph exists in between. Its
// kernels and host function may still run after its destruction, while steps end. Two events are recorded
// only by graph nodes.
#include <atomic>

#include "saved.h"

static std::atomic<unsigned> called;
static void call(void*) { called++; }

__global__ void add(unsigned* values, int n, unsigned what) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = values[i] * 3 + what;
}

__global__ void slow(unsigned* values) {
  for (int i = 0; i < 3000; i++) values[0] = values[0] * 3 + 1;
}

static void record(cudaEvent_t first, cudaEvent_t second, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaGraphNode_t nodes[2];
  CALL(cudaGraphCreate(&graph, 0));
  CALL(cudaGraphAddEventRecordNode(&nodes[0], graph, nullptr, 0, first));
  CALL(cudaGraphAddEventRecordNode(&nodes[1], graph, nodes, 1, second));
  CALL(cudaGraphInstantiate(&exec, graph, 0));
  CALL(cudaGraphLaunch(exec, stream));
  CALL(cudaStreamSynchronize(stream));
  CALL(cudaGraphExecDestroy(exec));
  CALL(cudaGraphDestroy(graph));
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  cudaStream_t stream;
  cudaEvent_t events[2];
  CALL(cudaStreamCreate(&stream));
  for (cudaEvent_t& event : events) CALL(cudaEventCreate(&event));
  record(events[0], events[1], stream);
  {
    DeviceNonce nonce;
    Buffer<unsigned> values(std::vector<unsigned>(2000));
    Buffer<unsigned> spent(std::vector<unsigned>(1));
    unsigned expected = 0, calls = 0;
    while (steplog_done < steplog_steps) {
      if (steplog_done % 4 == 0) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
        for (unsigned k = 1; k <= 3; k++) add<<<16, 128, 0, stream>>>(values, 2000, k);
        slow<<<1, 1, 0, stream>>>(spent);
        CALL(cudaLaunchHostFunc(stream, call, nullptr));
        CALL(cudaStreamEndCapture(stream, &graph));
        CALL(cudaGraphInstantiate(&exec, graph, 0));
        CALL(cudaGraphDestroy(graph));
        for (int launch = 0; launch < 2; launch++) {
          CALL(cudaGraphLaunch(exec, stream));
          for (unsigned k = 1; k <= 3; k++) expected = expected * 3 + k;
          calls++;
        }
        CALL(cudaGraphExecDestroy(exec));
        steplog_step();
      } else {
        add<<<16, 128, 0, stream>>>(values, 2000, 7);
        expected = expected * 3 + 7;
      }
      LAUNCHED();
      CALL(cudaStreamSynchronize(stream));
      std::vector<unsigned> there = values.host();
      for (unsigned v : there) EXPECT(v == expected);
      EXPECT(called == calls);
      float ms = -1;
      CALL(cudaEventElapsedTime(&ms, events[0], events[1]));
      EXPECT(ms >= 0);
      steplog_mix(expected);
      steplog_step();
    }
    nonce.back();
  }
  for (cudaEvent_t event : events) CALL(cudaEventDestroy(event));
  CALL(cudaStreamDestroy(stream));
  steplog_ok();
  return 0;
}
