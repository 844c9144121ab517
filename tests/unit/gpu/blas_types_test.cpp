// links: gpu_blas_calls gpu_blas_products gpu_cuda gpu_settings dl
// cublasGemmEx's narrow types and what cuBLAS refuses: bad arguments at the call; memory that is not there
// when the work runs, which breaks the context, so in a process of its own.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/gpu/blas_rig.h"
#include "tests/unit/gpu/paths.h"
#include "tests/unit/gpu/stream_fixture.h"

namespace {

using namespace blas_rig;  // NOLINT

struct Handle {
  Handle() { EXPECT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS); }
  ~Handle() { cublasDestroy(handle); }
  operator cublasHandle_t() const { return handle; }  // NOLINT
  cublasHandle_t handle = nullptr;
};

template <class T>
constexpr cudaDataType kType = CUDA_R_32F;
template <>
constexpr cudaDataType kType<__half> = CUDA_R_16F;
template <>
constexpr cudaDataType kType<__nv_bfloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType kType<int8_t> = CUDA_R_8I;
template <>
constexpr cudaDataType kType<int32_t> = CUDA_R_32I;

// Small whole numbers: exact in every type and order of summation.
template <class T>
std::vector<T> small(std::mt19937& random, int count) {
  std::vector<T> made;
  for (int i = 0; i < count; i++)
    made.push_back(static_cast<T>(static_cast<float>(static_cast<int>(random() % 7) - 3)));
  return made;
}

template <class In, class Out, class Scale>
void multiply(cublasComputeType_t compute) {
  constexpr int m = 5, n = 4, k = 6, lda = 8, ldb = 8, ldc = 6;
  Handle handle;
  std::mt19937 random(3);
  for (cublasOperation_t a_is : {CUBLAS_OP_N, CUBLAS_OP_T})
    for (cublasOperation_t b_is : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      std::vector<In> a = small<In>(random, 2 * lda * 6), b = small<In>(random, 2 * ldb * 6);
      std::vector<Out> c = small<Out>(random, 2 * ldc * n);
      Memory<In> da(a), db(b);
      Memory<Out> dc(c);
      Scale alpha = static_cast<Scale>(2.0f), beta = static_cast<Scale>(-1.0f);
      ASSERT_EQ(cublasGemmStridedBatchedEx(handle, a_is, b_is, m, n, k, &alpha, da.at(), kType<In>, lda,
                                           lda * 6, db.at(), kType<In>, ldb, ldb * 6, &beta, dc.at(),
                                           kType<Out>, ldc, ldc * n, 2, compute, CUBLAS_GEMM_DEFAULT),
                CUBLAS_STATUS_SUCCESS);
      ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
      std::vector<Out> found = dc.values();
      for (int batch = 0; batch < 2; batch++)
        for (int j = 0; j < n; j++)
          for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int l = 0; l < k; l++)
              sum += static_cast<float>(a[static_cast<size_t>(
                         batch * lda * 6 + (a_is == CUBLAS_OP_N ? l * lda + i : i * lda + l))]) *
                     static_cast<float>(b[static_cast<size_t>(
                         batch * ldb * 6 + (b_is == CUBLAS_OP_N ? j * ldb + l : l * ldb + j))]);
            auto at = static_cast<size_t>(batch * ldc * n + j * ldc + i);
            EXPECT_EQ(static_cast<float>(found[at]), 2 * sum - static_cast<float>(c[at])) << i << ", " << j;
          }
      EXPECT_EQ(static_cast<float>(found[m]), static_cast<float>(c[m]));  // between two columns
    }
}

TEST(BlasTypes, NarrowOnesAreMultipliedExactly) {
  multiply<__half, __half, float>(CUBLAS_COMPUTE_32F);
  multiply<__half, __half, __half>(CUBLAS_COMPUTE_16F);
  multiply<__half, float, float>(CUBLAS_COMPUTE_32F);
  multiply<__nv_bfloat16, __nv_bfloat16, float>(CUBLAS_COMPUTE_32F);
  multiply<__nv_bfloat16, float, float>(CUBLAS_COMPUTE_32F_PEDANTIC);
  multiply<int8_t, float, float>(CUBLAS_COMPUTE_32F);
  multiply<int8_t, int32_t, int32_t>(CUBLAS_COMPUTE_32I);
  multiply<float, float, float>(CUBLAS_COMPUTE_32F_FAST_TF32);
}

