// links: gpu_blas_lt_calls gpu_blas_products gpu_cuda gpu_settings dl
// cublasLt beside plain loops: orders of memory, operations, batches, a D of its own, pointer modes, every
// epilogue, 8-bit floats with scales, transforms; and what it refuses.
#include <cublasLt.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>

#include "tests/unit/gpu/blas_rig.h"

namespace {

using namespace blas_rig;  // NOLINT

struct Layout {
  Layout(cudaDataType type, int rows, int columns, int leading, int32_t order = CUBLASLT_ORDER_COL) {
    EXPECT_EQ(cublasLtMatrixLayoutInit(&opaque, type, static_cast<uint64_t>(rows),
                                       static_cast<uint64_t>(columns), leading),
              CUBLAS_STATUS_SUCCESS);
    set(CUBLASLT_MATRIX_LAYOUT_ORDER, order);
  }
  template <class T>
  Layout& set(cublasLtMatrixLayoutAttribute_t name, T value) {
    EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(&opaque, name, &value, sizeof value), CUBLAS_STATUS_SUCCESS);
    return *this;
  }
  Layout& batch(int32_t count, int64_t stride) {
    return set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count)
        .set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  cublasLtMatrixLayoutOpaque_t opaque;
};

struct Multiplication {
  explicit Multiplication(cublasComputeType_t compute = CUBLAS_COMPUTE_32F, cudaDataType scale = CUDA_R_32F) {
    EXPECT_EQ(cublasLtMatmulDescCreate(&handle, compute, scale), CUBLAS_STATUS_SUCCESS);
  }
  ~Multiplication() { EXPECT_EQ(cublasLtMatmulDescDestroy(handle), CUBLAS_STATUS_SUCCESS); }
  template <class T>
  Multiplication& set(cublasLtMatmulDescAttributes_t name, T value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(handle, name, &value, sizeof value), CUBLAS_STATUS_SUCCESS)
        << name;
    return *this;
  }
  cublasLtMatmulDesc_t handle = nullptr;
};

class BlasLt : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS); }
  void TearDown() override { EXPECT_EQ(cublasLtDestroy(handle), CUBLAS_STATUS_SUCCESS); }
  cublasStatus_t run(Multiplication& what, const void* alpha, const void* a, Layout& la, const void* b,
                     Layout& lb, const void* beta, const void* c, Layout& lc, void* d, Layout& ld) {
    cublasStatus_t status = cublasLtMatmul(handle, what.handle, alpha, a, &la.opaque, b, &lb.opaque, beta, c,
                                           &lc.opaque, d, &ld.opaque, nullptr, nullptr, 0, nullptr);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    return status;
  }
  cublasLtHandle_t handle = nullptr;
  std::mt19937 random{11};
};

size_t at(int32_t order, int leading, int row, int column) {
  return static_cast<size_t>(order == CUBLASLT_ORDER_ROW ? row * leading + column : column * leading + row);
}

