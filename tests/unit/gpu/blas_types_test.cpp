// links: gpu_blas_calls gpu_blas_products gpu_cuda gpu_settings dl
// cublasGemmEx's narrow types and what cuBLAS refuses: bad arguments at the call; memory that is not there
// when the work runs, which breaks the context, so in a process of its own.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <unistd.h>

#include "tests/unit/gpu/blas_rig.h"

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

TEST(BlasRefuses, WhatIsWrongAtTheCall) {
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
  cublasHandle_t gone = nullptr;
  ASSERT_EQ(cublasCreate(&gone), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasDestroy(gone), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasDestroy(gone), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(gemm(gone, CUBLAS_OP_N, 4, 4, &one), CUBLAS_STATUS_NOT_INITIALIZED);
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
}

}  // namespace
