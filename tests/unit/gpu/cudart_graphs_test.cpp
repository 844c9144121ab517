// links: gpu_cudart gpu_cuda
// The runtime's graphs: captured and made by hand, asked, cloned, changed, run.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/soon.h"

namespace {

#define OK(call) ASSERT_EQ(call, cudaSuccess)

void add_one(void* number) { ++*static_cast<int*>(number); }
void count_up(void* number) { ++*static_cast<std::atomic<int>*>(number); }

class CudartGraphs : public testing::Test {
 protected:
  void SetUp() override {
    cudaGetLastError();
    OK(cudaStreamCreate(&stream));
    OK(cudaMalloc(&memory, 64));
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  cudaMemsetParams fill(unsigned value) const { return {memory, 0, value, 4, 16, 1}; }

  cudaStream_t stream = nullptr;
  void* memory = nullptr;
  int back[16] = {};
};

TEST_F(CudartGraphs, CapturedWorkRunsOncePerLaunch) {
  int calls = 0;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  OK(cudaMemsetAsync(memory, 1, 64, stream));
  OK(cudaMemcpyAsync(back, memory, 64, cudaMemcpyDeviceToHost, stream));
  OK(cudaLaunchHostFunc(stream, add_one, &calls));
  cudaStreamCaptureStatus status{};
  OK(cudaStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr, captured = nullptr;
  const cudaGraphNode_t* last = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  OK(cudaStreamGetCaptureInfo(stream, &status, &id, &captured, &last, &edges, &count));
  EXPECT_EQ(count, 1u);
  OK(cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(graph, captured);
  EXPECT_EQ(calls, 0);
  OK(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 3u);
  OK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  EXPECT_EQ(count, 2u);
  OK(cudaGraphGetRootNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 1u);
  cudaGraphExec_t instance;
  OK(cudaGraphInstantiate(&instance, graph, 0));
  OK(cudaGraphDestroy(graph));
  for (int i = 0; i < 3; i++) OK(cudaGraphLaunch(instance, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(back[15], 0x01010101);
  OK(cudaGraphExecDestroy(instance));
}

TEST_F(CudartGraphs, WaitingForAStreamThatIsCapturedSpoilsTheCapture) {
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(CudartGraphs, ParametersComeBackAsTheyWereGiven) {
  cudaGraph_t graph;
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t first, second, third;
  const cudaMemsetParams wanted = fill(7);
  OK(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &wanted));
  OK(cudaGraphAddMemcpyNode1D(&second, graph, &first, 1, back, memory, 64, cudaMemcpyDeviceToHost));
  int calls = 0;
  const cudaHostNodeParams host{add_one, &calls};
  OK(cudaGraphAddHostNode(&third, graph, &second, 1, &host));
  cudaMemsetParams filled{};
  OK(cudaGraphMemsetNodeGetParams(first, &filled));
  EXPECT_EQ(filled.dst, memory);
  EXPECT_EQ(filled.value, 7u);
  EXPECT_EQ(filled.elementSize, 4u);
  EXPECT_EQ(filled.width, 16u);
  cudaMemcpy3DParms copied{};
  OK(cudaGraphMemcpyNodeGetParams(second, &copied));
  EXPECT_EQ(copied.srcPtr.ptr, memory);
  EXPECT_EQ(copied.dstPtr.ptr, back);
  EXPECT_EQ(copied.extent.width, 64u);
  EXPECT_EQ(copied.kind, cudaMemcpyDeviceToHost);
  cudaHostNodeParams called{};
  OK(cudaGraphHostNodeGetParams(third, &called));
  EXPECT_EQ(called.userData, &calls);
  cudaGraphNodeType type{};
  OK(cudaGraphNodeGetType(second, &type));
  EXPECT_EQ(type, cudaGraphNodeTypeMemcpy);
  cudaGraphNode_t before = nullptr;
  size_t count = 1;
  OK(cudaGraphNodeGetDependencies(third, &before, nullptr, &count));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(before, second);
  OK(cudaGraphDestroy(graph));
}

TEST_F(CudartGraphs, AnInstanceIsChangedWithoutItsGraph) {
  cudaGraph_t graph;
  OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t first, second;
  cudaMemsetParams params = fill(7);
  OK(cudaGraphAddMemsetNode(&first, graph, nullptr, 0, &params));
  OK(cudaGraphAddMemcpyNode1D(&second, graph, &first, 1, back, memory, 64, cudaMemcpyDeviceToHost));
  cudaGraphExec_t instance;
  OK(cudaGraphInstantiateWithFlags(&instance, graph, 0));
  params.value = 8;
  OK(cudaGraphExecMemsetNodeSetParams(instance, first, &params));
  OK(cudaGraphLaunch(instance, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(back[3], 8);
  cudaGraphExecUpdateResultInfo info{};
  OK(cudaGraphExecUpdate(instance, graph, &info));  // back to what the graph says
  EXPECT_EQ(info.result, cudaGraphExecUpdateSuccess);
  OK(cudaGraphLaunch(instance, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(back[3], 7);
  OK(cudaGraphExecDestroy(instance));
  OK(cudaGraphDestroy(graph));
}

TEST_F(CudartGraphs, NodesOfAnyKindAreAddedByOneFunction) {
  cudaGraph_t graph, child;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphCreate(&child, 0));
  cudaGraphNode_t inside, first, second;
  const cudaMemsetParams wanted = fill(5);
  OK(cudaGraphAddMemsetNode(&inside, child, nullptr, 0, &wanted));
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeGraph;
  params.graph.graph = child;
  OK(cudaGraphAddNode(&first, graph, nullptr, nullptr, 0, &params));
  params = {};
  params.type = cudaGraphNodeTypeMemcpy;
  params.memcpy.copyParams.srcPtr = {memory, 64, 64, 1};
  params.memcpy.copyParams.dstPtr = {back, 64, 64, 1};
  params.memcpy.copyParams.extent = {64, 1, 1};
  params.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
  OK(cudaGraphAddNode(&second, graph, &first, nullptr, 1, &params));
  params = {};
  params.type = static_cast<cudaGraphNodeType>(77);
  cudaGraphNode_t none;
  EXPECT_EQ(cudaGraphAddNode(&none, graph, nullptr, nullptr, 0, &params), cudaErrorInvalidValue);
  cudaGraph_t clone;
  OK(cudaGraphClone(&clone, graph));
  cudaGraphNode_t found = nullptr;
  OK(cudaGraphNodeFindInClone(&found, second, clone));
  EXPECT_NE(found, second);
  cudaGraphExec_t instance;
  OK(cudaGraphInstantiate(&instance, clone, 0));
  OK(cudaGraphLaunch(instance, stream));
  OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(back[0], 5);
  OK(cudaGraphExecDestroy(instance));
  for (cudaGraph_t one : {graph, child, clone}) OK(cudaGraphDestroy(one));
}

TEST_F(CudartGraphs, AUserObjectGoesWithItsGraph) {
  std::atomic<int> destroyed{0};
  cudaUserObject_t object;
  OK(cudaUserObjectCreate(&object, &destroyed, count_up, 1, cudaUserObjectNoDestructorSync));
  cudaGraph_t graph;
  OK(cudaGraphCreate(&graph, 0));
  OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  EXPECT_EQ(destroyed, 0);
  OK(cudaGraphDestroy(graph));
  // On a thread of the device's, some time.
  EXPECT_TRUE(cropdl::soon([&] { return destroyed != 0; }));
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
