#include "gpu_state/software/blas/lt_epilogue.h"

#include <cmath>

#include "gpu_state/software/blas/handle.h"
#include "gpu_state/software/blas/product.h"

namespace cropdl::blas::lt {
namespace {

// cuBLAS documentation, cublasLtEpilogue_t: GELU in its tanh approximation.
constexpr float kFactor = 0.7978845608028654f, kCubic = 0.044715f;

float gelu(float x) { return 0.5f * x * (1 + std::tanh(kFactor * (x + kCubic * x * x * x))); }

float gelu_slope(float x) {
  float t = std::tanh(kFactor * (x + kCubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kFactor * (1 + 3 * kCubic * x * x);
}

bool gradient_of_rows(uint32_t kind) {
  return kind == CUBLASLT_EPILOGUE_DRELU_BGRAD || kind == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}
bool writes_aux(uint32_t kind) {
  return has_aux(kind) && (kind & (CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU));
}

}  // namespace

bool is_epilogue(uint32_t kind) {
  switch (kind) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_AUX:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DRELU:
    case CUBLASLT_EPILOGUE_DRELU_BGRAD:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      return true;
    default:
      return false;
  }
}
bool has_bias(uint32_t kind) { return kind & CUBLASLT_EPILOGUE_BIAS; }
bool has_bias_gradient(uint32_t kind) {
  return kind & (16 | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
}
bool has_aux(uint32_t kind) { return kind & 128; }
bool has_mask(uint32_t kind) { return has_aux(kind) && (kind & (CUBLASLT_EPILOGUE_RELU | 8)); }

void Epilogue::check() const {
  if (has_bias(kind)) must_be(bias, static_cast<size_t>(rows) * size_of(bias_type), false);
  if (gradient_of_rows(kind)) must_be(bias, static_cast<size_t>(rows) * size_of(bias_type), true);
  if (!has_aux(kind)) return;
  size_t elements = elements_of_matrix(rows, columns, aux_leading);
  must_be(aux,
          has_mask(kind) ? elements / 8 + (elements % 8 != 0) : product_of_sizes(elements, size_of(aux_type)),
          writes_aux(kind));
}

float Epilogue::one(float value, int64_t row, int64_t column) {
  if (turned) std::swap(row, column);
  if (has_bias(kind)) value += load(bias, bias_type, row);
  if (has_aux(kind)) {
    int64_t at = column * aux_leading + row;
    if (has_mask(kind)) {
      auto& byte = static_cast<uint8_t*>(aux)[at / 8];
      auto bit = static_cast<uint8_t>(1u << (at % 8));
      if (!writes_aux(kind))
        value = byte & bit ? value : 0;
      else
        byte = static_cast<uint8_t>(value > 0 ? byte | bit : byte & ~bit);
    } else if (writes_aux(kind)) {
      store(aux, aux_type, at, value);
    } else {
      value *= gelu_slope(load(aux, aux_type, at));
    }
  }
  if (kind & CUBLASLT_EPILOGUE_RELU) value = value > 0 || std::isnan(value) ? value : 0;
  if (kind & CUBLASLT_EPILOGUE_GELU) value = gelu(value);
  if (gradient_of_rows(kind)) {
    if (sums.empty()) sums.resize(static_cast<size_t>(rows));
    sums[static_cast<size_t>(row)] += value;
  }
  if (!(std::fabs(value) <= largest)) largest = std::isnan(largest) ? largest : std::fabs(value);
  return value * d_scale;
}

void Epilogue::end() {
  if (!gradient_of_rows(kind)) return;
  for (int64_t row = 0; row < rows; row++)
    store(bias, bias_type, row, static_cast<float>(sums[static_cast<size_t>(row)]));
}

}  // namespace cropdl::blas::lt
