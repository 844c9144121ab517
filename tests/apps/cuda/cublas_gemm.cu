// nvcc: -lcublas
// cuBLAS products: every transposition, leading dimensions, alpha and beta, double, f16 into f32, strided
// batches, pointer arrays; all column-major. Then stream order: a product runs after the kernel before it,
// and runs again at each launch of a graph that captured it.
#include <cublas_v2.h>
#include <cuda_fp16.h>

#include <future>

#include "check.h"

#define BLAS(what)                                                           \
  do {                                                                       \
    cublasStatus_t status = (what);                                          \
    if (status != CUBLAS_STATUS_SUCCESS)                                     \
      fail("line %d: %s: %s", __LINE__, #what, cublasGetStatusName(status)); \
  } while (0)

template <class T>
std::vector<double> product(bool ta, bool tb, int m, int n, int k, double alpha, const T* a, int lda,
                            const T* b, int ldb, double beta, std::vector<double> c, int ldc) {
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      double sum = 0;
      for (int l = 0; l < k; l++)
        sum += double(ta ? a[i * lda + l] : a[l * lda + i]) * double(tb ? b[l * ldb + j] : b[j * ldb + l]);
      c[j * ldc + i] = alpha * sum + (beta == 0 ? 0 : beta * c[j * ldc + i]);
    }
  return c;
}

__global__ void fill(float* to, int count, float value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = value;
}

void in_order(cublasHandle_t handle, cudaStream_t stream) {
  const int side = 16, count = side * side;
  Buffer<float> a(count), b(std::vector<float>(count, 1)), c(std::vector<float>(count, -1));
  std::vector<float> seen(count);
  cudaStream_t other;
  CALL(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  auto look = [&] {
    CALL(cudaMemcpyAsync(seen.data(), c, count * sizeof(float), cudaMemcpyDeviceToHost, other));
    CALL(cudaStreamSynchronize(other));
    return seen;
  };
  float one = 1, zero = 0;
  auto multiply = [&](const float* beta) {
    BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &one, a, side, b, side, beta, c,
                     side));
  };
  std::promise<void> release;
  std::future<void> released = release.get_future();
  CALL(cudaLaunchHostFunc(
      stream, [](void* future) { static_cast<std::future<void>*>(future)->wait(); }, &released));
  fill<<<(count + 63) / 64, 64, 0, stream>>>(a, count, 2);
  LAUNCHED();
  multiply(&zero);
  expect_same(look(), std::vector<float>(count, -1), "before its stream comes to it");
  release.set_value();
  CALL(cudaStreamSynchronize(stream));
  expect_same(look(), std::vector<float>(count, 2 * side), "after the kernel before it");

  cudaGraph_t graph;
  cudaGraphExec_t runs;
  CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  multiply(&one);
  CALL(cudaStreamEndCapture(stream, &graph));
  CALL(cudaGraphInstantiate(&runs, graph, 0));
  CALL(cudaStreamSynchronize(stream));
  expect_same(look(), std::vector<float>(count, 2 * side), "captured");
  for (int times = 2; times < 4; times++) {
    CALL(cudaGraphLaunch(runs, stream));
    CALL(cudaStreamSynchronize(stream));
    expect_same(look(), std::vector<float>(count, times * 2 * side), "launched");
  }
  CALL(cudaGraphExecDestroy(runs));
  CALL(cudaGraphDestroy(graph));
  CALL(cudaStreamDestroy(other));
}