TEST_F(BlasLt, MultipliesInEveryOrderOfMemoryAndOperation) {
  constexpr int m = 5, n = 4, k = 3, leading = 7;
  for (int32_t a_order : {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW})
    for (int32_t b_order : {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW})
      for (int32_t d_order : {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW})
        for (int32_t a_is : {CUBLAS_OP_N, CUBLAS_OP_T})
          for (int32_t b_is : {CUBLAS_OP_N, CUBLAS_OP_T})
            for (bool on_device : {false, true}) {
              std::vector<float> a = numbers<float>(random, 100), b = numbers<float>(random, 100),
                                 c = numbers<float>(random, 100), d(100, 99),
                                 bias = numbers<float>(random, m);
              Memory<float> da(a), db(b), dc(c), dd(d), dbias(bias);
              Scalar<float> alpha(on_device, 2), beta(on_device, -0.5f);
              Layout la(CUDA_R_32F, a_is == CUBLAS_OP_N ? m : k, a_is == CUBLAS_OP_N ? k : m, leading,
                        a_order);
              Layout lb(CUDA_R_32F, b_is == CUBLAS_OP_N ? k : n, b_is == CUBLAS_OP_N ? n : k, leading,
                        b_order);
              Layout lc(CUDA_R_32F, m, n, leading + 1, d_order), ld(CUDA_R_32F, m, n, leading, d_order);
              la.batch(2, 50), lb.batch(2, 50), lc.batch(2, 50), ld.batch(2, 50);
              Multiplication what;
              what.set(CUBLASLT_MATMUL_DESC_TRANSA, a_is).set(CUBLASLT_MATMUL_DESC_TRANSB, b_is);
              what.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
              what.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias.at());
              what.set(CUBLASLT_MATMUL_DESC_POINTER_MODE,
                       on_device ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST);
              ASSERT_EQ(run(what, alpha.at(), da.at(), la, db.at(), lb, beta.at(), dc.at(), lc, dd.at(), ld),
                        CUBLAS_STATUS_SUCCESS);
              std::vector<float> want = d;
              for (int batch = 0; batch < 2; batch++)
                for (int i = 0; i < m; i++)
                  for (int j = 0; j < n; j++) {
                    auto base = static_cast<size_t>(50 * batch);
                    float sum = 0;
                    for (int l = 0; l < k; l++)
                      sum += a[base + (a_is == CUBLAS_OP_N ? at(a_order, leading, i, l)
                                                           : at(a_order, leading, l, i))] *
                             b[base + (b_is == CUBLAS_OP_N ? at(b_order, leading, l, j)
                                                           : at(b_order, leading, j, l))];
                    want[base + at(d_order, leading, i, j)] =
                        2 * sum - 0.5f * c[base + at(d_order, leading + 1, i, j)] +
                        bias[static_cast<size_t>(i)];
                  }
              EXPECT_EQ(dd.values(), want);
            }
}

