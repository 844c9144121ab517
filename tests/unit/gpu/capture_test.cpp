// links: gpu_cuda
// Capture: what becomes of work given to a captured stream, and what spoils a capture with which error.
#include <thread>

#include "stream_fixture.h"

namespace {

using Numbers = std::vector<int>;

class CaptureTest : public StreamTest {
 protected:
  void TearDown() override {
    for (CUstream s : {a_, b_}) EXPECT_CU(cuStreamDestroy(s));
    StreamTest::TearDown();
  }
  void SetUp() override {
    StreamTest::SetUp();
    a_ = stream();
    b_ = stream();
  }
  static CUstreamCaptureStatus status(CUstream s) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_CU(cuStreamIsCapturing(s, &status));
    return status;
  }
  static size_t count_nodes(CUgraph graph) {
    size_t count = 0;
    EXPECT_CU(cuGraphGetNodes(graph, nullptr, &count));
    return count;
  }
  static size_t count_edges(CUgraph graph) {
    size_t count = 0;
    EXPECT_CU(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
    return count;
  }
  // Ends the capture of a_, which is spoilt.
  void expect_spoilt(CUresult with = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) {
    CUgraph graph = reinterpret_cast<CUgraph>(1);
    EXPECT_EQ(cuStreamEndCapture(a_, &graph), with);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status(a_), CU_STREAM_CAPTURE_STATUS_NONE);
  }

  CUstream a_ = nullptr, b_ = nullptr;
};

