// cuBLASLt's epilogues: applied to each element of a product before it is rounded to D's type. Run on a
// stream's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu_state/software/blas/lt.h"

namespace cropdl::blas::lt {

// Whether this epilogue is supported.
bool is_epilogue(uint32_t epilogue);
bool has_bias(uint32_t epilogue);           // reads the bias vector
bool has_bias_gradient(uint32_t epilogue);  // writes the bias gradient: of D's rows, of A or of B
bool has_aux(uint32_t epilogue);
bool has_mask(uint32_t epilogue);  // the aux matrix is a bit mask

// The epilogue of one matrix of a batch. bias and aux are in device memory, everything else in host memory.
struct Epilogue {
  uint32_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  int64_t rows = 0, columns = 0;  // of D
  bool turned = false;            // the product is computed as D's transpose: rows are columns
  void* bias = nullptr;           // the bias vector to read or write
  cudaDataType bias_type = CUDA_R_32F;
  // GELU: a matrix of its inputs. ReLU: a bit matrix, lowest bit of a byte first, set if the input is above
  // zero. NVIDIA does not document the order of bits, nor the bit for zero.
  void* aux = nullptr;
  cudaDataType aux_type = CUDA_R_32F;
  int64_t aux_leading = 0;  // in elements or bits
  float d_scale = 1;
  float largest = 0;  // the largest absolute value before d_scale; NaN if any value is NaN
  std::vector<double> sums;

  void check() const;  // throws a CUresult if memory is inaccessible
  float one(float value, int64_t row, int64_t column);
  void end();  // after all elements: writes the bias gradient over D's rows
};

}  // namespace cropdl::blas::lt