TEST_F(BlasLt, MultipliesDoublesComplexNumbersAndIntegers) {
  Layout square(CUDA_R_64F, 2, 2, 2), complex(CUDA_C_32F, 1, 1, 1), eight(CUDA_R_8I, 2, 2, 2),
      wide(CUDA_R_32I, 2, 2, 2);
  Memory<double> a({1, 2, 3, 4}), d({0, 0, 0, 0});
  double one = 1, zero = 0;
  Multiplication doubles(CUBLAS_COMPUTE_64F, CUDA_R_64F);
  ASSERT_EQ(run(doubles, &one, a.at(), square, a.at(), square, &zero, d.at(), square, d.at(), square),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(d.values(), (std::vector<double>{7, 10, 15, 22}));
  std::complex<float> i(0, 1), nothing = 0;
  Memory<std::complex<float>> z(i), r(nothing);
  Multiplication conjugated(CUBLAS_COMPUTE_32F, CUDA_C_32F);
  conjugated.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_C);
  ASSERT_EQ(run(conjugated, &i, z.at(), complex, z.at(), complex, &nothing, r.at(), complex, r.at(), complex),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(r.values()[0], i);
  Memory<int8_t> bytes({1, -2, 3, 127});
  Memory<int32_t> sums({0, 0, 0, 5});
  int32_t two = 2, keep = 1;
  Multiplication integers(CUBLAS_COMPUTE_32I, CUDA_R_32I);
  ASSERT_EQ(
      run(integers, &two, bytes.at(), eight, bytes.at(), eight, &keep, sums.at(), wide, sums.at(), wide),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(sums.values(), (std::vector<int32_t>{-10, -512, 2 * 384, 2 * (-6 + 16129) + 5}));
}

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double gelu_slope(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

// One epilogue on an m by n product whose values lie on both sides of zero.
TEST_F(BlasLt, EpiloguesAreThoseOfTheDocumentation) {
  constexpr int m = 9, n = 6, k = 4, aux_elements = 16, aux_bits = 128;
  for (int epilogue :
       {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_BIAS,
        CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_DRELU,
        CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_AUX,
        CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
        CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    SCOPED_TRACE(epilogue);
    std::vector<float> a = numbers<float>(random, m * k), b = numbers<float>(random, k * n),
                       bias = numbers<float>(random, std::max(m, n)),
                       inputs = numbers<float>(random, aux_elements * n), none(m * n);
    std::vector<uint8_t> mask(aux_bits / 8 * n);
    for (uint8_t& byte : mask) byte = static_cast<uint8_t>(random());
    Memory<float> da(a), db(b), dd(none), dbias(bias), daux(inputs);
    Memory<uint8_t> dmask(mask);
    bool bits = epilogue == CUBLASLT_EPILOGUE_RELU_AUX || epilogue == CUBLASLT_EPILOGUE_RELU_AUX_BIAS ||
                epilogue == CUBLASLT_EPILOGUE_DRELU || epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD;
    Layout la(CUDA_R_32F, m, k, m), lb(CUDA_R_32F, k, n, k), ld(CUDA_R_32F, m, n, m);
    Multiplication what;
    what.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue).set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, dbias.at());
    what.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, bits ? static_cast<void*>(dmask.at()) : daux.at());
    what.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{bits ? aux_bits : aux_elements});
    float one = 1, zero = 0;
    ASSERT_EQ(run(what, &one, da.at(), la, db.at(), lb, &zero, dd.at(), ld, dd.at(), ld),
              CUBLAS_STATUS_SUCCESS);

    std::vector<double> new_bias(bias.begin(), bias.end());
    std::vector<double> row_sums(m), sums_of_a(m), sums_of_b(n);
    std::vector<float> found = dd.values(), new_aux = daux.values();
    std::vector<uint8_t> new_mask = dmask.values(), want_mask = mask;
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) {
        double x = 0;
        for (int l = 0; l < k; l++)
          x += static_cast<double>(a[static_cast<size_t>(l * m + i)]) * b[static_cast<size_t>(j * k + l)];
        if (epilogue & 4) x += bias[static_cast<size_t>(i)];
        auto element = static_cast<size_t>(j * aux_elements + i),
             byte = static_cast<size_t>((j * aux_bits + i) / 8);
        auto bit = static_cast<uint8_t>(1 << (i % 8));
        double want = x;
        switch (epilogue) {
          case CUBLASLT_EPILOGUE_RELU_AUX:
          case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
            want_mask[byte] = static_cast<uint8_t>((want_mask[byte] & ~bit) | (x > 0 ? bit : 0));
            [[fallthrough]];
          case CUBLASLT_EPILOGUE_RELU:
          case CUBLASLT_EPILOGUE_RELU_BIAS:
            want = std::max(x, 0.0);
            break;
          case CUBLASLT_EPILOGUE_GELU_AUX:
          case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
            EXPECT_NEAR(new_aux[element], x, 1e-5);
            [[fallthrough]];
          case CUBLASLT_EPILOGUE_GELU:
          case CUBLASLT_EPILOGUE_GELU_BIAS:
            want = gelu(x);
            break;
          case CUBLASLT_EPILOGUE_DRELU:
          case CUBLASLT_EPILOGUE_DRELU_BGRAD:
            want = mask[byte] & bit ? x : 0;
            break;
          case CUBLASLT_EPILOGUE_DGELU:
          case CUBLASLT_EPILOGUE_DGELU_BGRAD:
            want = x * gelu_slope(inputs[element]);
            break;
          default:
            break;
        }
        row_sums[static_cast<size_t>(i)] += want;
        EXPECT_NEAR(found[static_cast<size_t>(j * m + i)], want, 1e-4) << i << ", " << j;
      }
    EXPECT_EQ(new_mask, want_mask);
    for (int l = 0; l < k; l++) {
      for (int i = 0; i < m; i++) sums_of_a[static_cast<size_t>(i)] += a[static_cast<size_t>(l * m + i)];
      for (int j = 0; j < n; j++) sums_of_b[static_cast<size_t>(j)] += b[static_cast<size_t>(j * k + l)];
    }
    if (epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
      new_bias = row_sums;
    if (epilogue == CUBLASLT_EPILOGUE_BGRADA) new_bias = sums_of_a;
    if (epilogue == CUBLASLT_EPILOGUE_BGRADB) std::copy(sums_of_b.begin(), sums_of_b.end(), new_bias.begin());
    std::vector<float> written = dbias.values();
    for (size_t i = 0; i < new_bias.size(); i++) EXPECT_NEAR(written[i], new_bias[i], 1e-3) << i;
  }
}

