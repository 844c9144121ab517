// nvcc: -std=c++17 -lcublas -lcublasLt
// run: ways=static
// cuBLAS and cuBLASLt on streams: two handles with different state (math mode, pointer mode, workspace,
// stream), batched products, long-lived descriptors, every kind of stream, events recorded in one step and
// awaited in the next, a kernel that still runs when a step ends. All numbers are small integers, so results
// are exact.
#include <cublasLt.h>
#include <cublas_v2.h>

#include "saved.h"

#define CUBLAS(what)                                                                 \
  do {                                                                               \
    cublasStatus_t status = (what);                                                  \
    if (status != CUBLAS_STATUS_SUCCESS)                                             \
      steplog_fail("line %d: %s: %s", __LINE__, #what, cublasGetStatusName(status)); \
  } while (0)

constexpr int kSide = 24, kBatch = 3;

// Slow: the step ends long before this kernel does.
__global__ void next(float* values, int n, int rounds) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = values[i];
  for (int r = 0; r < rounds; r++) v = v >= 4 ? v - 7 : v + 1;
  values[i] = v;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  cudaStream_t one, two;
  CALL(cudaStreamCreate(&one));
  CALL(cudaStreamCreateWithPriority(&two, cudaStreamNonBlocking, -1));
  cudaEvent_t ready, timed;
  CALL(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming | cudaEventBlockingSync));
  CALL(cudaEventCreate(&timed));
  cublasHandle_t first, second;
  CUBLAS(cublasCreate(&first));
  CUBLAS(cublasCreate(&second));
  cublasLtHandle_t light;
  CUBLAS(cublasLtCreate(&light));
  {
    DeviceNonce nonce;
    const int n = kSide * kSide;
    std::vector<float> values(n * kBatch);
    uint64_t random = 3;
    for (float& v : values) v = static_cast<float>(steplog_random(&random) % 7) - 2;
    Buffer<float> a(values), b(values), product(n * kBatch), other(n), third(n);
    Buffer<char> workspace(1 << 20);
    CALL(cudaMemset(third, 0, n * sizeof(float)));
    Buffer<float> factors(std::vector<float>{1, 0, 2});
    CUBLAS(cublasSetStream(first, one));
    CUBLAS(cublasSetWorkspace(first, workspace, workspace.count));
    CUBLAS(cublasSetStream(second, two));
    CUBLAS(cublasSetPointerMode(second, CUBLAS_POINTER_MODE_DEVICE));
    CUBLAS(cublasSetMathMode(second, CUBLAS_PEDANTIC_MATH));
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t layout;
    CUBLAS(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    cublasOperation_t transposed = CUBLAS_OP_T;
    CUBLAS(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &transposed,
                                          sizeof transposed));
    CUBLAS(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, kSide, kSide, kSide));
    CALL(cudaEventRecord(ready, two));
    const float alpha = 1, beta = 0;
    while (steplog_done < steplog_steps) {
      cudaStream_t set;
      cublasPointerMode_t mode;
      cublasMath_t math;
      CUBLAS(cublasGetStream(second, &set));
      CUBLAS(cublasGetPointerMode(second, &mode));
      CUBLAS(cublasGetMathMode(second, &math));
      cudaStream_t own;  // a default stream has no handle
      CUBLAS(cublasSetStream(first, cudaStreamPerThread));
      CUBLAS(cublasGetStream(first, &own));
      EXPECT(own == cudaStreamPerThread);
      CUBLAS(cublasSetStream(first, one));
      CUBLAS(cublasSetWorkspace(first, workspace, workspace.count));
      EXPECT(set == two && mode == CUBLAS_POINTER_MODE_DEVICE && math == CUBLAS_PEDANTIC_MATH);
      int priority;
      unsigned flags;
      CALL(cudaStreamGetPriority(two, &priority));
      CALL(cudaStreamGetFlags(two, &flags));
      EXPECT(priority == -1 && flags == cudaStreamNonBlocking);
      CALL(cudaStreamWaitEvent(one, ready, 0));  // recorded in the step before
      CUBLAS(cublasSgemmStridedBatched(first, CUBLAS_OP_N, CUBLAS_OP_T, kSide, kSide, kSide, &alpha, a, kSide,
                                       n, b, kSide, n, &beta, product, kSide, n, kBatch));
      CALL(cudaEventRecord(timed, one));
      CALL(cudaStreamWaitEvent(two, timed, 0));
      CUBLAS(cublasSgemm(second, CUBLAS_OP_N, CUBLAS_OP_T, kSide, kSide, kSide, factors, a, kSide, b, kSide,
                         factors + 1, other, kSide));
      CUBLAS(cublasLtMatmul(light, operation, &alpha, a, layout, b, layout, &beta, third, layout, third,
                            layout, nullptr, workspace, workspace.count, two));
      CUBLAS(cublasSscal(second, n, factors + 2, other, 1));
      CALL(cudaStreamSynchronize(two));
      std::vector<float> p = product.host(), q = other.host(), r = third.host();
      for (int i = 0; i < n; i++) EXPECT(2 * p[i] == q[i] && p[i] == r[i]);
      mix(p);
      next<<<(n * kBatch + 63) / 64, 64, 0, two>>>(a, n * kBatch, 301);
      next<<<(n * kBatch + 63) / 64, 64, 0, two>>>(b, n * kBatch, static_cast<int>(steplog_done) + 1);
      LAUNCHED();
      CALL(cudaEventRecord(ready, two));
      steplog_step();
    }
    CALL(cudaEventSynchronize(ready));
    mix(a.host());
    mix(b.host());
    CUBLAS(cublasLtMatrixLayoutDestroy(layout));
    CUBLAS(cublasLtMatmulDescDestroy(operation));
    nonce.back();
  }
  CUBLAS(cublasLtDestroy(light));
  CUBLAS(cublasDestroy(second));
  CUBLAS(cublasDestroy(first));
  CALL(cudaEventDestroy(timed));
  CALL(cudaEventDestroy(ready));
  CALL(cudaStreamDestroy(two));
  CALL(cudaStreamDestroy(one));
  steplog_ok();
  return 0;
}
