// links: gpu_cuda
// Graphs: nodes and edges, what is refused, order and concurrency when they run, updates; and
// launches of kernels, by hand and from nodes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "stream_fixture.h"
#include "tests/unit/soon.h"

namespace {

using Numbers = std::vector<int>;

// add: *p += k, by one thread.
const char* const kText = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 p, .param .u32 k)
{
  .reg .u64 %a<2>;
  .reg .u32 %r<3>;
  ld.param.u64 %a0, [p];
  ld.param.u32 %r0, [k];
  cvta.to.global.u64 %a1, %a0;
  ld.global.u32 %r1, [%a1];
  add.u32 %r2, %r1, %r0;
  st.global.u32 [%a1], %r2;
  ret;
}
)";

class Graphs : public StreamTest {
 protected:
  void SetUp() override {
    StreamTest::SetUp();
    ASSERT_CU(cuGraphCreate(&graph_, 0));
    s_ = stream();
  }
  void TearDown() override {
    if (graph_) {
      EXPECT_CU(cuGraphDestroy(graph_));
    }
    EXPECT_CU(cuStreamDestroy(s_));
    StreamTest::TearDown();
  }

  // A host function that leaves a number. The numbers live as long as the test.
  CUDA_HOST_NODE_PARAMS note_params(int number) {
    notes_.push_back(std::make_unique<Note>(Note{&trace_, number}));
    return {[](void* data) {
              auto* note = static_cast<Note*>(data);
              note->trace->add(note->number);
            },
            notes_.back().get()};
  }
  CUgraphNode add_note(int number, const std::vector<CUgraphNode>& before = {}) {
    CUDA_HOST_NODE_PARAMS params = note_params(number);
    CUgraphNode node = nullptr;
    EXPECT_CU(cuGraphAddHostNode(&node, graph_, before.data(), before.size(), &params));
    return node;
  }
  CUgraphExec instantiate(unsigned long long flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_CU(cuGraphInstantiate(&exec, graph_, flags));
    return exec;
  }
  Numbers launch(CUgraphExec exec) {
    size_t before = trace_.numbers().size();
    EXPECT_CU(cuGraphLaunch(exec, s_));
    EXPECT_CU(cuStreamSynchronize(s_));
    Numbers all = trace_.numbers();
    return {all.begin() + static_cast<ptrdiff_t>(before), all.end()};
  }

  struct Note {
    Trace* trace;
    int number;
  };
  std::vector<std::unique_ptr<Note>> notes_;
  CUgraph graph_ = nullptr;
  CUstream s_ = nullptr;
};