TEST_F(BlasLt, EightBitFloatsHaveScales) {
  constexpr int m = 16, n = 16, k = 32;
  std::vector<__nv_fp8_e4m3> a, b;
  for (int i = 0; i < m * k; i++) {
    a.emplace_back(static_cast<float>(static_cast<int>(random() % 9) - 4));
    b.emplace_back(static_cast<float>(static_cast<int>(random() % 9) - 4));
  }
  Memory<__nv_fp8_e4m3> da(a), db(b), dd(std::vector<__nv_fp8_e4m3>(m * n));
  Memory<__half> dc(std::vector<__half>(m * n, __half(1.0f)));
  Memory<float> scale_a(2), scale_b(0.5f), scale_d(0.25f), largest(-1);
  Layout la(CUDA_R_8F_E4M3, k, m, k), lb(CUDA_R_8F_E4M3, k, n, k), lc(CUDA_R_16F, m, n, m),
      ld(CUDA_R_8F_E4M3, m, n, m);
  Multiplication what;
  what.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  what.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale_a.at())
      .set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale_b.at());
  what.set(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, scale_d.at())
      .set(CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, largest.at());
  float alpha = 0.5f, beta = 3;
  ASSERT_EQ(run(what, &alpha, da.at(), la, db.at(), lb, &beta, dc.at(), lc, dd.at(), ld),
            CUBLAS_STATUS_SUCCESS);
  std::vector<__nv_fp8_e4m3> found = dd.values();
  float most = 0;
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      float sum = 0;
      for (int l = 0; l < k; l++)
        sum += static_cast<float>(a[static_cast<size_t>(i * k + l)]) *
               static_cast<float>(b[static_cast<size_t>(j * k + l)]);
      float value = 0.5f * 2 * 0.5f * sum + 3;
      most = std::max(most, std::fabs(value));
      EXPECT_EQ(found[static_cast<size_t>(j * m + i)].__x, __nv_fp8_e4m3(value * 0.25f).__x);
    }
  EXPECT_EQ(largest.values()[0], most);
  what.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N);
  Layout turned(CUDA_R_8F_E4M3, m, k, m);
  EXPECT_EQ(run(what, &alpha, da.at(), turned, db.at(), lb, &beta, dc.at(), lc, dd.at(), ld),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(BlasLt, TransformsBetweenOrdersAndTypes) {
  constexpr int rows = 3, columns = 4;
  std::vector<float> a = numbers<float>(random, 40);
  std::vector<__half> b;
  for (float one : numbers<float>(random, 40)) b.emplace_back(one);
  Memory<float> da(a), dc(std::vector<float>(40, 77));
  Memory<__half> db(b);
  Layout la(CUDA_R_32F, columns, rows, 5), lb(CUDA_R_16F, rows, columns, 6, CUBLASLT_ORDER_ROW),
      lc(CUDA_R_32F, rows, columns, 7, CUBLASLT_ORDER_ROW);
  cublasLtMatrixTransformDesc_t what;
  ASSERT_EQ(cublasLtMatrixTransformDescCreate(&what, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  int32_t turned = CUBLAS_OP_T;
  ASSERT_EQ(cublasLtMatrixTransformDescSetAttribute(what, CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSA, &turned,
                                                    sizeof turned),
            CUBLAS_STATUS_SUCCESS);
  float alpha = 2, beta = -1;
  ASSERT_EQ(cublasLtMatrixTransform(handle, what, &alpha, da.at(), &la.opaque, &beta, db.at(), &lb.opaque,
                                    dc.at(), &lc.opaque, nullptr),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  std::vector<float> want(40, 77);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++)
      want[static_cast<size_t>(i * 7 + j)] =
          2 * a[static_cast<size_t>(i * 5 + j)] - static_cast<float>(b[static_cast<size_t>(i * 6 + j)]);
  EXPECT_EQ(dc.values(), want);
  EXPECT_EQ(cublasLtMatrixTransformDescDestroy(what), CUBLAS_STATUS_SUCCESS);
}

TEST_F(BlasLt, UnsupportedAndInvalidProductsAreRefused) {
  Memory<float> memory(std::vector<float>(64));
  float one = 1, zero = 0, *p = memory.at();
  Layout l(CUDA_R_32F, 4, 4, 4);
  auto with = [&](auto change) {
    Multiplication what;
    Layout la = l, lb = l, lc = l, ld = l;
    change(what, la, ld);
    return run(what, &one, p, la, p + 16, lb, &zero, p + 32, lc, p + 32, ld);
  };
  using M = Multiplication&;
  using L = Layout&;
  EXPECT_EQ(with([](M, L, L) {}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(with([](M, L a, L) { a.set(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{3}); }),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](M, L a, L) { a.set(CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t{3}); }),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](M, L a, L) { a.set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 2); }),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](M, L a, L) { a.set(CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL32); }),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(with([](M, L a, L) { a.set(CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_16F); }),
            CUBLAS_STATUS_NOT_SUPPORTED);
  // In place only with one layout.
  EXPECT_EQ(with([](M, L, L d) { d.set(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{5}); }),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](M what, L, L) {
              what.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE_VECTOR);
            }),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(with([](M what, L, L) { what.set(CUBLASLT_MATMUL_DESC_EPILOGUE, 3); }),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(with([](M what, L, L) { what.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS); }),
            CUBLAS_STATUS_INVALID_VALUE);  // no vector
  EXPECT_EQ(with([](M what, L, L) { what.set(CUBLASLT_MATMUL_DESC_FILL_MODE, CUBLAS_FILL_MODE_LOWER); }),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(with([p](M what, L, L) { what.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p); }),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(with([](M what, L, L) { what.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 1); }),
            CUBLAS_STATUS_NOT_SUPPORTED);

  Multiplication what;
  int32_t value = 0;
  size_t written = 0;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(what.handle, CUBLASLT_MATMUL_DESC_TRANSA, &value, 8),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(
      cublasLtMatmulDescGetAttribute(what.handle, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &value, 4, &written),
      CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(value, -1);
  EXPECT_EQ(written, 4u);
  EXPECT_EQ(cublasLtMatmul(nullptr, what.handle, &one, p, &l.opaque, p, &l.opaque, &zero, p, &l.opaque, p,
                           &l.opaque, nullptr, nullptr, 0, nullptr),
            CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_F(BlasLt, HasOneAlgorithm) {
  Multiplication what;
  Layout l(CUDA_R_32F, 4, 4, 4), half(CUDA_R_16F, 4, 4, 4);
  cublasLtMatmulPreference_t preference;
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t found[3];
  int count = -1;
  auto ask = [&](Layout& a) {
    return cublasLtMatmulAlgoGetHeuristic(handle, what.handle, &a.opaque, &l.opaque, &l.opaque, &l.opaque,
                                          preference, 3, found, &count);
  };
  ASSERT_EQ(ask(l), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(found[0].state, CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(found[0].workspaceSize, 0u);
  uint32_t tile = 5;
  EXPECT_EQ(
      cublasLtMatmulAlgoConfigSetAttribute(&found[0].algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile, sizeof tile),
      CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t result;
  EXPECT_EQ(cublasLtMatmulAlgoCheck(handle, what.handle, &l.opaque, &l.opaque, &l.opaque, &l.opaque,
                                    &found[0].algo, &result),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(ask(half), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(count, 0);
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
