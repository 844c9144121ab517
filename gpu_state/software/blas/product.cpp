#include "gpu_state/software/blas/product.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "gpu_state/software/arithmetic/small_floats.h"
#include "gpu_state/software/blas/handle.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::blas {

namespace {

using arithmetic::Brain;
using arithmetic::Float8E4M3;
using arithmetic::Float8E5M2;
using arithmetic::Half;

bool is_float(cudaDataType type) { return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF; }

// Rows and columns in memory, before the operation.
struct Shape {
  int64_t rows, columns;
};
Shape shape(const Matrix& matrix, int64_t rows, int64_t columns) {
  return matrix.is == Operation::kNone ? Shape{rows, columns} : Shape{columns, rows};
}

void check(const Matrix& matrix, Shape shape) {
  must_be(
      matrix.data,
      product_of_sizes(elements_of_matrix(shape.rows, shape.columns, matrix.leading), size_of(matrix.type)),
      false);
}

std::vector<float> widened(const Matrix& matrix, Shape shape) {
  std::vector<float> values(static_cast<size_t>(shape.rows * shape.columns));
  for (int64_t column = 0; column < shape.columns; column++)
    for (int64_t row = 0; row < shape.rows; row++)
      values[static_cast<size_t>(column * shape.rows + row)] =
          load(matrix.data, matrix.type, column * matrix.leading + row);
  return values;
}

template <class T>
void multiply_as(const Product& p, const void* alpha, const void* beta) {
  T a, b;
  std::memcpy(&a, alpha, sizeof a);
  std::memcpy(&b, beta, sizeof b);
  T* d = static_cast<T*>(p.d);
  if (p.c.data != p.d && b != T{})
    for (int64_t column = 0; column < p.n; column++)
      std::memcpy(d + column * p.d_leading, static_cast<const T*>(p.c.data) + column * p.c.leading,
                  static_cast<size_t>(p.m) * sizeof(T));
  if (p.k == 0) {  // without products OpenBLAS returns at once, but the result is beta C
    for (int64_t column = 0; column < p.n; column++)
      for (int64_t row = 0; row < p.m; row++)
        d[column * p.d_leading + row] = b == T{} ? T{} : b * d[column * p.d_leading + row];
    return;
  }
  gemm(p.a.is, p.b.is, p.m, p.n, p.k, a, static_cast<const T*>(p.a.data), p.a.leading,
       static_cast<const T*>(p.b.data), p.b.leading, b, d, p.d_leading);
}

void multiply_integers(const Product& p, const void* alpha, const void* beta) {
  int32_t a, b;
  std::memcpy(&a, alpha, sizeof a);
  std::memcpy(&b, beta, sizeof b);
  auto left = static_cast<const int8_t*>(p.a.data), right = static_cast<const int8_t*>(p.b.data);
  auto c = static_cast<const int32_t*>(p.c.data);
  auto d = static_cast<int32_t*>(p.d);
  for (int64_t column = 0; column < p.n; column++)
    for (int64_t row = 0; row < p.m; row++) {
      uint32_t sum = 0;
      for (int64_t i = 0; i < p.k; i++) {
        int32_t x = left[p.a.is == Operation::kNone ? i * p.a.leading + row : row * p.a.leading + i];
        int32_t y = right[p.b.is == Operation::kNone ? column * p.b.leading + i : i * p.b.leading + column];
        sum += static_cast<uint32_t>(x * y);
      }
      uint32_t value = static_cast<uint32_t>(a) * sum;
      if (b) value += static_cast<uint32_t>(b) * static_cast<uint32_t>(c[column * p.c.leading + row]);
      d[column * p.d_leading + row] = static_cast<int32_t>(value);
    }
}

void multiply_widened(const Product& p, const void* alpha, const void* beta, Finish finish, void* data) {
  float a, b;
  if (p.scale_type == CUDA_R_16F) {
    a = load(alpha, CUDA_R_16F, 0);
    b = load(beta, CUDA_R_16F, 0);
  } else {
    std::memcpy(&a, alpha, sizeof a);
    std::memcpy(&b, beta, sizeof b);
  }
  Shape of_a = shape(p.a, p.m, p.k), of_b = shape(p.b, p.k, p.n);
  std::vector<float> left = widened(p.a, of_a), right = widened(p.b, of_b),
                     sum(static_cast<size_t>(p.m * p.n));
  if (p.k > 0 && p.m > 0 && p.n > 0)
    gemm(p.a.is, p.b.is, p.m, p.n, p.k, 1.0f, left.data(), of_a.rows, right.data(), of_b.rows, 0.0f,
         sum.data(), p.m);
  for (int64_t column = 0; column < p.n; column++)
    for (int64_t row = 0; row < p.m; row++) {
      float value = a * sum[static_cast<size_t>(column * p.m + row)];
      if (b != 0) value += b * load(p.c.data, p.c.type, column * p.c.leading + row);
      if (finish) value = finish(data, value, row, column);
      store(p.d, p.d_type, column * p.d_leading + row, value);
    }
}

}  // namespace

float load(const void* data, cudaDataType type, int64_t i) {
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_16F:
      return static_cast<float>(Half::decode(static_cast<const uint16_t*>(data)[i]));
    case CUDA_R_16BF:
      return static_cast<float>(Brain::decode(static_cast<const uint16_t*>(data)[i]));
    case CUDA_R_8F_E4M3:
      return static_cast<float>(Float8E4M3::decode(static_cast<const uint8_t*>(data)[i]));
    case CUDA_R_8F_E5M2:
      return static_cast<float>(Float8E5M2::decode(static_cast<const uint8_t*>(data)[i]));
    case CUDA_R_8I:
      return static_cast<const int8_t*>(data)[i];
    default:
      return NAN;
  }
}