TEST_F(CaptureTest, WorkIsWrittenDownAndRunsAtEachLaunch) {
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(status(a_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_CU(note(a_, 1));
  EXPECT_CU(note(a_, 2));
  CUgraph graph = nullptr;
  ASSERT_CU(cuStreamEndCapture(a_, &graph));
  EXPECT_EQ(status(a_), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_CU(cuStreamSynchronize(a_));
  EXPECT_TRUE(trace_.numbers().empty());
  EXPECT_EQ(count_nodes(graph), 2u);
  EXPECT_EQ(count_edges(graph), 1u);
  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiate(&exec, graph, 0));
  EXPECT_CU(cuGraphDestroy(graph));
  for (int i = 0; i < 3; ++i) EXPECT_CU(cuGraphLaunch(exec, a_));
  EXPECT_CU(cuStreamSynchronize(a_));
  EXPECT_EQ(trace_.numbers(), (Numbers{1, 2, 1, 2, 1, 2}));
  EXPECT_CU(cuGraphExecDestroy(exec));
}

TEST_F(CaptureTest, ForkAndJoinByEvents) {
  CUevent fork = event(), join = event();
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_CU(note(a_, 1));
  EXPECT_CU(cuEventRecord(fork, a_));
  EXPECT_CU(cuStreamWaitEvent(b_, fork, 0));
  EXPECT_EQ(status(b_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_CU(note(b_, 2));
  EXPECT_CU(note(a_, 2));
  EXPECT_CU(cuEventRecord(join, b_));
  EXPECT_CU(cuStreamWaitEvent(a_, join, 0));
  EXPECT_CU(note(a_, 3));
  CUgraph graph = nullptr;
  ASSERT_CU(cuStreamEndCapture(a_, &graph));
  EXPECT_EQ(status(b_), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(count_nodes(graph), 4u);
  EXPECT_EQ(count_edges(graph), 4u);
  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiate(&exec, graph, 0));
  EXPECT_CU(cuGraphLaunch(exec, b_));
  EXPECT_CU(cuStreamSynchronize(b_));
  EXPECT_EQ(trace_.numbers(), (Numbers{1, 2, 2, 3}));
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(graph));
}

TEST_F(CaptureTest, AForkThatIsNotJoinedIsAnError) {
  CUevent fork = event();
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(note(a_, 1));
  EXPECT_CU(cuEventRecord(fork, a_));
  EXPECT_CU(cuStreamWaitEvent(b_, fork, 0));
  EXPECT_CU(note(b_, 2));
  expect_spoilt(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(status(b_), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CaptureTest, WaitingAndAskingSpoilIt) {
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(cuStreamSynchronize(a_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(status(a_), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  EXPECT_EQ(note(a_, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  expect_spoilt();
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(cuStreamQuery(a_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_spoilt();
  CUevent e = event();
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(cuEventRecord(e, a_));
  EXPECT_EQ(cuEventQuery(e), CUDA_ERROR_CAPTURED_EVENT);
  expect_spoilt();
  EXPECT_EQ(cuEventSynchronize(e), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_CU(cuEventRecord(e, a_));  // an ordinary record makes it an ordinary event
  EXPECT_CU(cuEventSynchronize(e));
}

TEST_F(CaptureTest, UnsafeCallsAreForbiddenAsTheModesSay) {
  CUdeviceptr address = 0;
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_spoilt();
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_EQ(cuMemAlloc(&address, 256), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_spoilt();
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(cuMemAlloc(&address, 256));
  CUgraph graph = nullptr;
  EXPECT_CU(cuStreamEndCapture(a_, &graph));
  EXPECT_CU(cuGraphDestroy(graph));
  EXPECT_CU(cuMemFree(address));
}

TEST_F(CaptureTest, AnotherThreadMayUnlessTheCaptureIsGlobal) {
  auto elsewhere = [&](CUstreamCaptureMode mode) {
    CUresult result = CUDA_ERROR_UNKNOWN;
    std::thread([&] {
      EXPECT_CU(cuCtxSetCurrent(context_));
      EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode));
      EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
      result = cuStreamSynchronize(b_);
    }).join();
    return result;
  };
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_CU(elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUgraph graph = nullptr;
  EXPECT_CU(cuStreamEndCapture(a_, &graph));
  EXPECT_CU(cuGraphDestroy(graph));
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(elsewhere(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_CU(elsewhere(CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(elsewhere(CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_spoilt();
}

TEST_F(CaptureTest, TheLegacyStreamCannotBeCapturedNorUsedDuringACapture) {
  EXPECT_EQ(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(note(nullptr, 1));  // a_ is a non-blocking stream
  CUgraph graph = nullptr;
  EXPECT_CU(cuStreamEndCapture(a_, &graph));
  EXPECT_CU(cuGraphDestroy(graph));
  EXPECT_CU(cuStreamDestroy(a_));
  a_ = stream(CU_STREAM_DEFAULT);
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUstreamCaptureStatus asked;
  EXPECT_EQ(cuStreamIsCapturing(nullptr, &asked), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(status(a_), CU_STREAM_CAPTURE_STATUS_ACTIVE);  // asking did no harm
  EXPECT_EQ(note(nullptr, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  expect_spoilt();
}

TEST_F(CaptureTest, AThreadsOwnStreamCanBeCaptured) {
  ASSERT_CU(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(note(CU_STREAM_PER_THREAD, 1));
  CUgraph graph = nullptr;
  ASSERT_CU(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
  EXPECT_EQ(count_nodes(graph), 1u);
  EXPECT_CU(cuGraphDestroy(graph));
}

// Nobody could end it any more, and it would forbid others' calls for good.
TEST_F(CaptureTest, ItEndsWithTheThreadWhoseStreamItIs) {
  std::thread([&] {
    ASSERT_CU(cuCtxSetCurrent(context_));
    ASSERT_CU(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CU(note(CU_STREAM_PER_THREAD, 1));
  }).join();
  EXPECT_CU(cuStreamSynchronize(b_));
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUevent fork = event();
  EXPECT_CU(cuEventRecord(fork, a_));
  std::thread([&] {
    ASSERT_CU(cuCtxSetCurrent(context_));
    EXPECT_CU(cuStreamWaitEvent(CU_STREAM_PER_THREAD, fork, 0));
    EXPECT_CU(note(CU_STREAM_PER_THREAD, 1));
  }).join();
  expect_spoilt();  // one that was forked into it went
}

TEST_F(CaptureTest, ItEndsWithTheContextOfItsStream) {
  CUcontext other = nullptr;
  ASSERT_CU(cuCtxCreate(&other, nullptr, 0, device_));
  CUstream theirs = stream();
  ASSERT_CU(cuStreamBeginCapture(theirs, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  std::thread([&] { EXPECT_CU(cuCtxDestroy(other)); }).join();
  ASSERT_CU(cuCtxSetCurrent(context_));
  EXPECT_CU(cuStreamSynchronize(b_));
}

TEST_F(CaptureTest, NoDependencyCrossesItsBorder) {
  CUevent before = event();
  EXPECT_CU(cuEventRecord(before, b_));
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(cuStreamWaitEvent(a_, before, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  expect_spoilt();
}

TEST_F(CaptureTest, TwoCapturesDoNotMerge) {
  CUevent e = event();
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_CU(cuStreamBeginCapture(b_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(cuEventRecord(e, b_));
  EXPECT_EQ(cuStreamWaitEvent(a_, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  expect_spoilt();
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(b_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(CaptureTest, ItEndsWhereItBegan) {
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(a_, &graph), CUDA_ERROR_ILLEGAL_STATE);
  CUevent fork = event();
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
  std::thread([&] {
    EXPECT_CU(cuCtxSetCurrent(context_));
    EXPECT_EQ(cuStreamEndCapture(a_, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  EXPECT_CU(cuEventRecord(fork, a_));
  EXPECT_CU(cuStreamWaitEvent(b_, fork, 0));
  EXPECT_EQ(cuStreamEndCapture(b_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  expect_spoilt();
}

TEST_F(CaptureTest, CallbacksAreNotCapturedHostFunctionsAre) {
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  auto add = [](void* trace) { static_cast<Trace*>(trace)->add(7); };
  EXPECT_CU(cuLaunchHostFunc(a_, add, &trace_));
  CUgraph graph = nullptr;
  ASSERT_CU(cuStreamEndCapture(a_, &graph));
  CUgraphNode node = nullptr;
  size_t count = 1;
  ASSERT_CU(cuGraphGetNodes(graph, &node, &count));
  CUDA_HOST_NODE_PARAMS params{};
  EXPECT_CU(cuGraphHostNodeGetParams(node, &params));
  EXPECT_EQ(params.fn, static_cast<CUhostFn>(add));
  EXPECT_EQ(params.userData, &trace_);
  EXPECT_CU(cuGraphDestroy(graph));
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(cuStreamAddCallback(
                a_, [](CUstream, CUresult, void*) {}, nullptr, 0),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_spoilt();
}

TEST_F(CaptureTest, ItReturnsTheDependenciesOfTheNextNode) {
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(note(a_, 1));
  CUstreamCaptureStatus status;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  size_t count = 0;
  EXPECT_CU(cuStreamGetCaptureInfo(a_, &status, &id, &graph, &nodes, nullptr, &count));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0u);
  ASSERT_EQ(count, 1u);
  CUgraphNode own = nullptr;
  EXPECT_CU(cuGraphAddEmptyNode(&own, graph, nodes, count));
  EXPECT_CU(cuStreamUpdateCaptureDependencies(a_, &own, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  EXPECT_CU(note(a_, 2));
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  CUgraph got = nullptr;
  EXPECT_CU(cuStreamEndCapture(a_, &got));
  EXPECT_EQ(got, graph);
  size_t dependents = 0;
  EXPECT_CU(cuGraphNodeGetDependentNodes(own, nullptr, nullptr, &dependents));
  EXPECT_EQ(dependents, 1u);
  EXPECT_CU(cuGraphDestroy(graph));
  EXPECT_EQ(cuStreamUpdateCaptureDependencies(a_, nullptr, nullptr, 0, 0), CUDA_ERROR_ILLEGAL_STATE);
}

TEST_F(CaptureTest, ItCanGoOnInAGraphThatIsThere) {
  CUgraph graph = nullptr;
  ASSERT_CU(cuGraphCreate(&graph, 0));
  CUgraphNode root = nullptr;
  ASSERT_CU(cuGraphAddEmptyNode(&root, graph, nullptr, 0));
  ASSERT_CU(cuStreamBeginCaptureToGraph(a_, graph, &root, nullptr, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(note(a_, 1));
  CUgraph got = nullptr;
  EXPECT_CU(cuStreamEndCapture(a_, &got));
  EXPECT_EQ(got, graph);
  EXPECT_EQ(count_edges(graph), 1u);
  EXPECT_CU(cuGraphDestroy(graph));
}

TEST_F(CaptureTest, ALaunchOfAGraphBecomesAChild) {
  CUgraph inner = nullptr, outer = nullptr;
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(note(a_, 1));
  ASSERT_CU(cuStreamEndCapture(a_, &inner));
  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiate(&exec, inner, 0));
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(cuGraphLaunch(exec, a_));
  EXPECT_CU(note(a_, 2));
  ASSERT_CU(cuStreamEndCapture(a_, &outer));
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(inner));
  EXPECT_TRUE(trace_.numbers().empty());
  ASSERT_CU(cuGraphInstantiate(&exec, outer, 0));
  EXPECT_CU(cuGraphLaunch(exec, a_));
  EXPECT_CU(cuStreamSynchronize(a_));
  EXPECT_EQ(trace_.numbers(), (Numbers{1, 2}));
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(outer));
}

TEST_F(CaptureTest, ExternalEventsAreNodes) {
  CUevent e = event();
  ASSERT_CU(cuStreamBeginCapture(a_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(hold(a_));
  EXPECT_CU(cuEventRecordWithFlags(e, a_, CU_EVENT_RECORD_EXTERNAL));
  CUgraph graph = nullptr;
  ASSERT_CU(cuStreamEndCapture(a_, &graph));
  EXPECT_CU(cuEventQuery(e));
  CUgraphExec exec = nullptr;
  ASSERT_CU(cuGraphInstantiate(&exec, graph, 0));
  EXPECT_CU(cuGraphLaunch(exec, a_));
  EXPECT_EQ(cuEventQuery(e), CUDA_ERROR_NOT_READY);  // recorded by the launch, not passed yet
  EXPECT_CU(cuStreamWaitEvent(b_, e, 0));
  EXPECT_CU(note(b_, 1));
  EXPECT_EQ(cuStreamQuery(b_), CUDA_ERROR_NOT_READY);
  gate_.open();
  EXPECT_CU(cuStreamSynchronize(b_));
  EXPECT_CU(cuStreamSynchronize(a_));
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(graph));
}

}  // namespace