TEST_F(Graphs, EdgesAreKept) {
  CUgraphNode a = add_note(1), b = add_note(2), c = add_note(3, {a});
  EXPECT_CU(cuGraphAddDependencies(graph_, &b, &c, nullptr, 1));
  CUgraphNode root[4];
  size_t count = 4;
  EXPECT_CU(cuGraphGetRootNodes(graph_, root, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(root[0], a);
  EXPECT_EQ(root[1], b);
  EXPECT_EQ(root[2], nullptr);
  count = 4;
  EXPECT_CU(cuGraphNodeGetDependencies(c, root, nullptr, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_CU(cuGraphGetEdges(graph_, nullptr, nullptr, nullptr, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(cuGraphAddDependencies(graph_, &b, &c, nullptr, 1), CUDA_ERROR_INVALID_VALUE);  // is there
  EXPECT_EQ(cuGraphAddDependencies(graph_, &b, &b, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphRemoveDependencies(graph_, &b, &c, nullptr, 1));
  EXPECT_EQ(cuGraphRemoveDependencies(graph_, &b, &c, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode twice[2] = {a, a}, node = nullptr;
  EXPECT_EQ(cuGraphAddEmptyNode(&node, graph_, twice, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphDestroyNode(a));
  EXPECT_EQ(cuGraphDestroyNode(a), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphNodeGetDependencies(c, nullptr, nullptr, &count));
  EXPECT_EQ(count, 0u);
}

TEST_F(Graphs, ACircleIsFound) {
  CUgraphNode a = add_note(1), b = add_note(2, {a});
  EXPECT_CU(cuGraphAddDependencies(graph_, &b, &a, nullptr, 1));
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&exec, graph_, 0), CUDA_ERROR_INVALID_VALUE);
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  EXPECT_EQ(cuGraphInstantiateWithParams(&exec, graph_, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
}

TEST_F(Graphs, NodesRunInAnOrderOfTheEdges) {
  CUgraphNode a = add_note(1), b = add_note(2, {a}), c = add_note(2, {a}), d = add_note(3, {b, c});
  add_note(4, {d});
  CUgraphExec exec = instantiate();
  EXPECT_EQ(launch(exec), (Numbers{1, 2, 2, 3, 4}));
  EXPECT_EQ(launch(exec), (Numbers{1, 2, 2, 3, 4}));
  EXPECT_CU(cuGraphExecDestroy(exec));
}

TEST_F(Graphs, BranchesRunAtTheSameTime) {
  // Two branches of library work that wait for each other: captured by fork and join.
  CUstream other = stream();
  CUevent fork = event(), join = event();
  static std::atomic<int> there;
  there = 0;
  auto meet = [] {
    ++there;
    while (there < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  ASSERT_CU(cuStreamBeginCapture(s_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(cuEventRecord(fork, s_));
  EXPECT_CU(cuStreamWaitEvent(other, fork, 0));
  EXPECT_CU(run(s_, meet));
  EXPECT_CU(run(other, meet));
  EXPECT_CU(cuEventRecord(join, other));
  EXPECT_CU(cuStreamWaitEvent(s_, join, 0));
  EXPECT_CU(cuGraphDestroy(graph_));
  ASSERT_CU(cuStreamEndCapture(s_, &graph_));
  CUgraphExec exec = instantiate();
  EXPECT_CU(cuGraphLaunch(exec, s_));
  EXPECT_CU(cuStreamSynchronize(s_));
  EXPECT_EQ(there, 2);
  EXPECT_CU(cuGraphExecDestroy(exec));
}

TEST_F(Graphs, ObjectsOfALaunchAreReleasedBeforeItCompletes) {
  // Branches, whose helpers end after it.
  CUstream other = stream();
  CUevent fork = event(), join = event();
  static std::atomic<int> released;
  for (int i = 1; i <= 100; ++i) {
    CUgraph made = nullptr;
    CUgraphExec exec = nullptr;
    ASSERT_CU(cuStreamBeginCapture(s_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(cuEventRecord(fork, s_));
    EXPECT_CU(cuStreamWaitEvent(other, fork, 0));
    EXPECT_CU(cropdl_software_gpu_enqueue(
        s_, "", [](void*) { return CUDA_SUCCESS; }, [](void*) { ++released; }, nullptr));
    EXPECT_CU(run(other, [] {}));
    EXPECT_CU(cuEventRecord(join, other));
    EXPECT_CU(cuStreamWaitEvent(s_, join, 0));
    ASSERT_CU(cuStreamEndCapture(s_, &made));
    ASSERT_CU(cuGraphInstantiate(&exec, made, 0));
    EXPECT_CU(cuGraphDestroy(made));
    EXPECT_CU(cuGraphLaunch(exec, s_));
    EXPECT_CU(cuGraphExecDestroy(exec));
    EXPECT_CU(cuStreamSynchronize(s_));
    EXPECT_EQ(released, i);
  }
}

TEST_F(Graphs, LaunchesOfOneInstanceDoNotOverlap) {
  static std::atomic<int> inside, most;
  inside = most = 0;
  CUDA_HOST_NODE_PARAMS params{[](void*) {}, nullptr};
  CUgraphNode node = nullptr;
  ASSERT_CU(cuGraphAddHostNode(&node, graph_, nullptr, 0, &params));
  CUgraph made = nullptr;
  ASSERT_CU(cuStreamBeginCapture(s_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(run(s_, [] {
    most = std::max(most.load(), ++inside);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    --inside;
  }));
  ASSERT_CU(cuStreamEndCapture(s_, &made));
  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiate(&exec, made, 0));
  CUstream streams[3] = {stream(), stream(), stream()};
  for (int i = 0; i < 9; ++i) EXPECT_CU(cuGraphLaunch(exec, streams[i % 3]));
  EXPECT_CU(cuGraphExecDestroy(exec));  // what was launched is done
  EXPECT_CU(cuGraphDestroy(made));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_EQ(most, 1);
}

TEST_F(Graphs, ChildrenAreCopiesAndRunInTheirPlace) {
  CUgraph child = nullptr;
  ASSERT_CU(cuGraphCreate(&child, 0));
  CUDA_HOST_NODE_PARAMS two = note_params(2), nine = note_params(9);
  CUgraphNode inner = nullptr, node = nullptr, a = add_note(1);
  ASSERT_CU(cuGraphAddHostNode(&inner, child, nullptr, 0, &two));
  ASSERT_CU(cuGraphAddChildGraphNode(&node, graph_, &a, 1, child));
  add_note(3, {node});
  EXPECT_CU(cuGraphHostNodeSetParams(inner, &nine));  // of the original, not of the copy
  CUgraphExec exec = instantiate();
  EXPECT_EQ(launch(exec), (Numbers{1, 2, 3}));
  EXPECT_CU(cuGraphExecChildGraphNodeSetParams(exec, node, child));
  EXPECT_EQ(launch(exec), (Numbers{1, 9, 3}));
  CUgraph got = nullptr;
  EXPECT_CU(cuGraphChildGraphNodeGetGraph(node, &got));
  EXPECT_NE(got, child);
  EXPECT_EQ(cuGraphDestroy(got), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphDestroy(child));
  EXPECT_CU(cuGraphExecDestroy(exec));
}

TEST_F(Graphs, ACloneIsAnotherGraph) {
  CUgraphNode a = add_note(1);
  add_note(2, {a});
  CUgraph copy = nullptr;
  ASSERT_CU(cuGraphClone(&copy, graph_));
  CUgraphNode found = nullptr;
  EXPECT_CU(cuGraphNodeFindInClone(&found, a, copy));
  EXPECT_NE(found, a);
  EXPECT_EQ(cuGraphNodeFindInClone(&found, a, graph_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphDestroyNode(a));
  size_t count = 0;
  EXPECT_CU(cuGraphGetNodes(copy, nullptr, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_CU(cuGraphDestroy(copy));
  EXPECT_EQ(cuGraphNodeFindInClone(&found, a, copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, AnUpdateNeedsTheSameTopology) {
  CUgraphNode a = add_note(1);
  add_note(2, {a});
  CUgraphExec exec = instantiate();
  CUgraph first = graph_;
  ASSERT_CU(cuGraphCreate(&graph_, 0));
  CUgraphNode b = add_note(5);
  CUgraphExecUpdateResultInfo info{};
  EXPECT_EQ(cuGraphExecUpdate(exec, graph_, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CUgraphNode c = add_note(6);
  EXPECT_EQ(cuGraphExecUpdate(exec, graph_, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_CU(cuGraphAddDependencies(graph_, &b, &c, nullptr, 1));
  EXPECT_EQ(launch(exec), (Numbers{1, 2}));
  EXPECT_CU(cuGraphExecUpdate(exec, graph_, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  EXPECT_EQ(launch(exec), (Numbers{5, 6}));
  EXPECT_CU(cuGraphDestroyNode(c));
  CUgraphNode empty = nullptr;
  EXPECT_CU(cuGraphAddEmptyNode(&empty, graph_, &b, 1));
  EXPECT_EQ(cuGraphExecUpdate(exec, graph_, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(info.errorNode, empty);
  CUDA_HOST_NODE_PARAMS seven = note_params(7);
  EXPECT_CU(cuGraphExecHostNodeSetParams(exec, a, &seven));  // by the node it was instantiated from
  EXPECT_EQ(launch(exec), (Numbers{7, 6}));
  EXPECT_EQ(cuGraphExecHostNodeSetParams(exec, b, &seven), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(first));
}

TEST_F(Graphs, UserObjectsLiveAsLongAsGraphsNeedThem) {
  static std::atomic<int> gone;
  gone = 0;
  CUuserObject object = nullptr;
  int thing = 0;
  ASSERT_CU(cuUserObjectCreate(
      &object, &thing, [](void*) { ++gone; }, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  EXPECT_CU(cuGraphRetainUserObject(graph_, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  CUgraphExec exec = instantiate();
  EXPECT_CU(cuGraphDestroy(graph_));
  graph_ = nullptr;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(gone, 0);
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_TRUE(cropdl::soon([] { return gone != 0; }));
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, WhatIsNotBuiltIsRefused) {
  CUgraphConditionalHandle handle;
  EXPECT_EQ(cuGraphConditionalHandleCreate(&handle, graph_, context_, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  CUgraphNode node = nullptr;
  EXPECT_EQ(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuGraphInstantiate(&exec, graph_, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuGraphInstantiate(&exec, graph_, 1u << 20), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Graphs, APictureNamesItsNodes) {
  add_note(2, {add_note(1)});
  std::string path = testing::TempDir() + "/graph.dot";
  EXPECT_CU(cuGraphDebugDotPrint(graph_, path.c_str(), 0));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::remove(path.c_str());
  EXPECT_NE(text.str().find("HOST"), std::string::npos);
  EXPECT_NE(text.str().find("->"), std::string::npos);
}

class Kernels : public Graphs {
 protected:
  void SetUp() override {
    Graphs::SetUp();
    ASSERT_CU(cuModuleLoadData(&module_, kText));
    ASSERT_CU(cuModuleGetFunction(&add_, module_, "add"));
    ASSERT_CU(cuMemAlloc(&memory_, 4));
    ASSERT_CU(cuMemsetD32(memory_, 0, 1));
    ASSERT_CU(cuStreamSynchronize(nullptr));  // s_ does not wait for the legacy stream
  }
  void TearDown() override {
    EXPECT_CU(cuCtxSynchronize());
    EXPECT_CU(cuMemFree(memory_));
    EXPECT_CU(cuModuleUnload(module_));
    Graphs::TearDown();
  }
  unsigned value() {
    unsigned value = 0;
    EXPECT_CU(cuMemcpyDtoH(&value, memory_, 4));
    return value;
  }

  CUmodule module_ = nullptr;
  CUfunction add_ = nullptr;
  CUdeviceptr memory_ = 0;
};

TEST_F(Kernels, ArgumentsAreCopiedAtTheLaunch) {
  unsigned k = 5;
  void* parameters[] = {&memory_, &k};
  EXPECT_CU(hold(s_));
  EXPECT_CU(cuLaunchKernel(add_, 1, 1, 1, 1, 1, 1, 0, s_, parameters, nullptr));
  k = 100;
  struct {
    CUdeviceptr p;
    unsigned k;
  } buffer{memory_, 7};
  size_t size = 12;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  EXPECT_CU(cuLaunchKernel(add_, 1, 1, 1, 1, 1, 1, 0, s_, nullptr, extra));
  buffer.k = 200;
  gate_.open();
  EXPECT_CU(cuStreamSynchronize(s_));
  EXPECT_EQ(value(), 12u);
}

TEST_F(Kernels, ALaunchIsChecked) {
  unsigned k = 1;
  void* parameters[] = {&memory_, &k};
  auto launch = [&](unsigned grid, unsigned block, unsigned shared) {
    return cuLaunchKernel(add_, grid, 1, 1, block, 1, 1, shared, s_, parameters, nullptr);
  };
  EXPECT_EQ(launch(0, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 1025, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(add_, 1, 70000, 1, 1, 1, 1, 0, s_, parameters, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(add_, 1, 1, 1, 1, 1, 65, 0, s_, parameters, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(launch(1, 1, 48 << 10));
  EXPECT_EQ(launch(1, 1, (48 << 10) + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuFuncSetAttribute(add_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60 << 10));
  EXPECT_CU(launch(1, 1, 60 << 10));
  EXPECT_EQ(cuLaunchKernel(add_, 1, 1, 1, 1, 1, 1, 0, s_, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, s_, parameters, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuLaunchCooperativeKernel(add_, 1 << 20, 1, 1, 1, 1, 1, 0, s_, parameters),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  EXPECT_CU(cuLaunchCooperativeKernel(add_, 2, 1, 1, 1, 1, 1, 0, s_, parameters));
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {2, 1, 1};
  CUlaunchConfig config{2, 1, 1, 1, 1, 1, 0, s_, &cluster, 1};
  EXPECT_EQ(cuLaunchKernelEx(&config, add_, parameters, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  cluster.value.clusterDim = {1, 1, 1};
  EXPECT_CU(cuLaunchKernelEx(&config, add_, parameters, nullptr));
}

TEST_F(Kernels, NodesOfKernelsCopiesAndFills) {
  CUDA_MEMSET_NODE_PARAMS set{memory_, 0, 10, 4, 1, 1};
  unsigned k = 5, out = 0;
  void* parameters[] = {&memory_, &k};
  CUDA_KERNEL_NODE_PARAMS kernel{add_, 1, 1, 1, 1, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = memory_;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = &out;
  copy.WidthInBytes = 4;
  copy.Height = copy.Depth = 1;
  CUgraphNode a, b, c;
  ASSERT_CU(cuGraphAddMemsetNode(&a, graph_, nullptr, 0, &set, context_));
  ASSERT_CU(cuGraphAddKernelNode(&b, graph_, &a, 1, &kernel));
  ASSERT_CU(cuGraphAddMemcpyNode(&c, graph_, &b, 1, &copy, context_));
  k = 1000;  // was copied
  CUgraphExec exec = instantiate();
  launch(exec);
  EXPECT_EQ(out, 15u);
  CUDA_KERNEL_NODE_PARAMS read{};
  EXPECT_CU(cuGraphKernelNodeGetParams(b, &read));
  EXPECT_EQ(read.func, add_);
  EXPECT_EQ(*static_cast<unsigned*>(read.kernelParams[1]), 5u);
  k = 6;
  EXPECT_CU(cuGraphExecKernelNodeSetParams(exec, b, &kernel));
  launch(exec);
  EXPECT_EQ(out, 16u);
  EXPECT_CU(cuGraphNodeSetEnabled(exec, b, 0));
  launch(exec);
  EXPECT_EQ(out, 10u);
  unsigned enabled = 1;
  EXPECT_CU(cuGraphNodeGetEnabled(exec, b, &enabled));
  EXPECT_EQ(enabled, 0u);
  set.value = 20;
  EXPECT_CU(cuGraphExecMemsetNodeSetParams(exec, a, &set, context_));
  launch(exec);
  EXPECT_EQ(out, 20u);
  set.height = 2;
  set.pitch = 4;
  EXPECT_NE(cuGraphExecMemsetNodeSetParams(exec, a, &set, context_), CUDA_SUCCESS);
  EXPECT_CU(cuGraphExecDestroy(exec));
}

TEST_F(Kernels, CodeThatWasUnloadedIsNotLaunchedByAGraph) {
  unsigned k = 5;
  void* parameters[] = {&memory_, &k};
  CUDA_KERNEL_NODE_PARAMS kernel{add_, 1, 1, 1, 1, 1, 1, 0, parameters, nullptr, nullptr, nullptr};
  CUgraphNode node;
  ASSERT_CU(cuGraphAddKernelNode(&node, graph_, nullptr, 0, &kernel));
  CUgraphExec exec = instantiate();
  launch(exec);
  EXPECT_CU(cuModuleUnload(module_));
  EXPECT_EQ(cuGraphLaunch(exec, s_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuModuleLoadData(&module_, kText));
}

TEST_F(Kernels, StreamsWaitForValuesAndWriteThem) {
  CUstream other = stream();
  EXPECT_CU(cuStreamWaitValue32(other, memory_, 3, CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_CU(note(other, 1));
  EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
  EXPECT_CU(cuStreamWriteValue32(s_, memory_, 3, 0));
  EXPECT_CU(cuStreamSynchronize(other));
  EXPECT_EQ(trace_.numbers(), Numbers{1});
  EXPECT_EQ(cuStreamWaitValue32(other, memory_ + 1, 3, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue64(other, memory_, 3, 0), CUDA_ERROR_INVALID_VALUE);  // four bytes are there
  EXPECT_EQ(cuStreamWriteValue32(other, memory_, 3, 7), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
