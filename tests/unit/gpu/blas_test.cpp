// links: gpu_blas_calls gpu_blas_products gpu_cuda gpu_settings dl
// cuBLAS beside plain loops over double complex numbers: each function for each type, with 32 and 64 bit
// integers, with scalars on the host and on the device, every operation, half and side, steps and leading
// dimensions above the least. What lies between the elements must stay as it was.
#include "tests/unit/gpu/blas_rig.h"

namespace {

using namespace blas_rig;  // NOLINT
using Wide = std::complex<double>;

template <class T>
struct Native {
  using type = T;
};
template <>
struct Native<std::complex<float>> {
  using type = cuComplex;
};
template <>
struct Native<std::complex<double>> {
  using type = cuDoubleComplex;
};
template <class T>
auto raw(T* pointer) {
  return reinterpret_cast<typename Native<T>::type*>(pointer);
}
template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};

template <class T, class I>
struct Calls;
#define CALLS(T_, I_, X, P, Q, SUFFIX)                                        \
  using T = T_;                                                               \
  using I = I_;                                                               \
  static constexpr auto axpy = cublas##X##axpy_v2##SUFFIX;                    \
  static constexpr auto scal = cublas##X##scal_v2##SUFFIX;                    \
  static constexpr auto copy = cublas##X##copy_v2##SUFFIX;                    \
  static constexpr auto swap = cublas##X##swap_v2##SUFFIX;                    \
  static constexpr auto nrm2 = cublas##P##nrm2_v2##SUFFIX;                    \
  static constexpr auto asum = cublas##P##asum_v2##SUFFIX;                    \
  static constexpr auto amax = cublasI##Q##amax_v2##SUFFIX;                   \
  static constexpr auto amin = cublasI##Q##amin_v2##SUFFIX;                   \
  static constexpr auto rot = cublas##X##rot_v2##SUFFIX;                      \
  static constexpr auto gemv = cublas##X##gemv_v2##SUFFIX;                    \
  static constexpr auto symv = cublas##X##symv_v2##SUFFIX;                    \
  static constexpr auto trmv = cublas##X##trmv_v2##SUFFIX;                    \
  static constexpr auto trsv = cublas##X##trsv_v2##SUFFIX;                    \
  static constexpr auto syr = cublas##X##syr_v2##SUFFIX;                      \
  static constexpr auto gemm = cublas##X##gemm_v2##SUFFIX;                    \
  static constexpr auto gemm_batched = cublas##X##gemmBatched##SUFFIX;        \
  static constexpr auto gemm_strided = cublas##X##gemmStridedBatched##SUFFIX; \
  static constexpr auto symm = cublas##X##symm_v2##SUFFIX;                    \
  static constexpr auto syrk = cublas##X##syrk_v2##SUFFIX;                    \
  static constexpr auto syr2k = cublas##X##syr2k_v2##SUFFIX;                  \
  static constexpr auto trmm = cublas##X##trmm_v2##SUFFIX;                    \
  static constexpr auto trsm = cublas##X##trsm_v2##SUFFIX;                    \
  static constexpr auto trsm_batched = cublas##X##trsmBatched##SUFFIX;        \
  static constexpr auto geam = cublas##X##geam##SUFFIX;                       \
  static constexpr auto dgmm = cublas##X##dgmm##SUFFIX;
#define REAL_CALLS(T_, I_, X, Q, SUFFIX)                    \
  template <>                                               \
  struct Calls<T_, I_> {                                    \
    CALLS(T_, I_, X, X, Q, SUFFIX)                          \
    static constexpr auto dot = cublas##X##dot_v2##SUFFIX;  \
    static constexpr auto dotc = cublas##X##dot_v2##SUFFIX; \
    static constexpr auto geru = cublas##X##ger_v2##SUFFIX; \
    static constexpr auto gerc = cublas##X##ger_v2##SUFFIX; \
  };
#define COMPLEX_CALLS(T_, I_, X, P, Q, RX, SUFFIX)                    \
  template <>                                                         \
  struct Calls<T_, I_> {                                              \
    CALLS(T_, I_, X, P, Q, SUFFIX)                                    \
    static constexpr auto dot = cublas##X##dotu_v2##SUFFIX;           \
    static constexpr auto dotc = cublas##X##dotc_v2##SUFFIX;          \
    static constexpr auto geru = cublas##X##geru_v2##SUFFIX;          \
    static constexpr auto gerc = cublas##X##gerc_v2##SUFFIX;          \
    static constexpr auto scal_real = cublas##X##RX##scal_v2##SUFFIX; \
    static constexpr auto rot_real = cublas##X##RX##rot_v2##SUFFIX;   \
    static constexpr auto hemv = cublas##X##hemv_v2##SUFFIX;          \
    static constexpr auto her = cublas##X##her_v2##SUFFIX;            \
    static constexpr auto hemm = cublas##X##hemm_v2##SUFFIX;          \
    static constexpr auto herk = cublas##X##herk_v2##SUFFIX;          \
    static constexpr auto her2k = cublas##X##her2k_v2##SUFFIX;        \
  };
