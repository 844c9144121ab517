// cublasLtMatrixTransform: C = alpha op(A) + beta op(B), with conversion of types and memory orders.
#include <array>

#include "gpu_state/software/blas/handle.h"
#include "gpu_state/software/blas/lt.h"
#include "gpu_state/software/blas/product.h"

namespace cropdl::blas::lt {
namespace {

size_t index(const Layout& one, int64_t row, int64_t column, int32_t batch) {
  int64_t within = one.order == CUBLASLT_ORDER_ROW ? row * one.leading + column : column * one.leading + row;
  return static_cast<size_t>(batch) * static_cast<size_t>(one.stride) + static_cast<size_t>(within);
}

cudaDataType type_of(const Layout& one) { return static_cast<cudaDataType>(one.type); }

double value(const void* data, const Layout& one, size_t at) {
  if (one.type == CUDA_R_64F) return static_cast<const double*>(data)[at];
  return load(data, type_of(one), static_cast<int64_t>(at));
}

cublasStatus_t can_be_used(const Layout& one, const Layout& result, bool turned, cudaDataType scale) {
  bool of_type = scale == CUDA_R_64F
                     ? one.type == CUDA_R_64F
                     : one.type == CUDA_R_32F || one.type == CUDA_R_16F || one.type == CUDA_R_16BF;
  if (!of_type) return refuse("a transform of this type");
  if (one.order != CUBLASLT_ORDER_COL && one.order != CUBLASLT_ORDER_ROW)
    return refuse("an order of memory other than COL and ROW");
  if (one.batch_mode != CUBLASLT_BATCH_MODE_STRIDED) return refuse("batches of pointers");
  if (one.plane) return refuse("planar complex matrices");
  if ((turned ? one.columns : one.rows) != result.rows ||
      (turned ? one.rows : one.columns) != result.columns || !one.rows || !one.columns ||
      one.batch != result.batch || one.batch < 1 || one.rows > INT64_MAX || one.columns > INT64_MAX)
    return CUBLAS_STATUS_INVALID_VALUE;
  uint64_t needed = one.order == CUBLASLT_ORDER_ROW ? one.columns : one.rows;
  return one.leading < 0 || static_cast<uint64_t>(one.leading) < needed ? CUBLAS_STATUS_INVALID_VALUE
                                                                        : CUBLAS_STATUS_SUCCESS;
}

void must_be_all(const void* data, const Layout& one, bool writable) {
  int64_t lines = static_cast<int64_t>(one.order == CUBLASLT_ORDER_ROW ? one.rows : one.columns);
  int64_t line = static_cast<int64_t>(one.order == CUBLASLT_ORDER_ROW ? one.columns : one.rows);
  size_t size = size_of(type_of(one));
  for (int32_t i = 0; i < one.batch; i++)
    must_be(of_batch(data, i, one.stride, size),
            product_of_sizes(elements_of_matrix(line, lines, one.leading), size), writable);
}

struct Scale {
  bool on_device = false;
  cudaDataType type = CUDA_R_32F;
  const void* pointer = nullptr;
  double kept = 0;

  double read() const {
    return type == CUDA_R_64F ? *static_cast<const double*>(pointer) : *static_cast<const float*>(pointer);
  }
  double get() const {
    if (!on_device || !pointer) return kept;
    must_be(pointer, size_of(type), false);
    return read();
  }
};

Scale scale_of(const Transform& what, const void* pointer) {
  Scale made{what.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE, static_cast<cudaDataType>(what.scale),
             pointer, 0};
  if (pointer && !made.on_device) made.kept = made.read();
  return made;
}

}  // namespace
}  // namespace cropdl::blas::lt

using namespace cropdl::blas::lt;  // NOLINT

extern "C" cublasStatus_t cublasLtMatrixTransform(cublasLtHandle_t handle,
                                                  cublasLtMatrixTransformDesc_t description,
                                                  const void* alpha, const void* a,
                                                  cublasLtMatrixLayout_t a_layout, const void* beta,
                                                  const void* b, cublasLtMatrixLayout_t b_layout, void* c,
                                                  cublasLtMatrixLayout_t c_layout, cudaStream_t stream) {
  if (cublasStatus_t status = check(handle)) return status;
  auto* what = descriptor<Transform>(description);
  auto *of_a = descriptor<Layout>(a_layout), *of_b = descriptor<Layout>(b_layout),
       *of_c = descriptor<Layout>(c_layout);
  if (!what || !of_a || !of_c || !alpha || !a || !c || (b && (!of_b || !beta)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (what->scale != CUDA_R_32F && what->scale != CUDA_R_64F) return refuse("transforms of this scale type");
  if (what->pointer_mode != CUBLASLT_POINTER_MODE_HOST && what->pointer_mode != CUBLASLT_POINTER_MODE_DEVICE)
    return refuse("vectors of alpha or beta");
  if ((what->a_is != CUBLAS_OP_N && what->a_is != CUBLAS_OP_T && what->a_is != CUBLAS_OP_C) ||
      (what->b_is != CUBLAS_OP_N && what->b_is != CUBLAS_OP_T && what->b_is != CUBLAS_OP_C))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool a_turned = what->a_is != CUBLAS_OP_N, b_turned = what->b_is != CUBLAS_OP_N;
  auto scale = static_cast<cudaDataType>(what->scale);
  if (cublasStatus_t status = can_be_used(*of_c, *of_c, false, scale)) return status;
  if (cublasStatus_t status = can_be_used(*of_a, *of_c, a_turned, scale)) return status;
  if (b)
    if (cublasStatus_t status = can_be_used(*of_b, *of_c, b_turned, scale)) return status;
  Scale x = scale_of(*what, alpha), y = scale_of(*what, b ? beta : nullptr);
  Layout la = *of_a, lb = b ? *of_b : Layout{}, lc = *of_c;
  return cropdl::blas::enqueue_guarded(stream, "cublasLtMatrixTransform", [=] {
    double of_a = x.get(), of_b = y.get();
    bool reads_b = b && of_b != 0;
    must_be_all(a, la, false);
    if (reads_b) must_be_all(b, lb, false);
    must_be_all(c, lc, true);
    for (int32_t i = 0; i < lc.batch; i++)
      for (int64_t column = 0; column < static_cast<int64_t>(lc.columns); column++)
        for (int64_t row = 0; row < static_cast<int64_t>(lc.rows); row++) {
          double sum = of_a * value(a, la, a_turned ? index(la, column, row, i) : index(la, row, column, i));
          if (reads_b)
            sum += of_b * value(b, lb, b_turned ? index(lb, column, row, i) : index(lb, row, column, i));
          size_t at = index(lc, row, column, i);
          if (lc.type == CUDA_R_64F)
            static_cast<double*>(c)[at] = sum;
          else
            cropdl::blas::store(c, type_of(lc), static_cast<int64_t>(at), static_cast<float>(sum));
        }
  });
}