int main() {
  const int m = 23, n = 17, k = 31, ld = 40;
  Random random(60);
  std::vector<float> a = random.floats(ld * ld), b = random.floats(ld * ld), c = random.floats(ld * ld);
  std::vector<double> wide_c(c.begin(), c.end());
  Buffer<float> da(a), db(b);
  cublasHandle_t handle;
  BLAS(cublasCreate(&handle));
  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  BLAS(cublasSetStream(handle, stream));
  for (int ta = 0; ta < 2; ta++)
    for (int tb = 0; tb < 2; tb++) {
      Buffer<float> dc(c);
      float alpha = 1.5f, beta = ta ? 0.0f : -0.5f;
      BLAS(cublasSgemm(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k,
                       &alpha, da, ld, db, ld, &beta, dc, ld));
      CALL(cudaStreamSynchronize(stream));
      expect_near(dc.host(), product(ta, tb, m, n, k, alpha, a.data(), ld, b.data(), ld, beta, wide_c, ld),
                  1e-5, 1e-5, "sgemm");
      digest(dc.host());
    }
  {  // scalars on the device
    Buffer<float> dc(c), scalars(std::vector<float>{2, 1});
    BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    BLAS(
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, scalars, da, ld, db, ld, scalars + 1, dc, ld));
    BLAS(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    CALL(cudaStreamSynchronize(stream));
    expect_near(dc.host(), product(false, false, m, n, k, 2, a.data(), ld, b.data(), ld, 1, wide_c, ld), 1e-5,
                1e-5, "scalars on the device");
  }
  {
    std::vector<double> xa(a.begin(), a.end()), xb(b.begin(), b.end());
    Buffer<double> dxa(xa), dxb(xb), dxc(wide_c);
    double alpha = 1, beta = 2;
    BLAS(cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, m, n, k, &alpha, dxa, ld, dxb, ld, &beta, dxc, ld));
    CALL(cudaStreamSynchronize(stream));
    expect_near(dxc.host(), product(false, true, m, n, k, 1, xa.data(), ld, xb.data(), ld, 2, wide_c, ld),
                1e-13, 1e-13, "dgemm");
    digest(dxc.host());
  }
  {  // halves with exact products
    std::vector<__half> ha(ld * ld), hb(ld * ld);
    std::vector<float> fa(ld * ld), fb(ld * ld);
    for (int i = 0; i < ld * ld; i++) {
      fa[i] = int(random.below(9)) - 4;
      fb[i] = int(random.below(9)) - 4;
      ha[i] = __float2half(fa[i]);
      hb[i] = __float2half(fb[i]);
    }
    Buffer<__half> dha(ha), dhb(hb), dhc(ld * ld);
    Buffer<float> dc(c);
    dhc.zero();
    float alpha = 1, beta = 0;
    BLAS(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha, dha, CUDA_R_16F, ld, dhb, CUDA_R_16F,
                      ld, &beta, dc, CUDA_R_32F, ld, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    BLAS(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha, dha, CUDA_R_16F, ld, dhb, CUDA_R_16F,
                      ld, &beta, dhc, CUDA_R_16F, ld, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    CALL(cudaStreamSynchronize(stream));
    std::vector<double> expected =
        product(true, false, m, n, k, 1, fa.data(), ld, fb.data(), ld, 0, wide_c, ld);
    expect_near(dc.host(), expected, 1e-7, 0, "gemmEx into f32");
    std::vector<__half> got = dhc.host();
    for (int j = 0; j < n; j++)
      for (int i = 0; i < m; i++) EXPECT(__half2float(got[j * ld + i]) == float(expected[j * ld + i]));
  }
  {
    const int side = 8, count = 3, stride = side * side;
    Buffer<float> dc(c), dd(c);
    float alpha = 1, beta = 1;
    BLAS(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &alpha, da, side,
                                   stride, db, side, stride, &beta, dc, side, stride, count));
    std::vector<float*> as, bs, cs;
    for (int i = 0; i < count; i++)
      as.push_back(da + i * stride), bs.push_back(db + i * stride), cs.push_back(dd + i * stride);
    Buffer<float*> das(as), dbs(bs), dcs(cs);
    BLAS(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, side, side, side, &alpha, das, side, dbs, side,
                            &beta, dcs, side, count));
    CALL(cudaStreamSynchronize(stream));
    std::vector<double> expected = wide_c;
    for (int i = 0; i < count; i++) {
      std::vector<double> part(wide_c.begin() + i * stride, wide_c.begin() + (i + 1) * stride);
      part = product(false, false, side, side, side, 1, a.data() + i * stride, side, b.data() + i * stride,
                     side, 1, part, side);
      std::copy(part.begin(), part.end(), expected.begin() + i * stride);
    }
    expect_near(dc.host(), expected, 1e-5, 1e-5, "strided batches");
    expect_near(dd.host(), expected, 1e-5, 1e-5, "batches");
  }
  float one = 1;
  EXPECT(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, da, m - 1, db, ld, &one, da, ld) ==
         CUBLAS_STATUS_INVALID_VALUE);
  in_order(handle, stream);
  BLAS(cublasDestroy(handle));
  CALL(cudaStreamDestroy(stream));
  return finish();
}
