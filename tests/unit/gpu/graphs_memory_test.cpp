// links: gpu_cuda
// Memory that graphs allocate, by nodes and by capture: whose it is from a launch to its free, in what order,
// and what may free it. And frees of memory in stream order.
#include "stream_fixture.h"

namespace {

constexpr size_t kSize = 4096;
constexpr auto kAutoFree = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;

class MemoryOfGraphs : public StreamTest {
 protected:
  static void SetUpTestSuite() { setenv("CROPDL_SOFTWARE_GPUS", "2", 1); }
  void SetUp() override {
    StreamTest::SetUp();
    ASSERT_CU(cuGraphCreate(&graph_, 0));
    s_ = stream();
    cuuint64_t none = 0;
    ASSERT_CU(cuDeviceSetGraphMemAttribute(device_, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &none));
  }
  void TearDown() override {
    gate_.open();
    if (graph_) {
      EXPECT_CU(cuGraphDestroy(graph_));
    }
    EXPECT_CU(cuStreamSynchronize(s_));
    EXPECT_EQ(held(), 0u) << "all is given back";
    EXPECT_CU(cuStreamDestroy(s_));
    StreamTest::TearDown();
  }

  uint64_t held() {
    cuuint64_t bytes = 0;
    EXPECT_CU(cuDeviceGetGraphMemAttribute(device_, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
  }
  CUdeviceptr add_allocation(CUgraph graph, CUgraphNode* node) {
    CUDA_MEM_ALLOC_NODE_PARAMS alloc{};
    alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    alloc.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    alloc.bytesize = kSize;
    EXPECT_CU(cuGraphAddMemAllocNode(node, graph, nullptr, 0, &alloc));
    return alloc.dptr;
  }
  CUgraphNode add_fill(CUgraph graph, CUgraphNode before, CUdeviceptr address, unsigned value) {
    CUDA_MEMSET_NODE_PARAMS set{address, 0, value, 4, kSize / 4, 1};
    CUgraphNode node = nullptr;
    EXPECT_CU(cuGraphAddMemsetNode(&node, graph, &before, 1, &set, context_));
    return node;
  }
  CUgraphExec instantiate(CUgraph graph, unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_CU(cuGraphInstantiate(&exec, graph, flags));
    return exec;
  }
  void begin() { ASSERT_CU(cuStreamBeginCapture(s_, CU_STREAM_CAPTURE_MODE_RELAXED)); }
  CUgraph end() {
    CUgraph graph = nullptr;
    EXPECT_CU(cuStreamEndCapture(s_, &graph));
    return graph;
  }
  // A graph that allocates, fills with 7 and leaves it so.
  CUgraph captured(CUdeviceptr* address) {
    begin();
    EXPECT_CU(cuMemAllocAsync(address, kSize, s_));
    EXPECT_CU(cuMemsetD32Async(*address, 7, kSize / 4, s_));
    return end();
  }
  unsigned value_at(CUdeviceptr address) {
    unsigned value = 0;
    EXPECT_CU(cuMemcpyDtoH(&value, address, 4));
    return value;
  }

  CUgraph graph_ = nullptr;
  CUstream s_ = nullptr;
};

TEST_F(MemoryOfGraphs, ComesAndGoesWithThem) {
  CUgraphNode a, d, f;
  const CUdeviceptr address = add_allocation(graph_, &a);
  ASSERT_NE(address, 0u);
  CUdeviceptr out;
  ASSERT_CU(cuMemAlloc(&out, 4));
  CUgraphNode b = add_fill(graph_, a, address, 7);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address;
  copy.dstDevice = out;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  ASSERT_CU(cuGraphAddMemcpyNode(&d, graph_, &b, 1, &copy, context_));
  CUgraph other = nullptr;
  EXPECT_EQ(cuGraphClone(&other, graph_), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphExec exec = instantiate(graph_);
  CUgraphExec second = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&second, graph_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphLaunch(exec, s_));
  EXPECT_CU(cuStreamSynchronize(s_));
  EXPECT_EQ(value_at(out), 7u);
  EXPECT_EQ(cuGraphLaunch(exec, s_), CUDA_ERROR_INVALID_VALUE);  // not freed since
  EXPECT_CU(cuMemFreeAsync(address, s_));
  EXPECT_CU(cuGraphLaunch(exec, s_));
  EXPECT_CU(cuMemFreeAsync(address, s_));
  EXPECT_CU(cuGraphExecDestroy(exec));
  exec = instantiate(graph_, kAutoFree);
  for (int i = 0; i < 3; ++i) EXPECT_CU(cuGraphLaunch(exec, s_));
  EXPECT_CU(cuMemFreeAsync(address, s_));
  EXPECT_CU(cuStreamSynchronize(s_));
  EXPECT_CU(cuGraphExecDestroy(exec));
  CUgraphNode none = nullptr;
  EXPECT_EQ(cuGraphAddMemFreeNode(&f, graph_, &none, 1, address), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(cuGraphAddMemFreeNode(&f, graph_, &d, 1, address)) << "the refused one does not count";
  EXPECT_EQ(cuGraphAddMemFreeNode(&f, graph_, &d, 1, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphAddMemFreeNode(&f, graph_, &d, 1, out), CUDA_ERROR_INVALID_VALUE);
  exec = instantiate(graph_);
  for (int i = 0; i < 3; ++i) EXPECT_CU(cuGraphLaunch(exec, s_));
  EXPECT_CU(cuStreamSynchronize(s_));
  EXPECT_EQ(value_at(out), 7u);
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuMemFree(out));
}

// "Graph destruction does not automatically free any live graph-allocated memory."
TEST_F(MemoryOfGraphs, OutlivesThemUntilTheFreeHasRun) {
  CUdeviceptr address;
  CUgraph graph = captured(&address);
  CUgraphExec exec = instantiate(graph);
  EXPECT_CU(hold(s_));
  EXPECT_CU(cuGraphLaunch(exec, s_));
  EXPECT_CU(cuMemsetD32Async(address, 8, kSize / 4, s_));
  EXPECT_CU(cuMemFreeAsync(address, s_));
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(graph));
  gate_.open();
  EXPECT_CU(cuStreamSynchronize(s_));
  EXPECT_EQ(held(), 0u);
}

TEST_F(MemoryOfGraphs, IsGivenBackByAFreeThatComesAfterThem) {
  for (int way = 0; way < 3; ++way) {
    CUdeviceptr address;
    CUgraph graph = captured(&address);
    CUgraphExec exec = instantiate(graph);
    EXPECT_CU(cuGraphLaunch(exec, s_));
    EXPECT_CU(cuStreamSynchronize(s_));
    CUgraphExec freeing = nullptr;
    if (way == 2) {  // a node of another graph
      CUgraphNode node;
      ASSERT_CU(cuGraphAddMemFreeNode(&node, graph_, nullptr, 0, address));
      freeing = instantiate(graph_);
    }
    EXPECT_CU(cuGraphExecDestroy(exec));
    EXPECT_CU(cuGraphDestroy(graph));
    EXPECT_EQ(value_at(address), 7u);
    EXPECT_EQ(held(), kSize);
    if (way == 0) {
      EXPECT_CU(cuMemFreeAsync(address, s_));
    }
    if (way == 1) {
      EXPECT_CU(cuMemFree(address));
    }
    if (way == 2) {
      EXPECT_CU(cuGraphLaunch(freeing, s_));
    }
    EXPECT_CU(cuStreamSynchronize(s_));
    EXPECT_EQ(held(), 0u) << way;
    EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
    if (freeing) {
      EXPECT_CU(cuGraphExecDestroy(freeing));
    }
  }
}

TEST_F(MemoryOfGraphs, IsFreedForTheNextLaunchAfterTheLastOneOfAnyStream) {
  CUgraphNode a;
  const CUdeviceptr address = add_allocation(graph_, &a);
  add_fill(graph_, a, address, 7);
  CUgraphExec exec = instantiate(graph_, kAutoFree);
  CUstream other = stream();
  EXPECT_CU(hold(s_));
  EXPECT_CU(cuGraphLaunch(exec, s_));
  EXPECT_CU(cuGraphLaunch(exec, other));
  gate_.open();
  EXPECT_CU(cuStreamSynchronize(other));
  EXPECT_EQ(value_at(address), 7u);
  EXPECT_CU(cuMemFreeAsync(address, other));
  EXPECT_CU(cuStreamSynchronize(other));
  EXPECT_CU(cuStreamDestroy(other));
  EXPECT_CU(cuGraphExecDestroy(exec));
}

TEST_F(MemoryOfGraphs, IsFreedWithTheContextThatLeftIt) {
  CUcontext passing = nullptr;
  ASSERT_CU(cuCtxCreate(&passing, nullptr, 0, device_));
  CUstream other = stream();
  CUdeviceptr address = 0;
  CUgraph made = captured(&address);
  CUgraphExec exec = instantiate(made);
  EXPECT_CU(cuGraphLaunch(exec, other));
  EXPECT_CU(cuStreamSynchronize(other));
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(made));
  EXPECT_GT(held(), 0u);
  EXPECT_CU(cuCtxDestroy(passing));
  EXPECT_EQ(held(), 0u);
  EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemoryOfGraphs, CanBeFreedWithoutAStream) {
  CUdeviceptr address;
  CUgraph graph = captured(&address);
  CUgraphExec exec = instantiate(graph);
  EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE) << "no launch left it";
  for (int i = 0; i < 2; ++i) {
    EXPECT_CU(cuGraphLaunch(exec, s_));
    EXPECT_CU(cuStreamSynchronize(s_));
    EXPECT_EQ(value_at(address), 7u);
    EXPECT_CU(cuMemFree(address));
    EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(graph));
}

TEST_F(MemoryOfGraphs, OfCapturesKeepsTheRulesOfNodes) {
  CUdeviceptr address;
  begin();
  EXPECT_CU(cuMemAllocAsync(&address, kSize, s_));
  EXPECT_CU(cuMemFreeAsync(address, s_));
  EXPECT_EQ(cuMemFreeAsync(address, s_), CUDA_ERROR_INVALID_VALUE) << "twice";
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(s_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  graph = captured(&address);
  CUgraphExec exec = instantiate(graph);
  EXPECT_EQ(cuMemFreeAsync(address, s_), CUDA_ERROR_INVALID_VALUE) << "no launch left it";
  EXPECT_CU(cuGraphLaunch(exec, s_));
  EXPECT_CU(cuMemFreeAsync(address, s_));
  EXPECT_EQ(cuMemFreeAsync(address, s_), CUDA_ERROR_INVALID_VALUE) << "twice";
  EXPECT_CU(cuGraphExecDestroy(exec));
  CUgraphNode node;
  EXPECT_CU(cuGraphAddMemFreeNode(&node, graph, nullptr, 0, address)) << "by the graph that owns it";
  EXPECT_EQ(cuGraphAddMemFreeNode(&node, graph_, nullptr, 0, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphDestroy(graph));
}

TEST_F(MemoryOfGraphs, AFreeThatIsRefusedLeavesItsMemoryAllocated) {
  CUdeviceptr pooled;
  ASSERT_CU(cuMemAllocAsync(&pooled, kSize, s_));
  ASSERT_CU(cuStreamSynchronize(s_));
  CUstream blocking = stream(CU_STREAM_DEFAULT);
  ASSERT_CU(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(cuMemFreeAsync(pooled, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CUgraph none = nullptr;
  EXPECT_EQ(cuStreamEndCapture(blocking, &none), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_CU(cuMemFreeAsync(pooled, nullptr));
  EXPECT_CU(cuStreamSynchronize(nullptr));
  EXPECT_CU(cuStreamDestroy(blocking));
}

// "The CUDA device(s) to which the operand(s) was allocated/mapped cannot change."
TEST_F(MemoryOfGraphs, OperandsOfItsNodesStayOnTheirDevice) {
  CUcontext peers = nullptr;
  CUdeviceptr mine[2], theirs = 0;
  for (CUdeviceptr& one : mine) ASSERT_CU(cuMemAlloc(&one, kSize));
  ASSERT_CU(cuDevicePrimaryCtxRetain(&peers, 1));
  ASSERT_CU(cuCtxSetCurrent(peers));
  ASSERT_CU(cuMemAlloc(&theirs, kSize));
  ASSERT_CU(cuCtxSetCurrent(context_));
  CUDA_MEMSET_NODE_PARAMS set{mine[0], 0, 7, 4, kSize / 4, 1};
  CUgraphNode node = nullptr;
  ASSERT_CU(cuGraphAddMemsetNode(&node, graph_, nullptr, 0, &set, context_));
  CUgraphExec exec = instantiate(graph_);
  ASSERT_CU(cuMemFree(mine[0]));
  set.dst = mine[1];
  EXPECT_CU(cuGraphExecMemsetNodeSetParams(exec, node, &set, context_));
  set.dst = theirs;
  EXPECT_EQ(cuGraphExecMemsetNodeSetParams(exec, node, &set, context_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuMemFree(mine[1]));
  EXPECT_CU(cuDevicePrimaryCtxRelease(1));
}

// "No implicit synchronization when the pointer was allocated with cuMemAllocAsync."
TEST_F(MemoryOfGraphs, AFreeOfPoolMemoryWithoutAStreamDoesNotWait) {
  CUdeviceptr pooled;
  ASSERT_CU(cuMemAllocAsync(&pooled, kSize, s_));
  EXPECT_CU(hold(s_));
  EXPECT_CU(cuMemFree(pooled));  // would not return: the gate is closed
  EXPECT_EQ(cuStreamQuery(s_), CUDA_ERROR_NOT_READY);
}

}  // namespace
