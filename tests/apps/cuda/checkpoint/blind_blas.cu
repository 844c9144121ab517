// nvcc: -std=c++17 -lcublas -lcublasLt -lcurand
// run: build=long ways=static
// cuBLAS with device scalars, the program's own workspaces, and settings that are read back; handles that
// change streams in every step; products by long-lived cuBLASLt descriptors; generators with offsets that
// draw odd amounts of all kinds in turn, some copied to pinned host memory.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <curand.h>

#include "saved.h"

#define BLAS(what)                                                                \
  do {                                                                            \
    cublasStatus_t status = (what);                                               \
    if (status != CUBLAS_STATUS_SUCCESS)                                          \
      steplog_fail("line %d: %s: %d", __LINE__, #what, static_cast<int>(status)); \
  } while (0)
#define RAND(what)                                                                \
  do {                                                                            \
    curandStatus_t status = (what);                                               \
    if (status != CURAND_STATUS_SUCCESS)                                          \
      steplog_fail("line %d: %s: %d", __LINE__, #what, static_cast<int>(status)); \
  } while (0)

constexpr int kN = 24;

__global__ void soften(float* v, int n, float by) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] = v[i] / (1 + fabsf(v[i])) * by;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  cudaStream_t streams[3];
  for (auto& s : streams) CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  cublasHandle_t blas, other;
  BLAS(cublasCreate(&blas));
  BLAS(cublasCreate(&other));
  BLAS(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
  BLAS(cublasSetAtomicsMode(blas, CUBLAS_ATOMICS_ALLOWED));
  BLAS(cublasSetMathMode(blas, CUBLAS_PEDANTIC_MATH));
  BLAS(cublasSetMathMode(other, CUBLAS_TF32_TENSOR_OP_MATH));
  BLAS(cublasSetSmCountTarget(other, 2));
  void* workspace;
  CALL(cudaMalloc(&workspace, 1 << 20));
  Buffer<float> a(kN * kN), b(kN * kN), c(kN * kN), d(kN * kN), x(kN), scalars(4), drawn(5000), amax(2);
  int* index;
  CALL(cudaMalloc(&index, 4));
  const float zero = 0, one = 1;
  float first[4] = {1, 0, 0.5f, 0};
  CALL(cudaMemcpy(scalars, first, sizeof first, cudaMemcpyHostToDevice));
  CALL(cudaMemset(c, 0, kN * kN * 4));
  CALL(cudaMemset(drawn, 0, 5000 * 4));
  CALL(cudaDeviceSynchronize());
  curandGenerator_t generators[3];
  RAND(curandCreateGenerator(&generators[0], CURAND_RNG_PSEUDO_PHILOX4_32_10));
  RAND(curandCreateGenerator(&generators[1], CURAND_RNG_PSEUDO_XORWOW));
  RAND(curandCreateGenerator(&generators[2], CURAND_RNG_PSEUDO_PHILOX4_32_10));
  for (int i = 0; i < 3; i++) {
    RAND(curandSetPseudoRandomGeneratorSeed(generators[i], 1234 + i));
    RAND(curandSetGeneratorOffset(generators[i], 1001 * i));
    RAND(curandSetStream(generators[i], streams[0]));
  }
  RAND(curandGenerateSeeds(generators[1]));
  cublasLtHandle_t lt;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t layout;
  BLAS(cublasLtCreate(&lt));
  BLAS(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  BLAS(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, kN, kN, kN));
  cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
  float* bias = x;
  BLAS(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed));
  BLAS(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  BLAS(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
  RAND(curandGenerateUniform(generators[0], a, kN * kN));
  RAND(curandGenerateNormal(generators[2], b, kN * kN, 0, 0.5f));
  RAND(curandGenerateUniform(generators[0], x, kN));
  CALL(cudaStreamSynchronize(streams[0]));
  int made_again = 0;
  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    cudaStream_t s = streams[step % 3], told;
    cublasPointerMode_t mode;
    cublasAtomicsMode_t atomics;
    cublasMath_t math;
    int target;
    BLAS(cublasGetPointerMode(blas, &mode));
    BLAS(cublasGetAtomicsMode(blas, &atomics));
    BLAS(cublasGetMathMode(blas, &math));
    EXPECT(mode == CUBLAS_POINTER_MODE_DEVICE && atomics == CUBLAS_ATOMICS_ALLOWED &&
           math == CUBLAS_PEDANTIC_MATH);
    BLAS(cublasGetPointerMode(other, &mode));
    BLAS(cublasGetMathMode(other, &math));
    BLAS(cublasGetSmCountTarget(other, &target));
    EXPECT(mode == CUBLAS_POINTER_MODE_HOST && math == CUBLAS_TF32_TENSOR_OP_MATH && target == 2);
    if (step) {
      BLAS(cublasGetStream(blas, &told));
      EXPECT(told == streams[(step - 1) % 3]);
    }
    BLAS(cublasSetStream(blas, s));
    if (step % 2) BLAS(cublasSetWorkspace(blas, workspace, step % 4 == 1 ? 1 << 20 : 512 << 10));
    float* alpha = scalars;
    float* beta = scalars + 2;
    BLAS(cublasSgemm(blas, CUBLAS_OP_N, step % 2 ? CUBLAS_OP_T : CUBLAS_OP_N, kN, kN, kN, alpha, a, kN, b, kN,
                     beta, c, kN));
    soften<<<1, 128, 0, s>>>(c, kN * kN, 1.0f);
    BLAS(cublasSnrm2(blas, kN * kN, c, 1, scalars + 3));
    BLAS(cublasSdot(blas, kN, c, 1, x, 1, scalars));  // the next step's alpha
    BLAS(cublasIsamax(blas, kN * kN, c, 1, index));
    soften<<<1, 1, 0, s>>>(scalars, 1, 1.0f);
    CALL(cudaStreamSynchronize(s));
    float host_sum;
    BLAS(cublasSetStream(other, streams[(step + 1) % 3]));
    BLAS(cublasSasum(other, kN, c, 1, &host_sum));
    steplog_mix_bytes(&host_sum, 4);
    BLAS(cublasLtMatmul(lt, product, &one, a, layout, c, layout, &zero, d, layout, d, layout, nullptr,
                        workspace, step % 3 ? 0 : 1 << 16, s));
    CALL(cudaMemcpyAsync(a, d, kN * kN * 4, cudaMemcpyDeviceToDevice, s));
    soften<<<1, 128, 0, s>>>(a, kN * kN, 0.9f);
    CALL(cudaStreamSynchronize(s));
    // Odd amounts, of a different kind in each step.
    for (int g = 0; g < 3; g++) {
      RAND(curandSetStream(generators[g], streams[(step + g) % 3]));
      const size_t n = 1 + static_cast<size_t>(step * 37 + g * 101) % 1200;
      switch ((step + g) % 5) {
        case 0:
          RAND(curandGenerate(generators[g], reinterpret_cast<unsigned*>(drawn.data + 1500 * g), n));
          break;
        case 1:
          RAND(curandGenerateUniform(generators[g], drawn + 1500 * g, n));
          break;
        case 2:
          RAND(curandGenerateNormal(generators[g], drawn + 1500 * g, n + n % 2, 1, 2));
          break;
        case 3:
          RAND(curandGenerateUniformDouble(generators[g], reinterpret_cast<double*>(drawn.data + 1500 * g),
                                           n / 2 + 1));
          break;
        case 4:
          RAND(curandGenerateLogNormal(generators[g], drawn + 1500 * g, n + n % 2, 0, 1));
          break;
      }
    }
    CALL(cudaDeviceSynchronize());
    if (step % 11 == 5) RAND(curandSetGeneratorOffset(generators[2], 77777 + step));
    if (step % 11 == 8) {
      RAND(curandSetPseudoRandomGeneratorSeed(generators[1], 99 + step));
      RAND(curandSetGeneratorOffset(generators[1], step));
    }
    if (step % 9 == 4) {  // a temporary handle
      BLAS(cublasDestroy(other));
      BLAS(cublasCreate(&other));
      BLAS(cublasSetMathMode(other, CUBLAS_TF32_TENSOR_OP_MATH));
      BLAS(cublasSetSmCountTarget(other, 2));
      made_again++;
    }
    cublasLtEpilogue_t now;
    float* where;
    size_t written;
    BLAS(cublasLtMatmulDescGetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &now, sizeof now, &written));
    BLAS(cublasLtMatmulDescGetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &where, sizeof where,
                                        &written));
    EXPECT(now == epilogue && where == bias);
    mix(drawn.host());
    mix(c.host());
    mix(scalars.host());
    int i;
    CALL(cudaMemcpy(&i, index, 4, cudaMemcpyDeviceToHost));
    steplog_mix(i);
    steplog_step();
  }
  mix(a.host());
  nonce.back();
  steplog_ok();
  return 0;
}
