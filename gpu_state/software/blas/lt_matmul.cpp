// cublasLtMatmul. Source of its constraints: cuBLAS documentation, "cublasLtMatmul()".
#include <array>

#include "gpu_state/software/blas/handle.h"
#include "gpu_state/software/blas/lt.h"
#include "gpu_state/software/blas/lt_epilogue.h"
#include "gpu_state/software/blas/product.h"

namespace cropdl::blas::lt {
namespace {

using Turn = cropdl::blas::Operation;

bool is_row_major(const Layout& layout) { return layout.order == CUBLASLT_ORDER_ROW; }
bool is_eight_bit_float(uint32_t type) { return blas::is_eight_bit_float(static_cast<cudaDataType>(type)); }
cudaDataType type_of(uint32_t type) { return static_cast<cudaDataType>(type); }
bool same(const Layout& a, const Layout& b) {
  return a.rows == b.rows && a.columns == b.columns && a.leading == b.leading && a.stride == b.stride &&
         a.order == b.order && a.batch == b.batch && a.type == b.type;
}

cublasStatus_t can_be_read(const Layout& one) {
  if (!size_of(type_of(one.type))) return refuse("a matrix of this type");
  if (one.order != CUBLASLT_ORDER_COL && one.order != CUBLASLT_ORDER_ROW)
    return refuse("an order of memory other than COL and ROW");
  if (one.batch_mode != CUBLASLT_BATCH_MODE_STRIDED) return refuse("batches of pointers");
  if (one.plane) return refuse("planar complex matrices");
  if (!one.rows || !one.columns || one.batch < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (one.rows > INT32_MAX || one.columns > INT32_MAX || one.leading > INT32_MAX)
    return refuse("a matrix of this size");
  uint64_t needed = is_row_major(one) ? one.columns : one.rows;
  return one.leading < 0 || static_cast<uint64_t>(one.leading) < needed ? CUBLAS_STATUS_INVALID_VALUE
                                                                        : CUBLAS_STATUS_SUCCESS;
}

// The matrix as read in column-major order.
Matrix by_columns(const Layout& one, Turn turn) {
  Matrix made;
  made.type = type_of(one.type);
  made.leading = one.leading;
  made.is = !is_row_major(one) ? turn : turn == Turn::kNone ? Turn::kTranspose : Turn::kNone;
  return made;
}

// Everything except the memory. A row-major D is computed as its transpose, op(B)ᵀ op(A)ᵀ.
Product product_of(const Operation& what, const Layout& a, const Layout& b, const Layout& c,
                   const Layout& d) {
  auto op = [](int32_t is) { return operation_of(static_cast<cublasOperation_t>(is)); };
  Product made;
  made.a = by_columns(a, op(what.a_is));
  made.b = by_columns(b, op(what.b_is));
  made.m = static_cast<int64_t>(d.rows);
  made.n = static_cast<int64_t>(d.columns);
  made.k = static_cast<int64_t>(what.a_is == CUBLAS_OP_N ? a.columns : a.rows);
  if (is_row_major(d)) {
    std::swap(made.a, made.b);
    std::swap(made.m, made.n);
    for (Matrix* one : {&made.a, &made.b}) one->is = one->is == Turn::kNone ? Turn::kTranspose : Turn::kNone;
  }
  made.c = {nullptr, type_of(c.type), c.leading, Turn::kNone};
  made.d_type = type_of(d.type);
  made.d_leading = d.leading;
  made.scale_type = type_of(static_cast<uint32_t>(what.scale));
  return made;
}

cudaDataType bias_type(const Operation& what, const Layout& a, const Layout& c, const Layout& d) {
  if (what.bias_type != -1) return type_of(static_cast<uint32_t>(what.bias_type));
  if (!is_eight_bit_float(a.type)) return type_of(d.type);
  return c.type == CUDA_R_16F ? CUDA_R_16F : CUDA_R_16BF;
}
cudaDataType aux_type(const Operation& what, const Layout& d) {
  return what.aux_type == -1 ? type_of(d.type) : type_of(static_cast<uint32_t>(what.aux_type));
}
bool is_of_float(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

cublasStatus_t can_finish(const Operation& what, const Layout& a, const Layout& b, const Layout& c,
                          const Layout& d) {
  uint32_t kind = what.epilogue;
  if (!is_epilogue(kind)) return refuse("this epilogue");
  if (kind == CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  if (what.scale != CUDA_R_32F && what.scale != CUDA_R_16F)
    return refuse("an epilogue of such a compute type");
  if (has_bias(kind) || has_bias_gradient(kind)) {
    if (!is_of_float(bias_type(what, a, c, d))) return refuse("a bias of this type");
    if (!is_eight_bit_float(a.type) && bias_type(what, a, c, d) != type_of(d.type))
      return refuse("a bias of another type than D");
  }
  if (has_bias_gradient(kind) && is_eight_bit_float(a.type)) return refuse("bias gradients of 8-bit floats");
  if (has_bias_gradient(kind) && d.batch > 1) return refuse("bias gradients of batches");
  if ((kind == CUBLASLT_EPILOGUE_BGRADA && !is_of_float(type_of(a.type))) ||
      (kind == CUBLASLT_EPILOGUE_BGRADB && !is_of_float(type_of(b.type))))
    return refuse("bias gradients of this type");
  if (!has_aux(kind)) return CUBLAS_STATUS_SUCCESS;
  if (is_row_major(d)) return refuse("an auxiliary matrix beside a D by rows");
  int64_t unit = has_mask(kind) ? 128 : 8;
  if (what.aux_leading % unit || what.aux_leading < static_cast<int64_t>(d.rows) || what.aux_stride % unit)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (has_mask(kind)) return CUBLAS_STATUS_SUCCESS;
  cudaDataType type = aux_type(what, d);
  if (!is_of_float(type) || (!is_eight_bit_float(d.type) && type != type_of(d.type)))
    return refuse("an auxiliary matrix of this type");
  return CUBLAS_STATUS_SUCCESS;
}

// 8-bit floats: cuBLAS documentation, table of "cublasLtMatmul()"; A must be transposed, B not, and memory
// aligned to 16 bytes.
cublasStatus_t can_multiply_eight_bits(const Operation& what, const Layout& a, const Layout& b,
                                       const Layout& c, const Layout& d) {
  bool both = is_eight_bit_float(a.type) && is_eight_bit_float(b.type), wide = is_of_float(type_of(d.type));
  bool fits = both && !(a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2) && what.scale == CUDA_R_32F &&
              (wide ? c.type == d.type : c.type == CUDA_R_16F || c.type == CUDA_R_16BF) &&
              !(d.type == CUDA_R_8F_E5M2 && a.type == b.type);
  if (!fits) return refuse("8-bit floats in this combination of types");
  if (what.a_is != CUBLAS_OP_T || what.b_is != CUBLAS_OP_N || is_row_major(a) || is_row_major(b) ||
      is_row_major(d))
    return refuse("8-bit floats but for a transposed A, a B as it is, all by columns");
  for (const Layout* one : {&a, &b, &c, &d})
    if (static_cast<size_t>(one->leading) * size_of(type_of(one->type)) % 16)
      return refuse("8-bit floats with columns not aligned to 16 bytes");
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t can_multiply(const Operation& what, const Layout& a, const Layout& b, const Layout& c,
                            const Layout& d) {
  for (const Layout* one : {&a, &b, &c, &d})
    if (cublasStatus_t status = can_be_read(*one)) return status;
  auto valid = [](int32_t is) { return is_valid(static_cast<cublasOperation_t>(is)); };
  if (!valid(what.a_is) || !valid(what.b_is)) return CUBLAS_STATUS_INVALID_VALUE;
  bool a_turned = what.a_is != CUBLAS_OP_N, b_turned = what.b_is != CUBLAS_OP_N;
  if ((a_turned ? a.columns : a.rows) != d.rows || (b_turned ? b.rows : b.columns) != d.columns ||
      (a_turned ? a.rows : a.columns) != (b_turned ? b.columns : b.rows) || c.rows != d.rows ||
      c.columns != d.columns || a.batch != d.batch || b.batch != d.batch || c.batch != d.batch)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (c.order != d.order) return refuse("C and D of different orders");
  if (what.pointer_mode != CUBLASLT_POINTER_MODE_HOST && what.pointer_mode != CUBLASLT_POINTER_MODE_DEVICE)
    return refuse("vectors of alpha or beta");
  if (what.c_is != CUBLAS_OP_N) return refuse("CUBLASLT_MATMUL_DESC_TRANSC");
  if (what.fill != CUBLAS_FILL_MODE_FULL) return refuse("CUBLASLT_MATMUL_DESC_FILL_MODE");
  if (what.a_scale_mode || what.b_scale_mode || what.c_scale_mode || what.d_scale_mode ||
      what.aux_scale_mode || what.d_out_scale_mode || what.d_out_scale)
    return refuse("scales of blocks and vectors");
  if (what.aux_scale || what.aux_largest) return refuse("scales and maxima of the auxiliary matrix");
  if (what.emulation) return refuse("CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR");
  auto scaled = [](const void* scale, const Layout& one) { return scale && !is_eight_bit_float(one.type); };
  if (scaled(what.a_scale, a) || scaled(what.b_scale, b) || scaled(what.c_scale, c) ||
      scaled(what.d_scale, d) || scaled(what.d_largest, d))
    return CUBLAS_STATUS_INVALID_VALUE;
  bool is_complex = d.type == CUDA_C_32F || d.type == CUDA_C_64F;
  if (is_complex && (is_row_major(a) || is_row_major(b) || is_row_major(d)) &&
      (what.a_is == CUBLAS_OP_C || what.b_is == CUBLAS_OP_C))
    return refuse("conjugates of matrices by rows");
  Product product = product_of(what, a, b, c, d);
  cudaDataType scale;
  if (!scale_type_of(static_cast<cublasComputeType_t>(what.compute), product.d_type, &scale) ||
      scale != product.scale_type || !is_built(product))
    return refuse("a product of these types");
  bool eight_bits = false;
  for (const Layout* one : {&a, &b, &c, &d}) eight_bits |= is_eight_bit_float(one->type);
  if (eight_bits)
    if (cublasStatus_t status = can_multiply_eight_bits(what, a, b, c, d)) return status;
  return can_finish(what, a, b, c, d);
}

namespace {

struct Work {
  Operation what;
  Layout a, b, c, d;
  const void *a_at, *b_at, *c_at;
  void* d_at;
  const void *alpha_at, *beta_at;  // in device pointer mode
  std::array<std::byte, 16> alpha{}, beta{};

  void run();

 private:
  void scale();
  void sum_of_k(const Layout& one, const void* at, bool along_rows) const;
};

float value_at(const float* pointer) {
  if (!pointer) return 1;
  may_read(pointer, 1);
  return *pointer;
}

// The scales of A and B multiply alpha (cuBLAS documentation, "cublasLtMatmul()", 8-bit floats).
void Work::scale() {
  if (!what.a_scale && !what.b_scale) return;
  float scaled;
  std::memcpy(&scaled, alpha.data(), sizeof scaled);
  scaled *= value_at(what.a_scale) * value_at(what.b_scale);
  std::memcpy(alpha.data(), &scaled, sizeof scaled);
}

// BGRADA and BGRADB: sums over k of op(A)'s rows or op(B)'s columns. along_rows: k runs along a row in
// memory, so there is a sum for each row.
void Work::sum_of_k(const Layout& one, const void* at, bool along_rows) const {
  int64_t sums = static_cast<int64_t>(along_rows ? one.rows : one.columns);
  int64_t terms = static_cast<int64_t>(along_rows ? one.columns : one.rows);
  cudaDataType type = type_of(one.type), into = bias_type(what, a, c, d);
  must_be(what.bias, product_of_sizes(static_cast<size_t>(sums), size_of(into)), true);
  for (int64_t i = 0; i < sums; i++) {
    double sum = 0;
    for (int64_t j = 0; j < terms; j++) {
      int64_t row = along_rows ? i : j, column = along_rows ? j : i;
      sum += load(at, type, is_row_major(one) ? row * one.leading + column : column * one.leading + row);
    }
    store(what.bias, into, i, static_cast<float>(sum));
  }
}

void Work::run() {
  size_t size = size_of(type_of(static_cast<uint32_t>(what.scale)));
  if (what.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE) {
    must_be(alpha_at, size, false);
    must_be(beta_at, size, false);
    std::memcpy(alpha.data(), alpha_at, size);
    std::memcpy(beta.data(), beta_at, size);
  }
  scale();
  Epilogue epilogue;
  epilogue.kind = what.epilogue;
  epilogue.rows = static_cast<int64_t>(d.rows);
  epilogue.columns = static_cast<int64_t>(d.columns);
  epilogue.turned = is_row_major(d);
  epilogue.bias_type = bias_type(what, a, c, d);
  epilogue.aux_type = aux_type(what, d);
  epilogue.aux_leading = what.aux_leading;
  epilogue.d_scale = value_at(what.d_scale);
  if (what.d_largest) may_write(what.d_largest, 1);
  bool finished = what.epilogue != CUBLASLT_EPILOGUE_DEFAULT || what.d_scale || what.d_largest;
  for (int32_t i = 0; i < d.batch; i++) {
    Product product = product_of(what, a, b, c, d);
    product.a.data = of_batch(a_at, i, a.stride, size_of(type_of(a.type)));
    product.b.data = of_batch(b_at, i, b.stride, size_of(type_of(b.type)));
    if (epilogue.turned) std::swap(product.a.data, product.b.data);
    product.c.data = of_batch(c_at, i, c.stride, size_of(type_of(c.type)));
    product.d = of_batch(d_at, i, d.stride, size_of(type_of(d.type)));
    epilogue.bias = of_batch(what.bias, i, what.bias_stride, size_of(epilogue.bias_type));
    epilogue.aux = has_mask(what.epilogue)
                       ? of_batch(what.aux, i, what.aux_stride / 8, 1)
                       : of_batch(what.aux, i, what.aux_stride, size_of(epilogue.aux_type));
    epilogue.check();
    multiply(product, alpha.data(), beta.data(),
             finished ? [](void* data, float value, int64_t row,
                           int64_t column) { return static_cast<Epilogue*>(data)->one(value, row, column); }
                      : static_cast<Finish>(nullptr),
             &epilogue);
    epilogue.end();
  }
  if (what.d_largest) *what.d_largest = epilogue.largest;
  if (what.epilogue == CUBLASLT_EPILOGUE_BGRADA) sum_of_k(a, a_at, what.a_is == CUBLAS_OP_N);
  if (what.epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_of_k(b, b_at, what.b_is != CUBLAS_OP_N);
}

bool is_aligned(const void* pointer, size_t to) { return reinterpret_cast<uintptr_t>(pointer) % to == 0; }

}  // namespace
}  // namespace cropdl::blas::lt

using namespace cropdl::blas::lt;  // NOLINT

extern "C" cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                         const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                                         const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                                         const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                                         cublasLtMatrixLayout_t d_layout,
                                         const cublasLtMatmulAlgo_t* algorithm, void* /*workspace*/, size_t,
                                         cudaStream_t stream) {
  if (cublasStatus_t status = check(handle)) return status;
  auto* what = descriptor<cropdl::blas::lt::Operation>(operation);
  auto *of_a = descriptor<Layout>(a_layout), *of_b = descriptor<Layout>(b_layout),
       *of_c = descriptor<Layout>(c_layout), *of_d = descriptor<Layout>(d_layout);
  if (!what || !of_a || !of_b || !of_c || !of_d || !alpha || !beta || !a || !b || !d)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm) {
    auto* how = descriptor<Algorithm>(algorithm);
    if (!how) return CUBLAS_STATUS_INVALID_VALUE;
    if (cublasStatus_t status = can_run(*how)) return status;
  }
  if (cublasStatus_t status = can_multiply(*what, *of_a, *of_b, *of_c, *of_d)) return status;
  Work work{*what, *of_a, *of_b, *of_c, *of_d, a, b, c, d, alpha, beta};
  bool on_device = what->pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  if (!on_device) {
    size_t size = cropdl::blas::size_of(type_of(static_cast<uint32_t>(what->scale)));
    std::memcpy(work.alpha.data(), alpha, size);
    std::memcpy(work.beta.data(), beta, size);
  }
  if (!c && (on_device || work.beta != std::array<std::byte, 16>{})) return CUBLAS_STATUS_INVALID_VALUE;
  if (c == d && !same(*of_c, *of_d)) return CUBLAS_STATUS_INVALID_VALUE;
  if ((has_bias(what->epilogue) || has_bias_gradient(what->epilogue)) && !what->bias)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (has_aux(what->epilogue) && !what->aux) return CUBLAS_STATUS_INVALID_VALUE;
  if (is_eight_bit_float(of_a->type)) {
    for (const void* pointer : {a, b, c, static_cast<const void*>(d)})
      if (!is_aligned(pointer, 16)) return CUBLAS_STATUS_INVALID_VALUE;
  } else {
    // Elements are aligned to their size (complex numbers to the size of a part).
    for (auto [pointer, one] :
         {std::pair{a, of_a}, {b, of_b}, {c, of_c}, {static_cast<const void*>(d), of_d}})
      if (!is_aligned(pointer, std::min<size_t>(8, cropdl::blas::size_of(type_of(one->type)))))
        return CUBLAS_STATUS_INVALID_VALUE;
  }
  return cropdl::blas::enqueue_guarded(stream, "cublasLtMatmul", [work]() mutable {
    Work once = work;  // a graph may run it again
    once.run();
  });
}