// OpenBLAS is called from each stream's own thread.
TEST(BlasTypes, TwoStreamsMultiplyAtOnce) {
  constexpr int kSide = 40, kTimes = 200;
  Handle handle;
  std::mt19937 random(5);
  std::vector<float> a = small<float>(random, kSide * kSide), b = small<float>(random, kSide * kSide);
  std::vector<float> wanted(kSide * kSide);
  for (int j = 0; j < kSide; j++)
    for (int i = 0; i < kSide; i++)
      for (int k = 0; k < kSide; k++)
        wanted[static_cast<size_t>(j * kSide + i)] +=
            a[static_cast<size_t>(k * kSide + i)] * b[static_cast<size_t>(j * kSide + k)];
  Memory<float> da(a), db(b);
  std::vector<std::unique_ptr<Memory<float>>> results(kTimes);
  for (auto& result : results) result = std::make_unique<Memory<float>>(std::vector<float>(kSide * kSide));
  CUstream streams[2];
  Gate gate;
  for (CUstream& stream : streams) {
    ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cuLaunchHostFunc(
                  stream, [](void* held) { static_cast<Gate*>(held)->pass(); }, &gate),
              CUDA_SUCCESS);
  }
  float one = 1, zero = 0;
  for (int i = 0; i < kTimes; i++) {
    ASSERT_EQ(cublasSetStream(handle, streams[i % 2]), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, kSide, kSide, kSide, &one, da.at(), kSide,
                          db.at(), kSide, &zero, results[static_cast<size_t>(i)]->at(), kSide),
              CUBLAS_STATUS_SUCCESS);
  }
  gate.open();
  for (CUstream stream : streams) {
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  }
  for (const auto& result : results) EXPECT_EQ(result->values(), wanted);
}

