// links: gpu_cuda
// That programs built with an older toolkit find what they call: older versions of functions, by their
// symbols.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace {

const char* const kText = R"(.version 9.0
.target sm_75
.address_size 64
.visible .entry add(.param .u64 where, .param .u32 what)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [where];
  ld.param.u32 %r1, [what];
  atom.global.add.u32 %r2, [%rd1], %r1;
  ret;
}
)";

TEST(OlderVersions, OfGraphsDoWhatTheNewerDo) {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext context;
  ASSERT_EQ(cuCtxCreate(&context, 0, 0), CUDA_SUCCESS);
  CUmodule module;
  CUfunction add;
  CUdeviceptr memory = 0;
  ASSERT_EQ(cuModuleLoadData(&module, kText), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&add, module, "add"), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAlloc_v2(&memory, 4), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD32_v2(memory, 1, 1), CUDA_SUCCESS);

  unsigned what = 10;
  void* arguments[] = {&memory, &what};
  CUDA_KERNEL_NODE_PARAMS_v1 parameters{add, 1, 1, 1, 2, 1, 1, 0, arguments, nullptr};
  CUgraph graph;
  CUgraphNode node, wrong = reinterpret_cast<CUgraphNode>(1);
  CUgraphExec made;
  ASSERT_EQ(cuGraphCreate(&graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphAddKernelNode(&node, graph, nullptr, 0, &parameters), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphAddKernelNode(&node, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  CUDA_KERNEL_NODE_PARAMS_v1 seen{};
  ASSERT_EQ(cuGraphKernelNodeGetParams(node, &seen), CUDA_SUCCESS);
  EXPECT_EQ(seen.func, add);
  EXPECT_EQ(seen.blockDimX, 2u);
  ASSERT_EQ(cuGraphInstantiate_v2(&made, graph, &wrong, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(wrong, nullptr);
  ASSERT_EQ(cuGraphLaunch(made, nullptr), CUDA_SUCCESS);
  what = 100;
  ASSERT_EQ(cuGraphExecKernelNodeSetParams(made, node, &parameters), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(made, nullptr), CUDA_SUCCESS);
  uint32_t value = 0;
  ASSERT_EQ(cuMemcpyDtoH_v2(&value, memory, sizeof value), CUDA_SUCCESS);
  EXPECT_EQ(value, 1u + 2 * 10 + 2 * 100);
  CUgraphExecUpdateResult result{};
  EXPECT_EQ(cuGraphExecUpdate(made, graph, &wrong, &result), CUDA_SUCCESS);
  EXPECT_EQ(result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  EXPECT_EQ(cuGraphExecDestroy(made), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy(context), CUDA_SUCCESS);
}

TEST(OlderVersions, OfStreamsAndEventsDoWhatTheNewerDo) {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext context;
  CUstream stream;
  CUevent event;
  ASSERT_EQ(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_NE(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_SUCCESS);
}

TEST(OlderVersions, With32BitPointersAreRefused) {
  ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
  CUdeviceptr_v1 memory = 0;
  EXPECT_EQ(cuMemAlloc(&memory, 4), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
