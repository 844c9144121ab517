// Matrix products of every type that cuBLAS and cuBLASLt multiply: what OpenBLAS has is multiplied as it is;
// 8 and 16 bit types are widened to float first and the result is rounded once at the end, integers of 8 bits
// are summed in 32. Runs on a stream's thread.
#pragma once

#include <cublas_v2.h>

#include <cstdint>
#include <initializer_list>

#include "gpu_state/software/blas/openblas.h"

namespace cropdl::blas {

size_t size_of(cudaDataType type);
bool is_eight_bit_float(cudaDataType type);

struct Matrix {
  const void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  int64_t leading = 0;
  Operation is = Operation::kNone;
};

struct Product {
  int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;     // c: what beta multiplies
  void* d = nullptr;  // the result; often c itself
  cudaDataType d_type = CUDA_R_32F;
  int64_t d_leading = 0;
  cudaDataType scale_type = CUDA_R_32F;  // of alpha and beta, and of what is computed
};

// Whether there is such a product.
bool is_built(const Product& product);
// The type of alpha and beta for a compute type and a result; false: not built.
bool scale_type_of(cublasComputeType_t compute, cudaDataType result, cudaDataType* scale);

// D = alpha op(A) op(B) + beta C. alpha and beta are of the scale type, in memory of the host. Throws a
// CUresult where memory may not be touched. `finish`, if given, is called for each element of the result in
// float, before it is rounded to D's type.
using Finish = float (*)(void* data, float value, int64_t row, int64_t column);
void multiply(const Product& product, const void* alpha, const void* beta, Finish finish = nullptr,
              void* data = nullptr);

// One element of a type of 8, 16 or 32 bits that float holds (of 8-bit integers: load only); rounded to
// nearest, 8-bit floats saturate to the largest number, as cuBLASLt's do.
float load(const void* data, cudaDataType type, int64_t i);
void store(void* data, cudaDataType type, int64_t i, float value);

// OpenBLAS counts in 32 bits: NOT_SUPPORTED, which says of what, if one of the sizes needs more.
cublasStatus_t check_sizes(const char* name, std::initializer_list<int64_t> sizes);

Operation operation_of(cublasOperation_t operation);
inline bool is_valid(cublasOperation_t operation) {
  return operation >= CUBLAS_OP_N && operation <= CUBLAS_OP_C;
}
inline bool is_valid(cublasFillMode_t uplo) {
  return uplo == CUBLAS_FILL_MODE_LOWER || uplo == CUBLAS_FILL_MODE_UPPER;
}
inline bool is_valid(cublasSideMode_t side) { return side == CUBLAS_SIDE_LEFT || side == CUBLAS_SIDE_RIGHT; }

}  // namespace cropdl::blas