void store(void* data, cudaDataType type, int64_t i, float value) {
  switch (type) {
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = value;
      return;
    case CUDA_R_16F:
      static_cast<uint16_t*>(data)[i] = Half::encode(value);
      return;
    case CUDA_R_16BF:
      static_cast<uint16_t*>(data)[i] = Brain::encode(value);
      return;
    case CUDA_R_8F_E4M3:
      static_cast<uint8_t*>(data)[i] =
          Float8E4M3::encode(std::isnan(value) ? value : std::fmin(std::fmax(value, -448.0f), 448.0f));
      return;
    case CUDA_R_8F_E5M2:
      static_cast<uint8_t*>(data)[i] =
          Float8E5M2::encode(std::isnan(value) ? value : std::fmin(std::fmax(value, -57344.0f), 57344.0f));
      return;
    default:
      return;
  }
}

bool is_eight_bit_float(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

size_t size_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_32F:
    case CUDA_R_32I:
      return 4;
    case CUDA_R_64F:
    case CUDA_C_32F:
      return 8;
    case CUDA_C_64F:
      return 16;
    default:
      return 0;
  }
}

cublasStatus_t check_sizes(const char* name, std::initializer_list<int64_t> sizes) {
  if (std::max(sizes) <= INT32_MAX) return CUBLAS_STATUS_SUCCESS;
  settings::say_not_built(std::string(name) + " of more than 2^31 - 1 rows or columns");
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

Operation operation_of(cublasOperation_t operation) {
  return operation == CUBLAS_OP_N   ? Operation::kNone
         : operation == CUBLAS_OP_T ? Operation::kTranspose
                                    : Operation::kConjugate;
}

bool scale_type_of(cublasComputeType_t compute, cudaDataType result, cudaDataType* scale) {
  bool complex = result == CUDA_C_32F || result == CUDA_C_64F;
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      *scale = CUDA_R_16F;
      return result == CUDA_R_16F;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      *scale = complex ? CUDA_C_32F : CUDA_R_32F;
      return true;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      *scale = complex ? CUDA_C_64F : CUDA_R_64F;
      return true;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      *scale = CUDA_R_32I;
      return result == CUDA_R_32I;
    default:
      return false;
  }
}

bool is_built(const Product& p) {
  auto all = [&](cudaDataType type) {
    return p.a.type == type && p.b.type == type && p.c.type == type && p.d_type == type;
  };
  switch (p.scale_type) {
    case CUDA_R_64F:
      return all(CUDA_R_64F);
    case CUDA_C_32F:
      return all(CUDA_C_32F);
    case CUDA_C_64F:
      return all(CUDA_C_64F);
    case CUDA_R_32I:
      return p.a.type == CUDA_R_8I && p.b.type == CUDA_R_8I && p.c.type == CUDA_R_32I &&
             p.d_type == CUDA_R_32I;
    case CUDA_R_16F:
      return all(CUDA_R_16F);
    // cuBLAS documentation, the tables of "cublasGemmEx()" and "cublasLtMatmul()".
    case CUDA_R_32F:
      if (is_eight_bit_float(p.a.type) || is_eight_bit_float(p.b.type))
        return is_eight_bit_float(p.a.type) && is_eight_bit_float(p.b.type) && is_float(p.c.type) &&
               (is_float(p.d_type) || is_eight_bit_float(p.d_type));
      return p.a.type == p.b.type && p.c.type == p.d_type && (is_float(p.a.type) || p.a.type == CUDA_R_8I) &&
             (p.d_type == CUDA_R_32F || (p.d_type == p.a.type && is_float(p.d_type)));
    default:
      return false;
  }
}

void multiply(const Product& p, const void* alpha, const void* beta, Finish finish, void* data) {
  static constexpr std::byte kZero[16] = {};
  bool reads_c = std::memcmp(beta, kZero, size_of(p.scale_type)) != 0;
  bool plain = p.scale_type == CUDA_R_32F && p.a.type == CUDA_R_32F && p.b.type == CUDA_R_32F &&
               p.d_type == CUDA_R_32F && p.c.type == CUDA_R_32F;
  if (p.m <= 0 || p.n <= 0) return;
  check(p.a, shape(p.a, p.m, p.k));
  check(p.b, shape(p.b, p.k, p.n));
  if (reads_c) check(p.c, {p.m, p.n});
  must_be(p.d, product_of_sizes(elements_of_matrix(p.m, p.n, p.d_leading), size_of(p.d_type)), true);
  switch (p.scale_type) {
    case CUDA_R_64F:
      return multiply_as<double>(p, alpha, beta);
    case CUDA_C_32F:
      return multiply_as<std::complex<float>>(p, alpha, beta);
    case CUDA_C_64F:
      return multiply_as<std::complex<double>>(p, alpha, beta);
    case CUDA_R_32I:
      return multiply_integers(p, alpha, beta);
    default:
      break;
  }
  if (plain && !finish) return multiply_as<float>(p, alpha, beta);
  multiply_widened(p, alpha, beta, finish, data);
}

}  // namespace cropdl::blas