TEST(BlasTypes, ACombinationThatCublasHasNotIsRefused) {
  Handle handle;
  Memory<float> memory(std::vector<float>(64));
  float one = 1;
  auto call = [&](cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, memory.at(), a, 4, memory.at(), b, 4,
                        &one, memory.at(), c, 4, compute, CUBLAS_GEMM_DEFAULT);
  };
  EXPECT_EQ(call(CUDA_R_16F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(call(CUDA_R_16F, CUDA_R_16F, CUDA_R_16BF, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(call(CUDA_R_32F, CUDA_R_32F, CUDA_R_16F, CUBLAS_COMPUTE_32F), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(call(CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_32F, CUBLAS_COMPUTE_32F),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(call(CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_16F), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(call(CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_64F), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(BlasRefuses, InvalidArgumentsAtTheCall) {
  Handle handle;
  Memory<float> memory(std::vector<float>(64));
  float one = 1, *p = memory.at();
  auto gemm = [&](cublasHandle_t h, cublasOperation_t is, int m, int lda, const float* alpha) {
    return cublasSgemm(h, is, CUBLAS_OP_N, m, 4, 4, alpha, p, lda, p, 4, &one, p, 4);
  };
  EXPECT_EQ(gemm(handle, CUBLAS_OP_N, 4, 4, &one), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(gemm(nullptr, CUBLAS_OP_N, 4, 4, &one), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(gemm(handle, static_cast<cublasOperation_t>(7), 4, 4, &one), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(handle, CUBLAS_OP_N, -1, 4, &one), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(handle, CUBLAS_OP_N, 4, 3, &one), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(gemm(handle, CUBLAS_OP_N, 4, 4, nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSgemv(handle, CUBLAS_OP_N, 4, 4, &one, p, 4, p, 0, &one, p, 1),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSsymv(handle, CUBLAS_FILL_MODE_FULL, 4, &one, p, 4, p, 1, &one, p, 1),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasStrsm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, 4, 4,
                        &one, p, 3, p, 4),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSgeam(handle, CUBLAS_OP_T, CUBLAS_OP_N, 4, 4, &one, p, 4, &one, p + 16, 4, p, 4),
            CUBLAS_STATUS_INVALID_VALUE);  // C may be A only where A is not transposed
  EXPECT_EQ(cublasSdot(handle, 4, p, 1, p, 1, nullptr), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSetMathMode(handle, static_cast<cublasMath_t>(5)), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasSetMathMode(handle, static_cast<cublasMath_t>(CUBLAS_PEDANTIC_MATH | 16)),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSetAtomicsMode(handle, static_cast<cublasAtomicsMode_t>(2)), CUBLAS_STATUS_INVALID_VALUE);
  float of_the_host[4] = {};
  EXPECT_EQ(cublasSetVector(4, 4, of_the_host, 1, p, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasGetVector(4, 4, p, 1, of_the_host, 1), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasSetVector(4, 4, p, 1, of_the_host, 1), CUBLAS_STATUS_MAPPING_ERROR);
  EXPECT_EQ(cublasSetVector_64(4, 4, of_the_host, (int64_t{1} << 62) + 1, p, 1), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasGetVector(4, 4, of_the_host, 1, p, 1), CUBLAS_STATUS_MAPPING_ERROR);
  cublasHandle_t gone = nullptr;
  ASSERT_EQ(cublasCreate(&gone), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasDestroy(gone), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasDestroy(gone), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(gemm(gone, CUBLAS_OP_N, 4, 4, &one), CUBLAS_STATUS_NOT_INITIALIZED);
}

// OpenBLAS would take the lower half of the 64 bits.
TEST(BlasRefuses, MoreThan31Bits) {
  Handle handle;
  Memory<float> memory(std::vector<float>(64, 1.0f));
  float one = 1, zero = 0, *p = memory.at(), *c = memory.at(32);
  constexpr int64_t many = (int64_t{1} << 32) + 1;
  // One column needs no leading dimension: the memory is there.
  EXPECT_EQ(cublasSsymm_64(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, 4, 1, &one, p, 4, p, many, &zero,
                           c, 4),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cublasStrmm_64(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                           CUBLAS_DIAG_NON_UNIT, 4, 1, &one, p, 4, p, many, c, 4),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cublasSsyrk_64(handle, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, 4, 1, &one, p, many, &zero, c, 4),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(cublasSgemm_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 1, 4, &one, p, 4, p, many, &zero, c, 4),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST(BlasRefuses, AHandleOfAnotherContext) {
  Handle handle;
  Memory<float> memory(std::vector<float>(4, 1.0f));
  float two = 2;
  CUcontext own = nullptr, other = nullptr;
  CUdevice device = 0;
  ASSERT_EQ(cuCtxGetCurrent(&own), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, device), CUDA_SUCCESS);
  EXPECT_EQ(cublasSscal(handle, 4, &two, memory.at(), 1), CUBLAS_STATUS_EXECUTION_FAILED);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);  // as a thread of its own: the first device's
  EXPECT_EQ(cublasSscal(handle, 4, &two, memory.at(), 1), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(own), CUDA_SUCCESS);
  EXPECT_EQ(memory.values(), std::vector<float>(4, 2.0f));
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
}

// Destroying a handle waits for its own work, whichever context is current.
TEST(BlasRefuses, DestroyingAHandleWaitsForItsWork) {
  cublasHandle_t handle = nullptr;
  ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
  Memory<float> memory(std::vector<float>(4, 1.0f));
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cublasSetStream(handle, stream), CUBLAS_STATUS_SUCCESS);
  CUcontext own = nullptr, other = nullptr;
  CUdevice device = 0;
  ASSERT_EQ(cuCtxGetCurrent(&own), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  Gate gate;
  ASSERT_EQ(cuLaunchHostFunc(
                stream, [](void* held) { static_cast<Gate*>(held)->pass(); }, &gate),
            CUDA_SUCCESS);
  float two = 2;
  ASSERT_EQ(cublasSscal(handle, 4, &two, memory.at(), 1), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cuCtxCreate(&other, nullptr, 0, device), CUDA_SUCCESS);
  std::thread opener([&] { gate.open(); });
  EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
  opener.join();
  CUcontext still = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&still), CUDA_SUCCESS);
  EXPECT_EQ(still, other);
  EXPECT_EQ(cuCtxDestroy(other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(own), CUDA_SUCCESS);
  EXPECT_EQ(memory.values(), std::vector<float>(4, 2.0f));
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

// The work that runs beyond memory of 16 floats ends with code 0 if the device then refuses everything.
template <class F>
void breaks_the_context(F call) {
  EXPECT_EXIT(
      {
        Handle handle;
        auto* memory = new Memory<float>(std::vector<float>(16));
        if (call(handle, memory->at()) != CUBLAS_STATUS_SUCCESS) ::_exit(1);
        if (cuCtxSynchronize() != CUDA_ERROR_ILLEGAL_ADDRESS) ::_exit(2);
        CUdeviceptr more = 0;
        ::_exit(cuMemAlloc(&more, 8) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 3);
      },
      testing::ExitedWithCode(0), "");
}

TEST(BlasRefusesDeathTest, MemoryThatIsNotThere) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  static const float kOne = 1;
  breaks_the_context([](cublasHandle_t h, float* p) { return cublasSscal(h, 17, &kOne, p, 1); });
  breaks_the_context([](cublasHandle_t h, float* p) { return cublasSaxpy(h, 6, &kOne, p, 1, p, 4); });
  breaks_the_context([](cublasHandle_t h, float* p) {
    return cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &kOne, p, 4, p, 4, &kOne, p, 5);
  });
  breaks_the_context([](cublasHandle_t h, float*) {
    static float of_the_host[16];
    return cublasSscal(h, 4, &kOne, of_the_host, 1);
  });
  breaks_the_context([](cublasHandle_t h, float* p) {
    cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE);
    return cublasSscal(h, 4, &kOne, p, 1);  // the scalar is the host's
  });
  breaks_the_context([](cublasHandle_t h, float* p) {
    return cublasSsyr2k(h, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, 2, 2, &kOne, p, 2, nullptr, 2, &kOne, p + 8,
                        2);
  });
}

// As programs do that do not wait for the last thing they began.
[[noreturn]] void end_while_multiplying() {
  constexpr int kSide = 1200;
  static auto* handle = new Handle;  // never freed
  static auto* matrix = new Memory<float>(std::vector<float>(kSide * kSide));
  float one = 1;
  std::atomic<bool> begins = false;
  if (cuLaunchHostFunc(
          nullptr, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &begins))
    ::_exit(1);
  for (int i = 0; i < 3; i++)
    if (cublasSgemm(*handle, CUBLAS_OP_N, CUBLAS_OP_N, kSide, kSide, kSide, &one, matrix->at(), kSide,
                    matrix->at(), kSide, &one, matrix->at(), kSide))
      ::_exit(2);
  while (!begins) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::exit(0);
}
TEST(BlasEndsDeathTest, AProcessEndsInTheMiddleOfAProduct) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  for (int i = 0; i < 5; i++) EXPECT_EXIT(end_while_multiplying(), testing::ExitedWithCode(0), "");
}

// Products that were never begun, and a library that waits for the device when this one's end has come.
[[noreturn]] void end_before_a_plugin_waits() {
  constexpr int kSide = 16;
  auto* handle = new Handle;
  auto* matrix = new Memory<float>(std::vector<float>(kSide * kSide));
  float one = 1;
  auto multiply = [&] {
    return cublasSgemm(*handle, CUBLAS_OP_N, CUBLAS_OP_N, kSide, kSide, kSide, &one, matrix->at(), kSide,
                       matrix->at(), kSide, &one, matrix->at(), kSide);
  };
  void* plugin = ::dlopen(kWaitsAtItsEnd, RTLD_NOW);
  if (!plugin || multiply() || cuCtxSynchronize()) ::_exit(1);
  auto* hold = reinterpret_cast<CUresult (*)(CUstream)>(::dlsym(plugin, "hold_the_device"));
  if (!hold || hold(nullptr) || multiply()) ::_exit(2);
  std::exit(0);
}
TEST(BlasEndsDeathTest, WaitingAfterItsEndReturnsAnError) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(end_before_a_plugin_waits(), testing::ExitedWithCode(0), "the plugin was told 4");
}

// What is widened to float needs memory of the host.
[[noreturn]] void multiply_without_memory() {
  constexpr int kSide = 4300;  // more floats than the 64 MiB that malloc keeps for a thread
  Handle handle;
  auto* a = new Memory<__half>(std::vector<__half>(kSide));
  auto* c = new Memory<__half>(std::vector<__half>(kSide * kSide));
  float one = 1, zero = 0;
  auto multiply = [&](int side) {
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, 1, &one, a->at(), CUDA_R_16F, kSide,
                        a->at(), CUDA_R_16F, 1, &zero, c->at(), CUDA_R_16F, kSide, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
  };
  if (multiply(1) != CUBLAS_STATUS_SUCCESS || cuCtxSynchronize() != CUDA_SUCCESS) ::_exit(1);
  rlimit none{1 << 20, 1 << 20};  // less than there is: nothing more is mapped
  setrlimit(RLIMIT_AS, &none);
  if (multiply(kSide) != CUBLAS_STATUS_SUCCESS) ::_exit(2);
  ::_exit(cuCtxSynchronize() == CUDA_ERROR_OUT_OF_MEMORY ? 0 : 3);
}
TEST(BlasRefusesDeathTest, TheHostHasNoMemoryLeft) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers need memory of their own";
#endif
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(multiply_without_memory(), testing::ExitedWithCode(0), "");
}

// Sizes whose product is zero, or small, modulo 2^64.
TEST(BlasRefusesDeathTest, MoreMemoryThanThereAreAddresses) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  static const float kOne = 1;
  breaks_the_context(
      [](cublasHandle_t h, float* p) { return cublasSscal_64(h, int64_t{1} << 62, &kOne, p, 1); });
  breaks_the_context([](cublasHandle_t h, float* p) {
    return cublasSaxpy_64(h, (int64_t{1} << 32) + 1, &kOne, p, INT64_MIN, p + 8, 0);
  });
  breaks_the_context([](cublasHandle_t h, float* p) {
    constexpr int64_t kLeading = int64_t{1} << 33;
    return cublasSgeam_64(h, CUBLAS_OP_N, CUBLAS_OP_N, 1, (int64_t{1} << 31) + 1, &kOne, p, kLeading, &kOne,
                          p, kLeading, p, kLeading);
  });
}

}  // namespace
