// links: gpu_cuda
// The device's threads: what a program did to its own does not reach them, and a system that gives no more of
// them is an answer.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <xmmintrin.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cfenv>
#include <climits>
#include <vector>

#include "stream_fixture.h"

namespace {
std::atomic<int> threads_left{INT_MAX};  // that the system gives
}  // namespace

// In front of the C library's for all of the process.
extern "C" int pthread_create(pthread_t* made, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) noexcept {
  static auto* next = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left-- > 0) return next(made, attributes, run, argument);
  threads_left = 0;
  return EAGAIN;
}

namespace {

// sums(u32* out): each block its five words: a sum of subnormals, 1 + 2^-24, 1 + 2^-53, a decimal literal
// that is subnormal as f32, and 1/0. count(u32* out): how many blocks there were.
constexpr const char* kText = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry sums(.param .u64 out)
{
  .reg .u64 %a<4>;
  .reg .u32 %r<2>;
  .reg .f32 %f<4>;
  .reg .f64 %d<4>;
  ld.param.u64 %a0, [out];
  mov.u32 %r0, %ctaid.x;
  mul.wide.u32 %a1, %r0, 24;
  add.u64 %a0, %a0, %a1;
  mov.b32 %f0, 0x00000001;
  add.rn.f32 %f1, %f0, %f0;
  st.global.f32 [%a0], %f1;
  add.rn.f32 %f1, 0f3F800000, 0f33800000;
  st.global.f32 [%a0+4], %f1;
  add.rn.f64 %d1, 0d3FF0000000000000, 0d3CA0000000000000;
  st.global.f64 [%a0+8], %d1;
  mov.f32 %f1, 1.0e-40;
  st.global.f32 [%a0+16], %f1;
  mov.f32 %f2, 0f3F800000;
  mov.f32 %f3, 0f00000000;
  div.rn.f32 %f1, %f2, %f3;
  st.global.f32 [%a0+20], %f1;
  ret;
}
.visible .entry count(.param .u64 out)
{
  .reg .u64 %a0;
  ld.param.u64 %a0, [out];
  red.global.add.u32 [%a0], 1;
  ret;
}
)";

class Threads : public StreamTest {
 protected:
  void SetUp() override {
    StreamTest::SetUp();
    ASSERT_CU(cuMemAlloc(&out_, 256));
    ASSERT_CU(cuMemsetD8(out_, 0, 256));
    ASSERT_CU(cuCtxSynchronize());
  }
  void TearDown() override {
    threads_left = INT_MAX;
    EXPECT_CU(cuMemFree(out_));
    StreamTest::TearDown();
  }
  CUfunction kernel(const char* name) {
    CUmodule module = nullptr;
    CUfunction found = nullptr;
    EXPECT_CU(cuModuleLoadData(&module, kText));
    EXPECT_CU(cuModuleGetFunction(&found, module, name));
    return found;
  }
  CUresult launch(CUfunction kernel, unsigned blocks, CUstream stream) {
    void* parameters[] = {&out_};
    return cuLaunchKernel(kernel, blocks, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
  }
  std::vector<unsigned> words(size_t count) {
    std::vector<unsigned> all(count);
    EXPECT_CU(cuMemcpyDtoH(all.data(), out_, 4 * count));
    return all;
  }
  void expect_exact_sums(unsigned blocks) {
    const std::vector<unsigned> all = words(6 * blocks);
    for (unsigned block = 0; block < blocks; ++block)
      EXPECT_EQ(std::vector<unsigned>(&all[6 * block], &all[6 * block] + 6),
                (std::vector<unsigned>{2, 0x3f800000, 0, 0x3ff00000, std::bit_cast<unsigned>(1.0e-40f),
                                       0x7f800000}))
          << "block " << block << " of " << blocks;
  }

  CUdeviceptr out_ = 0;
};

// As a program compiled with -ffast-math does to its first thread, and one that rounds up for a while.
TEST_F(Threads, ComputeInTheDefaultEnvironmentWhateverTheProgramSets) {
  const unsigned before = _mm_getcsr();
  constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x40;
  for (unsigned blocks : {1u, 4u}) {
    std::fesetround(FE_UPWARD);
    _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
    CUstream s = stream();
    EXPECT_CU(launch(kernel("sums"), blocks, s));
    EXPECT_CU(cuStreamSynchronize(s));
    EXPECT_EQ(std::fegetround(), FE_UPWARD) << "the program's own is left alone";
    std::fesetround(FE_TONEAREST);
    _mm_setcsr(before);
    expect_exact_sums(blocks);
  }
}

TEST_F(Threads, DoNotTrapWhereTheProgramWantsTo) {
  for (unsigned blocks : {1u, 4u}) {
    feenableexcept(FE_DIVBYZERO | FE_INVALID);
    CUstream s = stream();
    EXPECT_CU(launch(kernel("sums"), blocks, s));
    EXPECT_CU(cuStreamSynchronize(s));
    fedisableexcept(FE_ALL_EXCEPT);
    expect_exact_sums(blocks);
  }
}

TEST_F(Threads, LeaveTheProgramsSignalsToItsOwnThreads) {
  static sigset_t blocked;
  static int rounding;
  std::fesetround(FE_UPWARD);
  CUstream s = stream();
  EXPECT_CU(cuLaunchHostFunc(
      s,
      [](void*) {
        pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
        rounding = std::fegetround();
      },
      nullptr));
  EXPECT_CU(cuStreamSynchronize(s));
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(rounding, FE_TONEAREST);
  for (int signal : {SIGALRM, SIGTERM, SIGUSR1, SIGCHLD})
    EXPECT_TRUE(sigismember(&blocked, signal)) << signal;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE}) EXPECT_FALSE(sigismember(&blocked, signal)) << signal;
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_FALSE(sigismember(&own, SIGUSR1));
}

