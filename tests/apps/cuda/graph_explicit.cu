// A graph built node by node: kernel, copy, memset, host function, child graph, empty node. Parameters are
// changed in the instance, and the instance is updated from another graph.
#include "check.h"

__global__ void scale(float* data, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * factor + 1;
}

static int calls = 0;
static void CUDART_CB count(void*) { calls++; }

static cudaGraph_t build(float* data, const float* from, float* to, int* n, float* factor,
                         cudaGraphNode_t* kernel) {
  cudaGraph_t graph, child;
  CALL(cudaGraphCreate(&graph, 0));
  CALL(cudaGraphCreate(&child, 0));
  cudaGraphNode_t copy_in, empty, inner, outer, host, copy_out;
  CALL(cudaGraphAddMemcpyNode1D(&copy_in, graph, nullptr, 0, data, from, *n * sizeof(float),
                                cudaMemcpyHostToDevice));
  void* arguments[] = {&data, n, factor};
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(scale);
  params.gridDim = dim3((*n + 63) / 64);
  params.blockDim = dim3(64);
  params.kernelParams = arguments;
  CALL(cudaGraphAddKernelNode(kernel, graph, &copy_in, 1, &params));
  CALL(cudaGraphAddKernelNode(&inner, child, nullptr, 0, &params));
  CALL(cudaGraphAddChildGraphNode(&outer, graph, kernel, 1, child));
  CALL(cudaGraphAddEmptyNode(&empty, graph, &outer, 1));
  cudaHostNodeParams host_params = {count, nullptr};
  CALL(cudaGraphAddHostNode(&host, graph, &empty, 1, &host_params));
  CALL(cudaGraphAddMemcpyNode1D(&copy_out, graph, &empty, 1, to, data, *n * sizeof(float),
                                cudaMemcpyDeviceToHost));
  cudaMemsetParams memset_params = {};
  memset_params.dst = data;
  memset_params.elementSize = 4;
  memset_params.width = *n;
  memset_params.height = 1;
  cudaGraphNode_t clear, dependencies[] = {copy_out, host};
  CALL(cudaGraphAddMemsetNode(&clear, graph, dependencies, 2, &memset_params));
  CALL(cudaGraphDestroy(child));  // the graph has a copy
  return graph;
}

int main() {
  int n = 300;
  float factor = 3;
  float *in, *out;
  CALL(cudaMallocHost(&in, n * sizeof(float)));
  CALL(cudaMallocHost(&out, n * sizeof(float)));
  for (int i = 0; i < n; i++) in[i] = i;
  Buffer<float> data(n);
  cudaGraphNode_t kernel, other_kernel;
  cudaGraph_t graph = build(data, in, out, &n, &factor, &kernel);
  cudaGraphExec_t exec;
  CALL(cudaGraphInstantiate(&exec, graph, 0));
  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  auto run = [&](float outer, float inner, const char* what) {
    CALL(cudaGraphLaunch(exec, stream));
    CALL(cudaStreamSynchronize(stream));
    std::vector<float> expected(n);
    for (int i = 0; i < n; i++) expected[i] = (i * outer + 1) * inner + 1;
    expect_same(std::vector<float>(out, out + n), expected, what);
    digest(expected);
  };
  run(3, 3, "as built");
  run(3, 3, "again");
  float five = 5;
  float* pointer = data;
  void* arguments[] = {&pointer, &n, &five};
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(scale);
  params.gridDim = dim3(5);
  params.blockDim = dim3(64);
  params.kernelParams = arguments;
  CALL(cudaGraphExecKernelNodeSetParams(exec, kernel, &params));
  run(5, 3, "with other parameters");
  float seven = 7;
  cudaGraph_t other = build(data, in, out, &n, &seven, &other_kernel);
  cudaGraphExecUpdateResultInfo info;
  CALL(cudaGraphExecUpdate(exec, other, &info));
  EXPECT(info.result == cudaGraphExecUpdateSuccess);
  run(7, 7, "updated");
  cudaGraph_t different;
  CALL(cudaGraphCreate(&different, 0));
  EXPECT(cudaGraphExecUpdate(exec, different, &info) == cudaErrorGraphExecUpdateFailure);
  EXPECT(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  cudaGetLastError();
  run(7, 7, "after an update that failed");
  EXPECT(calls == 5);
  expect_same(data.host(), std::vector<float>(n), "cleared");
  CALL(cudaGraphExecDestroy(exec));
  for (cudaGraph_t g : {graph, other, different}) CALL(cudaGraphDestroy(g));
  CALL(cudaStreamDestroy(stream));
  CALL(cudaFreeHost(in));
  CALL(cudaFreeHost(out));
  return finish();
}
