// Matrix products of all types that cuBLAS and cuBLASLt support. OpenBLAS multiplies its own types directly;
// 8- and 16-bit floats are widened to float and the result is rounded once; 8-bit integers are summed in 32
// bits. Runs on a stream's thread.
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
  Matrix a, b, c;     // c: multiplied by beta
  void* d = nullptr;  // the result; often equal to c
  cudaDataType d_type = CUDA_R_32F;
  int64_t d_leading = 0;
  cudaDataType scale_type = CUDA_R_32F;  // type of alpha and beta, and of the computation
};

// Whether the product is supported.
bool is_built(const Product& product);
// The type of alpha and beta for a compute type and a result type; false: not supported.
bool scale_type_of(cublasComputeType_t compute, cudaDataType result, cudaDataType* scale);

// D = alpha op(A) op(B) + beta C. alpha and beta have the scale type and are in host memory. Throws a
// CUresult if memory is inaccessible. `finish`, if given, is called for each element of the result, as float,
// before it is rounded to D's type.
using Finish = float (*)(void* data, float value, int64_t row, int64_t column);
void multiply(const Product& product, const void* alpha, const void* beta, Finish finish = nullptr,
              void* data = nullptr);

// One element of an 8-, 16- or 32-bit type that fits into float (8-bit integers: load only). Rounds to
// nearest; 8-bit floats saturate to the largest number, as in cuBLASLt.
float load(const void* data, cudaDataType type, int64_t i);
void store(void* data, cudaDataType type, int64_t i, float value);

// OpenBLAS uses 32-bit sizes: returns NOT_SUPPORTED, and names the size, if one is larger.
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