REAL_CALLS(float, int, S, s, )
REAL_CALLS(float, int64_t, S, s, _64)
REAL_CALLS(double, int, D, d, )
REAL_CALLS(double, int64_t, D, d, _64)
COMPLEX_CALLS(std::complex<float>, int, C, Sc, c, s, )
COMPLEX_CALLS(std::complex<float>, int64_t, C, Sc, c, s, _64)
COMPLEX_CALLS(std::complex<double>, int, Z, Dz, z, d, )
COMPLEX_CALLS(std::complex<double>, int64_t, Z, Dz, z, d, _64)

template <class T>
void expect_near(T found, Wide wanted, const char* what, int64_t at) {
  double allowed = (sizeof(typename RealOf<T>::type) == 4 ? 2e-4 : 1e-11) * (1 + std::abs(wanted));
  EXPECT_LE(std::abs(Wide(found) - wanted), allowed)
      << what << " at " << at << ": " << Wide(found) << " not " << wanted;
}
template <class T>
void expect_near(const std::vector<T>& found, const std::vector<Wide>& wanted, const char* what) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); i++) expect_near(found[i], wanted[i], what, static_cast<int64_t>(i));
}
template <class T>
std::vector<Wide> wide(const std::vector<T>& values) {
  return std::vector<Wide>(values.begin(), values.end());
}

constexpr cublasOperation_t kOperations[] = {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C};
constexpr cublasFillMode_t kHalves[] = {CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER};
constexpr cublasSideMode_t kSides[] = {CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT};
constexpr cublasDiagType_t kDiagonals[] = {CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT};
bool is_stored(cublasFillMode_t half, int64_t row, int64_t column) {
  return half == CUBLAS_FILL_MODE_LOWER ? row >= column : row <= column;
}

// Matrices by columns and vectors, in wide numbers. Vectors: element i of n with a step.
size_t at(int64_t n, int64_t step, int64_t i) {
  return static_cast<size_t>(step > 0 ? i * step : (i - n + 1) * step);
}
Wide of(const std::vector<Wide>& a, int64_t leading, cublasOperation_t is, int64_t row, int64_t column) {
  Wide value = a[static_cast<size_t>(is == CUBLAS_OP_N ? column * leading + row : row * leading + column)];
  return is == CUBLAS_OP_C ? std::conj(value) : value;
}
std::vector<Wide> product(cublasOperation_t a_is, cublasOperation_t b_is, int64_t m, int64_t n, int64_t k,
                          Wide alpha, const std::vector<Wide>& a, int64_t lda, const std::vector<Wide>& b,
                          int64_t ldb, Wide beta, std::vector<Wide> c, int64_t ldc) {
  for (int64_t column = 0; column < n; column++)
    for (int64_t row = 0; row < m; row++) {
      Wide sum = 0;
      for (int64_t i = 0; i < k; i++) sum += of(a, lda, a_is, row, i) * of(b, ldb, b_is, i, column);
      Wide& result = c[static_cast<size_t>(column * ldc + row)];
      result = alpha * sum + beta * result;
    }
  return c;
}
// The whole of a symmetric (or Hermitian) or triangular matrix, of which a half is stored.
std::vector<Wide> whole(const std::vector<Wide>& a, int64_t n, int64_t lda, cublasFillMode_t half,
                        bool hermitian) {
  std::vector<Wide> made(static_cast<size_t>(n * n));
  for (int64_t column = 0; column < n; column++)
    for (int64_t row = 0; row < n; row++) {
      Wide value = is_stored(half, row, column) ? a[static_cast<size_t>(column * lda + row)]
                                                : a[static_cast<size_t>(row * lda + column)];
      if (hermitian && !is_stored(half, row, column)) value = std::conj(value);
      if (hermitian && row == column) value = value.real();
      made[static_cast<size_t>(column * n + row)] = value;
    }
  return made;
}
std::vector<Wide> triangle(const std::vector<Wide>& a, int64_t n, int64_t lda, cublasFillMode_t half,
                           cublasDiagType_t diagonal) {
  std::vector<Wide> made(static_cast<size_t>(n * n));
  for (int64_t column = 0; column < n; column++)
    for (int64_t row = 0; row < n; row++)
      if (is_stored(half, row, column))
        made[static_cast<size_t>(column * n + row)] = row == column && diagonal == CUBLAS_DIAG_UNIT
                                                          ? Wide(1)
                                                          : a[static_cast<size_t>(column * lda + row)];
  return made;
}

