// Matrix products by the serial build of Debian's OpenBLAS: one thread, so one order of summation, and the
// same bits in every run on a machine. It is loaded in addition to the program's own BLAS, not instead of it.
// Any thread; products run one at a time.
#pragma once

#include <complex>
#include <cstdint>

namespace cropdl::blas {

enum class Operation { kNone, kTranspose, kConjugate };

// C = alpha op(A) op(B) + beta C, column-major, as in BLAS; if beta is 0, C is not read.
void gemm(Operation a_is, Operation b_is, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm(Operation a_is, Operation b_is, int64_t m, int64_t n, int64_t k, double alpha, const double* a,
          int64_t lda, const double* b, int64_t ldb, double beta, double* c, int64_t ldc);
void gemm(Operation a_is, Operation b_is, int64_t m, int64_t n, int64_t k, std::complex<float> alpha,
          const std::complex<float>* a, int64_t lda, const std::complex<float>* b, int64_t ldb,
          std::complex<float> beta, std::complex<float>* c, int64_t ldc);
void gemm(Operation a_is, Operation b_is, int64_t m, int64_t n, int64_t k, std::complex<double> alpha,
          const std::complex<double>* a, int64_t lda, const std::complex<double>* b, int64_t ldb,
          std::complex<double> beta, std::complex<double>* c, int64_t ldc);

// Whether the library is installed; if not (Debian: libopenblas0-serial), prints a line on stderr.
bool there();

}  // namespace cropdl::blas
