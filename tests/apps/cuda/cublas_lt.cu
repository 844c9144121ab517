// nvcc: -lcublasLt
// cublasLt: products with epilogues (bias, ReLU, GELU).
#include <cublasLt.h>

#include "check.h"

#define BLAS(what)                                                                              \
  do {                                                                                          \
    cublasStatus_t status = (what);                                                             \
    if (status != CUBLAS_STATUS_SUCCESS) fail("line %d: %s: %d", __LINE__, #what, int(status)); \
  } while (0)

int main() {
  const int m = 24, n = 16, k = 32;
  Random random(62);
  std::vector<float> a = random.floats(m * k), b = random.floats(k * n), bias = random.floats(m);
  Buffer<float> da(a), db(b), dbias(bias);
  cublasLtHandle_t handle;
  BLAS(cublasLtCreate(&handle));
  for (cublasLtEpilogue_t epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                      CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS}) {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t la, lb, lc;
    cublasOperation_t transposed = CUBLAS_OP_T;
    BLAS(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    BLAS(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                        sizeof transposed));
    BLAS(
        cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
      const float* pointer = dbias;
      BLAS(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer,
                                          sizeof pointer));
    }
    BLAS(cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, k, m, k));
    BLAS(cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, k, n, k));
    BLAS(cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, m, n, m));
    cublasLtMatmulPreference_t preference;
    BLAS(cublasLtMatmulPreferenceCreate(&preference));
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    BLAS(cublasLtMatmulAlgoGetHeuristic(handle, operation, la, lb, lc, lc, preference, 1, &found, &count));
    EXPECT(count == 1);
    Buffer<float> out(m * n), room(found.workspaceSize / 4 + 1);
    float one = 1, zero = 0;
    BLAS(cublasLtMatmul(handle, operation, &one, da, la, db, lb, &zero, out, lc, out, lc, &found.algo, room,
                        found.workspaceSize, 0));
    std::vector<double> expected(m * n);
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) {
        double sum = epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 0 : bias[i];
        for (int l = 0; l < k; l++) sum += double(a[i * k + l]) * b[j * k + l];
        if (epilogue == CUBLASLT_EPILOGUE_RELU_BIAS) sum = std::fmax(sum, 0);
        if (epilogue == CUBLASLT_EPILOGUE_GELU_BIAS)
          sum = 0.5 * sum * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
        expected[j * m + i] = sum;
      }
    expect_near(out.host(), expected, 1e-4, 1e-4);
    digest(out.host());
    cublasLtMatmulPreferenceDestroy(preference);
    for (cublasLtMatrixLayout_t layout : {la, lb, lc}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(operation);
  }
  BLAS(cublasLtDestroy(handle));
  return finish();
}