TEST_F(Threads, ThatAStreamCannotGetAreOutOfMemoryWithoutLastingEffect) {
  CUfunction count = kernel("count");
  CUstream s = stream(), other = stream();
  CUdeviceptr pooled = 0;
  EXPECT_CU(cuMemAllocAsync(&pooled, 64, s));
  EXPECT_CU(cuStreamSynchronize(s));
  CUevent held = event();
  EXPECT_CU(hold(s));
  EXPECT_CU(cuEventRecord(held, s));
  threads_left = 0;
  EXPECT_EQ(launch(count, 1, other), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemFreeAsync(pooled, other), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuStreamWaitEvent(other, held, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CU(cuStreamQuery(other));
  EXPECT_CU(cuStreamSynchronize(other));
  threads_left = INT_MAX;
  gate_.open();
  EXPECT_CU(launch(count, 1, other));
  EXPECT_CU(cuMemFreeAsync(pooled, other)) << "it had stayed";
  EXPECT_CU(cuStreamSynchronize(other));
  EXPECT_EQ(words(1)[0], 1u);
  EXPECT_CU(cuEventDestroy(held));
  EXPECT_CU(cuStreamDestroy(s));
  EXPECT_CU(cuStreamDestroy(other));
}

// With the stream's own only: blocks, functions of the host and branches of a graph are done one by one.
TEST_F(Threads, ThatAreMissingForConcurrencyAreNotNeeded) {
  CUfunction count = kernel("count");
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_CU(cuGraphCreate(&graph, 0));
  static std::atomic<int> called;
  CUDA_HOST_NODE_PARAMS call{[](void*) { ++called; }, nullptr};
  for (int i = 0; i < 3; ++i) ASSERT_CU(cuGraphAddHostNode(&node, graph, nullptr, 0, &call));
  ASSERT_CU(cuGraphInstantiate(&exec, graph, 0));
  CUstream s = stream();
  threads_left = 1;
  EXPECT_CU(launch(count, 20, s));
  EXPECT_CU(cuLaunchHostFunc(s, call.fn, nullptr));
  EXPECT_CU(cuGraphLaunch(exec, s));
  EXPECT_CU(launch(count, 3, s));
  EXPECT_CU(cuStreamSynchronize(s));
  threads_left = INT_MAX;
  EXPECT_EQ(called, 4);
  EXPECT_EQ(words(1)[0], 23u);
  EXPECT_CU(cuGraphExecDestroy(exec));
  EXPECT_CU(cuGraphDestroy(graph));
  EXPECT_CU(cuStreamDestroy(s));
}

}  // namespace