template <class C>
class Blas : public testing::Test {
 protected:
  using T = typename C::T;
  using I = typename C::I;
  using R = typename RealOf<T>::type;
  void SetUp() override {
    ASSERT_EQ(cublasCreate(&handle), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(cublasSetStream(handle, stream), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cublasDestroy(handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  }
  // In both pointer modes.
  template <class F>
  void in_both_modes(F test) {
    for (bool on_device : {false, true}) {
      SCOPED_TRACE(on_device ? "scalars on the device" : "scalars on the host");
      ASSERT_EQ(
          cublasSetPointerMode(handle, on_device ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST),
          CUBLAS_STATUS_SUCCESS);
      test(on_device);
    }
  }
  void done(cublasStatus_t status) {
    EXPECT_EQ(status, CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  }
  std::vector<T> some(int64_t count) { return numbers<T>(random, count); }
  T one() { return number<T>(random); }
  cublasHandle_t handle = nullptr;
  CUstream stream = nullptr;
  std::mt19937 random{7};
};

using Kinds =
    testing::Types<Calls<float, int>, Calls<float, int64_t>, Calls<double, int>, Calls<double, int64_t>,
                   Calls<std::complex<float>, int>, Calls<std::complex<float>, int64_t>,
                   Calls<std::complex<double>, int>, Calls<std::complex<double>, int64_t>>;
TYPED_TEST_SUITE(Blas, Kinds);
template <class T>
constexpr bool kIsComplex = !std::is_floating_point_v<T>;

#define OF_TYPE                             \
  using C = TypeParam;                      \
  using T [[maybe_unused]] = typename C::T; \
  using I [[maybe_unused]] = typename C::I; \
  using R [[maybe_unused]] = typename RealOf<T>::type

TYPED_TEST(Blas, Vectors) {
  OF_TYPE;
  constexpr I n = 11;
  for (I incx : {1, 3, -2})
    for (I incy : {1, 2, -3}) {
      this->in_both_modes([&](bool on_device) {
        std::vector<T> x = this->some(40), y = this->some(40);
        std::vector<Wide> wx = wide(x), wy = wide(y), want_x = wx, want_y = wy;
        Scalar<T> alpha(on_device, this->one()), result(on_device, T{});
        Memory<T> dx(x), dy(y);
        this->done(C::axpy(this->handle, n, raw(alpha.at()), raw(dx.at()), incx, raw(dy.at()), incy));
        for (I i = 0; i < n; i++) want_y[at(n, incy, i)] += Wide(alpha.value()) * wx[at(n, incx, i)];
        expect_near(dy.values(), want_y, "axpy");

        Memory<T> copied(y);
        want_y = wy;
        this->done(C::copy(this->handle, n, raw(dx.at()), incx, raw(copied.at()), incy));
        for (I i = 0; i < n; i++) want_y[at(n, incy, i)] = wx[at(n, incx, i)];
        expect_near(copied.values(), want_y, "copy");

        Memory<T> left(x), right(y);
        want_x = wx, want_y = wy;
        this->done(C::swap(this->handle, n, raw(left.at()), incx, raw(right.at()), incy));
        for (I i = 0; i < n; i++) std::swap(want_x[at(n, incx, i)], want_y[at(n, incy, i)]);
        expect_near(left.values(), want_x, "swap");
        expect_near(right.values(), want_y, "swap");

        Memory<T> other(y);
        Wide sum = 0, conjugated = 0;
        for (I i = 0; i < n; i++) {
          sum += wx[at(n, incx, i)] * wy[at(n, incy, i)];
          conjugated += std::conj(wx[at(n, incx, i)]) * wy[at(n, incy, i)];
        }
        this->done(C::dot(this->handle, n, raw(dx.at()), incx, raw(other.at()), incy, raw(result.at())));
        expect_near(result.value(), sum, "dot", 0);
        this->done(C::dotc(this->handle, n, raw(dx.at()), incx, raw(other.at()), incy, raw(result.at())));
        expect_near(result.value(), conjugated, "dotc", 0);

        Scalar<R> cosine(on_device, static_cast<R>(0.6));
        Memory<T> p(x), q(y);
        want_x = wx, want_y = wy;
        Wide c = cosine.value(), s = alpha.value();
        this->done(
            C::rot(this->handle, n, raw(p.at()), incx, raw(q.at()), incy, cosine.at(), raw(alpha.at())));
        for (I i = 0; i < n; i++) {
          Wide a = wx[at(n, incx, i)], b = wy[at(n, incy, i)];
          want_x[at(n, incx, i)] = c * a + s * b;
          want_y[at(n, incy, i)] = c * b - std::conj(s) * a;
        }
        expect_near(p.values(), want_x, "rot");
        expect_near(q.values(), want_y, "rot");
      });
    }
}

TYPED_TEST(Blas, ReductionsOfOneVector) {
  OF_TYPE;
  constexpr I n = 13;
  for (I incx : {1, 4})
    this->in_both_modes([&](bool on_device) {
      std::vector<T> x = this->some(60);
      x[static_cast<size_t>(5 * incx)] = x[static_cast<size_t>(9 * incx)] =
          static_cast<T>(-7);  // the first counts
      x[static_cast<size_t>(3 * incx)] = x[static_cast<size_t>(4 * incx)] = T{};
      Memory<T> dx(x);
      double norm = 0, sum = 0, smallest = 1e9, largest = -1;
      I least = 0, most = 0;
      for (I i = 0; i < n; i++) {
        Wide value = x[static_cast<size_t>(i * incx)];
        double size = std::abs(value.real()) + std::abs(value.imag());
        norm += std::norm(value);
        sum += size;
        if (size < smallest) smallest = size, least = i + 1;
        if (size > largest) largest = size, most = i + 1;
      }
      Scalar<R> real(on_device, 0);
      Scalar<I> index(on_device, -1);
      this->done(C::nrm2(this->handle, n, raw(dx.at()), incx, real.at()));
      expect_near(real.value(), std::sqrt(norm), "nrm2", 0);
      this->done(C::asum(this->handle, n, raw(dx.at()), incx, real.at()));
      expect_near(real.value(), sum, "asum", 0);
      this->done(C::amax(this->handle, n, raw(dx.at()), incx, index.at()));
      EXPECT_EQ(index.value(), most);
      this->done(C::amin(this->handle, n, raw(dx.at()), incx, index.at()));
      EXPECT_EQ(index.value(), least);
      this->done(C::amin(this->handle, 0, raw(dx.at()), incx, index.at()));
      EXPECT_EQ(index.value(), 0);
      // A norm whose squares do not fit the type.
      std::vector<T> huge(2, static_cast<T>(std::numeric_limits<R>::max() / 4));
      Memory<T> dh(huge);
      this->done(C::nrm2(this->handle, 2, raw(dh.at()), 1, real.at()));
      EXPECT_NEAR(real.value() / (std::numeric_limits<R>::max() / 4), std::sqrt(2.0), 1e-6);

      Scalar<T> alpha(on_device, this->one());
      std::vector<Wide> want = wide(x);
      this->done(C::scal(this->handle, n, raw(alpha.at()), raw(dx.at()), incx));
      for (I i = 0; i < n; i++) want[static_cast<size_t>(i * incx)] *= Wide(alpha.value());
      expect_near(dx.values(), want, "scal");
      if constexpr (kIsComplex<T>) {
        Scalar<R> factor(on_device, 3);
        this->done(C::scal_real(this->handle, n, factor.at(), raw(dx.at()), incx));
        for (I i = 0; i < n; i++) want[static_cast<size_t>(i * incx)] *= 3;
        expect_near(dx.values(), want, "scal by a real");
        Memory<T> p(x), q(x);
        this->done(
            C::rot_real(this->handle, n, raw(p.at()), incx, raw(q.at()), incx, factor.at(), factor.at()));
        std::vector<Wide> sums = wide(x), differences = wide(x);
        for (I i = 0; i < n; i++)
          sums[static_cast<size_t>(i * incx)] *= 6, differences[static_cast<size_t>(i * incx)] = 0;
        expect_near(p.values(), sums, "rot by reals");
        expect_near(q.values(), differences, "rot by reals");
      }
    });
}

TYPED_TEST(Blas, MatrixTimesVector) {
  OF_TYPE;
  constexpr I m = 7, n = 5, lda = 9, incx = 2, incy = -3;
  for (cublasOperation_t is : kOperations)
    this->in_both_modes([&](bool on_device) {
      std::vector<T> a = this->some(lda * n), x = this->some(30), y = this->some(30);
      Memory<T> da(a), dx(x), dy(y);
      Scalar<T> alpha(on_device, this->one()), beta(on_device, this->one());
      I rows = is == CUBLAS_OP_N ? m : n, columns = is == CUBLAS_OP_N ? n : m;
      std::vector<Wide> want = wide(y), wa = wide(a), wx = wide(x);
      for (I i = 0; i < rows; i++) {
        Wide sum = 0;
        for (I j = 0; j < columns; j++) sum += of(wa, lda, is, i, j) * wx[at(columns, incx, j)];
        Wide& result = want[at(rows, incy, i)];
        result = Wide(alpha.value()) * sum + Wide(beta.value()) * result;
      }
      this->done(C::gemv(this->handle, is, m, n, raw(alpha.at()), raw(da.at()), lda, raw(dx.at()), incx,
                         raw(beta.at()), raw(dy.at()), incy));
      expect_near(dy.values(), want, "gemv");
    });
  for (bool conjugated : {false, true})
    this->in_both_modes([&](bool on_device) {
      std::vector<T> a = this->some(lda * n), x = this->some(30), y = this->some(30);
      Memory<T> da(a), dx(x), dy(y);
      Scalar<T> alpha(on_device, this->one());
      std::vector<Wide> want = wide(a), wx = wide(x), wy = wide(y);
      for (I j = 0; j < n; j++)
        for (I i = 0; i < m; i++) {
          Wide right = wy[at(n, incy, j)];
          want[static_cast<size_t>(j * lda + i)] +=
              Wide(alpha.value()) * wx[at(m, incx, i)] * (conjugated ? std::conj(right) : right);
        }
      this->done((conjugated ? C::gerc : C::geru)(this->handle, m, n, raw(alpha.at()), raw(dx.at()), incx,
                                                  raw(dy.at()), incy, raw(da.at()), lda));
      expect_near(da.values(), want, "ger");
    });
}

TYPED_TEST(Blas, SymmetricMatrixAndVector) {
  OF_TYPE;
  constexpr I n = 6, lda = 8, incx = -2, incy = 3;
  for (cublasFillMode_t half : kHalves)
    for (bool hermitian : {false, true}) {
      if (hermitian && !kIsComplex<T>) continue;
      this->in_both_modes([&](bool on_device) {
        std::vector<T> a = this->some(lda * n), x = this->some(30), y = this->some(30);
        Memory<T> da(a), dx(x), dy(y);
        Scalar<T> alpha(on_device, this->one()), beta(on_device, this->one());
        Scalar<R> real(on_device, 3);
        std::vector<Wide> full = whole(wide(a), n, lda, half, hermitian), wx = wide(x), want = wide(y),
                          sum = wide(a);
        for (I i = 0; i < n; i++) {
          Wide total = 0;
          for (I j = 0; j < n; j++) total += of(full, n, CUBLAS_OP_N, i, j) * wx[at(n, incx, j)];
          Wide& result = want[at(n, incy, i)];
          result = Wide(alpha.value()) * total + Wide(beta.value()) * result;
          for (I j = 0; j < n; j++) {
            if (!is_stored(half, i, j)) continue;
            Wide right = wx[at(n, incx, j)];
            Wide& element = sum[static_cast<size_t>(j * lda + i)];
            if (hermitian)
              element += 3.0 * wx[at(n, incx, i)] * std::conj(right);
            else
              element += Wide(alpha.value()) * wx[at(n, incx, i)] * right;
            if (hermitian && i == j) element = element.real();
          }
        }
        if constexpr (kIsComplex<T>) {
          if (hermitian) {
            this->done(C::hemv(this->handle, half, n, raw(alpha.at()), raw(da.at()), lda, raw(dx.at()), incx,
                               raw(beta.at()), raw(dy.at()), incy));
            this->done(C::her(this->handle, half, n, real.at(), raw(dx.at()), incx, raw(da.at()), lda));
          }
        }
        if (!hermitian) {
          this->done(C::symv(this->handle, half, n, raw(alpha.at()), raw(da.at()), lda, raw(dx.at()), incx,
                             raw(beta.at()), raw(dy.at()), incy));
          this->done(C::syr(this->handle, half, n, raw(alpha.at()), raw(dx.at()), incx, raw(da.at()), lda));
        }
        expect_near(dy.values(), want, "symv");
        expect_near(da.values(), sum, "syr");
      });
    }
}

// Diagonals away from zero, so that solutions are near.
template <class T>
void make_solvable(std::vector<T>* a, int64_t n, int64_t lda) {
  for (int64_t i = 0; i < n; i++)
    (*a)[static_cast<size_t>(i * lda + i)] = static_cast<T>(4 + static_cast<int>(i));
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++)
      if (i != j) (*a)[static_cast<size_t>(j * lda + i)] *= static_cast<T>(0.25);
}

TYPED_TEST(Blas, Triangles) {
  OF_TYPE;
  constexpr I n = 6, columns = 4, lda = 8, incx = -2;
  for (cublasFillMode_t half : kHalves)
    for (cublasOperation_t is : kOperations)
      for (cublasDiagType_t diagonal : kDiagonals) {
        std::vector<T> a = this->some(lda * n), x = this->some(20);
        make_solvable(&a, n, lda);
        std::vector<Wide> full = triangle(wide(a), n, lda, half, diagonal), wx = wide(x), want = wx;
        Memory<T> da(a), dx(x);
        for (I i = 0; i < n; i++) {
          Wide sum = 0;
          for (I j = 0; j < n; j++) sum += of(full, n, is, i, j) * wx[at(n, incx, j)];
          want[at(n, incx, i)] = sum;
        }
        this->done(C::trmv(this->handle, half, is, diagonal, n, raw(da.at()), lda, raw(dx.at()), incx));
        expect_near(dx.values(), want, "trmv");
        this->done(C::trsv(this->handle, half, is, diagonal, n, raw(da.at()), lda, raw(dx.at()), incx));
        expect_near(dx.values(), wx, "trsv");
        for (cublasSideMode_t side : kSides)
          this->in_both_modes([&](bool on_device) {
            I m = side == CUBLAS_SIDE_LEFT ? n : columns, k = side == CUBLAS_SIDE_LEFT ? columns : n;
            constexpr I ldb = 7, ldc = 9;
            std::vector<T> b = this->some(ldb * k), c = this->some(ldc * k);
            Scalar<T> alpha(on_device, static_cast<T>(2)), inverse(on_device, static_cast<T>(0.5));
            Memory<T> db(b), dc(c);
            std::vector<Wide> wanted =
                side == CUBLAS_SIDE_LEFT
                    ? product(is, CUBLAS_OP_N, m, k, m, 2, full, n, wide(b), ldb, 0, wide(c), ldc)
                    : product(CUBLAS_OP_N, is, m, k, k, 2, wide(b), ldb, full, n, 0, wide(c), ldc);
            this->done(C::trmm(this->handle, side, half, is, diagonal, m, k, raw(alpha.at()), raw(da.at()),
                               lda, raw(db.at()), ldb, raw(dc.at()), ldc));
            expect_near(dc.values(), wanted, "trmm");
            this->done(C::trsm(this->handle, side, half, is, diagonal, m, k, raw(inverse.at()), raw(da.at()),
                               lda, raw(dc.at()), ldc));
            std::vector<Wide> back = wide(c);
            for (I j = 0; j < k; j++)
              for (I i = 0; i < m; i++)
                back[static_cast<size_t>(j * ldc + i)] = b[static_cast<size_t>(j * ldb + i)];
            expect_near(dc.values(), back, "trsm");
            // The same by a batch, in which the second matrix is solved and the first one twice as large.
            std::vector<T> two = c;
            for (I j = 0; j < k; j++)
              for (I i = 0; i < m; i++) {
                Wide value = 2.0 * wanted[static_cast<size_t>(j * ldc + i)];
                if constexpr (kIsComplex<T>)
                  two[static_cast<size_t>(j * ldc + i)] = T(value);
                else
                  two[static_cast<size_t>(j * ldc + i)] = static_cast<T>(value.real());
                back[static_cast<size_t>(j * ldc + i)] = 2.0 * Wide(b[static_cast<size_t>(j * ldb + i)]);
              }
            Memory<T> first(two), second(two);
            Memory<typename Native<T>::type*> as({raw(da.at()), raw(da.at())}),
                bs({raw(first.at()), raw(second.at())});
            this->done(C::trsm_batched(this->handle, side, half, is, diagonal, m, k, raw(inverse.at()),
                                       as.at(), lda, bs.at(), ldc, 2));
            expect_near(first.values(), back, "trsmBatched");
            expect_near(second.values(), back, "trsmBatched");
          });
      }
}

TYPED_TEST(Blas, Products) {
  OF_TYPE;
  constexpr I m = 5, n = 4, k = 6, lda = 8, ldb = 9, ldc = 7;
  for (cublasOperation_t a_is : kOperations)
    for (cublasOperation_t b_is : kOperations)
      this->in_both_modes([&](bool on_device) {
        std::vector<T> a = this->some(3 * lda * 6), b = this->some(3 * ldb * 6), c = this->some(3 * ldc * n);
        Scalar<T> alpha(on_device, this->one()), beta(on_device, this->one());
        Memory<T> da(a), db(b), dc(c);
        std::vector<Wide> wa = wide(a), wb = wide(b), want = wide(c);
        Wide x = alpha.value(), y = beta.value();
        want = product(a_is, b_is, m, n, k, x, wa, lda, wb, ldb, y, want, ldc);
        this->done(C::gemm(this->handle, a_is, b_is, m, n, k, raw(alpha.at()), raw(da.at()), lda,
                           raw(db.at()), ldb, raw(beta.at()), raw(dc.at()), ldc));
        expect_near(dc.values(), want, "gemm");

        I sa = lda * 6, sb = ldb * 6, sc = ldc * n;
        auto part = [](const std::vector<Wide>& from, I first) {
          return std::vector<Wide>(from.begin() + first, from.end());
        };
        std::vector<Wide> all = wide(c);
        for (I i = 0; i < 3; i++) {
          std::vector<Wide> one = product(a_is, b_is, m, n, k, x, part(wa, i * sa), lda, part(wb, i * sb),
                                          ldb, y, part(all, i * sc), ldc);
          std::copy(one.begin(), one.end(), all.begin() + i * sc);
        }
        Memory<T> strided(c), pointed(c);
        this->done(C::gemm_strided(this->handle, a_is, b_is, m, n, k, raw(alpha.at()), raw(da.at()), lda, sa,
                                   raw(db.at()), ldb, sb, raw(beta.at()), raw(strided.at()), ldc, sc, 3));
        expect_near(strided.values(), all, "gemmStridedBatched");
        using N = typename Native<T>::type;
        Memory<N*> as({raw(da.at()), raw(da.at(sa)), raw(da.at(2 * sa))}),
            bs({raw(db.at()), raw(db.at(sb)), raw(db.at(2 * sb))}),
            cs({raw(pointed.at()), raw(pointed.at(sc)), raw(pointed.at(2 * sc))});
        this->done(C::gemm_batched(this->handle, a_is, b_is, m, n, k, raw(alpha.at()), as.at(), lda, bs.at(),
                                   ldb, raw(beta.at()), cs.at(), ldc, 3));
        expect_near(pointed.values(), all, "gemmBatched");

        // beta = 0: what was in C is not read, not even what is not a number. k = 0: beta C is left.
        Scalar<T> zero(on_device, T{});
        std::vector<T> bad(c.size(), static_cast<T>(std::numeric_limits<R>::quiet_NaN()));
        Memory<T> fresh(bad);
        this->done(C::gemm(this->handle, a_is, b_is, m, n, k, raw(alpha.at()), raw(da.at()), lda,
                           raw(db.at()), ldb, raw(zero.at()), raw(fresh.at()), ldc));
        want = product(a_is, b_is, m, n, k, x, wa, lda, wb, ldb, 0, std::vector<Wide>(c.size()), ldc);
        std::vector<T> found = fresh.values();
        for (I j = 0; j < n; j++)
          for (I i = 0; i < m; i++)
            expect_near(found[static_cast<size_t>(j * ldc + i)], want[static_cast<size_t>(j * ldc + i)],
                        "gemm", i);
        Memory<T> kept(c);
        this->done(C::gemm(this->handle, a_is, b_is, m, n, 0, raw(alpha.at()), raw(da.at()), lda,
                           raw(db.at()), ldb, raw(beta.at()), raw(kept.at()), ldc));
        expect_near(kept.values(), product(a_is, b_is, m, n, 0, x, wa, lda, wb, ldb, y, wide(c), ldc),
                    "gemm of k = 0");
      });
}

TYPED_TEST(Blas, SymmetricProducts) {
  OF_TYPE;
  constexpr I n = 5, k = 4, lda = 8, ldb = 9, ldc = 7;
  for (cublasFillMode_t half : kHalves)
    for (bool hermitian : {false, true}) {
      if (hermitian && !kIsComplex<T>) continue;
      this->in_both_modes([&](bool on_device) {
        std::vector<T> a = this->some(lda * 6), b = this->some(ldb * 6), c = this->some(ldc * 6);
        Scalar<T> alpha(on_device, this->one()), beta(on_device, this->one());
        Scalar<R> real(on_device, static_cast<R>(0.5)), kept(on_device, 3);
        Memory<T> da(a), db(b);
        Wide x = alpha.value(), y = beta.value();
        for (cublasSideMode_t side : kSides) {
          I rows = side == CUBLAS_SIDE_LEFT ? n : k, columns = side == CUBLAS_SIDE_LEFT ? k : n;
          std::vector<Wide> full = whole(wide(a), n, lda, half, hermitian);
          std::vector<Wide> want = side == CUBLAS_SIDE_LEFT
                                       ? product(CUBLAS_OP_N, CUBLAS_OP_N, rows, columns, n, x, full, n,
                                                 wide(b), ldb, y, wide(c), ldc)
                                       : product(CUBLAS_OP_N, CUBLAS_OP_N, rows, columns, n, x, wide(b), ldb,
                                                 full, n, y, wide(c), ldc);
          Memory<T> dc(c);
          auto call = C::symm;
          if constexpr (kIsComplex<T>)
            if (hermitian) call = C::hemm;
          this->done(call(this->handle, side, half, rows, columns, raw(alpha.at()), raw(da.at()), lda,
                          raw(db.at()), ldb, raw(beta.at()), raw(dc.at()), ldc));
          expect_near(dc.values(), want, "symm");
        }
        cublasOperation_t turned = hermitian ? CUBLAS_OP_C : CUBLAS_OP_T;
        for (cublasOperation_t is : {CUBLAS_OP_N, turned}) {
          cublasOperation_t other = is == CUBLAS_OP_N ? turned : CUBLAS_OP_N;
          // Of a whole product only the stored half is written; the diagonal of a Hermitian one is real.
          auto stored = [&](const std::vector<Wide>& product) {
            std::vector<Wide> want = wide(c);
            for (I j = 0; j < n; j++)
              for (I i = 0; i < n; i++)
                if (is_stored(half, i, j)) {
                  Wide value = product[static_cast<size_t>(j * ldc + i)];
                  want[static_cast<size_t>(j * ldc + i)] = hermitian && i == j ? Wide(value.real()) : value;
                }
            return want;
          };
          Wide factor = hermitian ? Wide(0.5) : x, keep = hermitian ? Wide(3) : y;
          std::vector<Wide> single =
              product(is, other, n, n, k, factor, wide(a), lda, wide(a), lda, keep, wide(c), ldc);
          std::vector<Wide> both =
              product(is, other, n, n, k, x, wide(a), lda, wide(b), ldb, keep, wide(c), ldc);
          both = product(is, other, n, n, k, hermitian ? std::conj(x) : x, wide(b), ldb, wide(a), lda, 1,
                         both, ldc);
          Memory<T> one(c), two(c);
          if constexpr (kIsComplex<T>) {
            if (hermitian) {
              this->done(C::herk(this->handle, half, is, n, k, real.at(), raw(da.at()), lda, kept.at(),
                                 raw(one.at()), ldc));
              this->done(C::her2k(this->handle, half, is, n, k, raw(alpha.at()), raw(da.at()), lda,
                                  raw(db.at()), ldb, kept.at(), raw(two.at()), ldc));
            }
          }
          if (!hermitian) {
            this->done(C::syrk(this->handle, half, is, n, k, raw(alpha.at()), raw(da.at()), lda,
                               raw(beta.at()), raw(one.at()), ldc));
            this->done(C::syr2k(this->handle, half, is, n, k, raw(alpha.at()), raw(da.at()), lda,
                                raw(db.at()), ldb, raw(beta.at()), raw(two.at()), ldc));
          }
          expect_near(one.values(), stored(single), "syrk");
          expect_near(two.values(), stored(both), "syr2k");
        }
      });
    }
}

TYPED_TEST(Blas, SumsAndDiagonals) {
  OF_TYPE;
  constexpr I m = 5, n = 4, lda = 8, ldb = 9, ldc = 7;
  for (cublasOperation_t a_is : kOperations)
    for (cublasOperation_t b_is : kOperations)
      this->in_both_modes([&](bool on_device) {
        std::vector<T> a = this->some(lda * 5), b = this->some(ldb * 5), c = this->some(ldc * n);
        Scalar<T> alpha(on_device, this->one()), beta(on_device, this->one());
        Memory<T> da(a), db(b), dc(c);
        std::vector<Wide> want = wide(c), wa = wide(a), wb = wide(b);
        for (I j = 0; j < n; j++)
          for (I i = 0; i < m; i++)
            want[static_cast<size_t>(j * ldc + i)] =
                Wide(alpha.value()) * of(wa, lda, a_is, i, j) + Wide(beta.value()) * of(wb, ldb, b_is, i, j);
        this->done(C::geam(this->handle, a_is, b_is, m, n, raw(alpha.at()), raw(da.at()), lda, raw(beta.at()),
                           raw(db.at()), ldb, raw(dc.at()), ldc));
        expect_near(dc.values(), want, "geam");
      });
  for (cublasSideMode_t side : kSides) {
    std::vector<T> a = this->some(lda * 5), x = this->some(20), c = this->some(ldc * n);
    Memory<T> da(a), dx(x), dc(c);
    std::vector<Wide> want = wide(c), wx = wide(x);
    bool left = side == CUBLAS_SIDE_LEFT;
    for (I j = 0; j < n; j++)
      for (I i = 0; i < m; i++)
        want[static_cast<size_t>(j * ldc + i)] =
            Wide(a[static_cast<size_t>(j * lda + i)]) * wx[at(left ? m : n, -2, left ? i : j)];
    this->done(C::dgmm(this->handle, side, m, n, raw(da.at()), lda, raw(dx.at()), -2, raw(dc.at()), ldc));
    expect_near(dc.values(), want, "dgmm");
  }
}

}  // namespace
