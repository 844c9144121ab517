// What cuBLASLt does with each element of a product before it is rounded to D's type. Runs on a stream's
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu_state/software/blas/lt.h"

namespace cropdl::blas::lt {

// Whether there is such an epilogue.
bool is_epilogue(uint32_t epilogue);
bool has_bias(uint32_t epilogue);           // reads the bias vector
bool has_bias_gradient(uint32_t epilogue);  // writes it: of D's rows, A or B
bool has_aux(uint32_t epilogue);
bool has_mask(uint32_t epilogue);  // the aux matrix consists of bits

// The epilogue of one matrix of a batch. In memory of the device: bias, aux; all else is the host's.
struct Epilogue {
  uint32_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  int64_t rows = 0, columns = 0;  // of D
  bool turned = false;            // the product is made as D's transpose: rows are columns
  void* bias = nullptr;           // vector to add or to write
  cudaDataType bias_type = CUDA_R_32F;
  // GELU: a matrix of what goes into it; ReLU: a matrix of bits, the lowest bit of a byte first, set where
  // the input is above zero. NVIDIA does not say which bit is which or what belongs to zero.
  void* aux = nullptr;
  cudaDataType aux_type = CUDA_R_32F;
  int64_t aux_leading = 0;  // elements or bits
  float d_scale = 1;
  float largest = 0;  // of the absolute values before d_scale; not a number if one of them is not
  std::vector<double> sums;

  void check() const;  // throws a CUresult where memory may not be touched
  float one(float value, int64_t row, int64_t column);
  void end();  // after all elements: writes the bias gradient of D's rows
};

}  // namespace cropdl::blas::lt
