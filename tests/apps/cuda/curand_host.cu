// nvcc: -lcurand
// cuRAND's host API: Philox and XORWOW, seeds and offsets, uniform, normal and raw numbers; a new generator
// with the same settings gives the same numbers. Then stream order: numbers are generated after the kernel
// before them.
#include <curand.h>

#include <future>

#include "check.h"

#define RAND(what)                                                                              \
  do {                                                                                          \
    curandStatus_t status = (what);                                                             \
    if (status != CURAND_STATUS_SUCCESS) fail("line %d: %s: %d", __LINE__, #what, int(status)); \
  } while (0)

__global__ void fill(unsigned* to, int count, unsigned value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = value;
}

// Generates from an offset on, in a stream that is blocked at first; `from_the_start` has the numbers
// generated without offset.
void in_order(curandGenerator_t generator, const std::vector<unsigned>& from_the_start) {
  const int offset = 1000, count = int(from_the_start.size()) - offset;
  Buffer<unsigned> numbers(std::vector<unsigned>(count, 1));
  std::vector<unsigned> seen(count);
  cudaStream_t stream, other;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  auto look = [&] {
    CALL(cudaMemcpyAsync(seen.data(), numbers, count * sizeof(unsigned), cudaMemcpyDeviceToHost, other));
    CALL(cudaStreamSynchronize(other));
    return seen;
  };
  RAND(curandSetStream(generator, stream));
  RAND(curandSetGeneratorOffset(generator, offset));
  RAND(curandGenerateSeeds(generator));
  CALL(cudaStreamSynchronize(stream));
  std::promise<void> release;
  std::future<void> released = release.get_future();
  CALL(cudaLaunchHostFunc(
      stream, [](void* future) { static_cast<std::future<void>*>(future)->wait(); }, &released));
  fill<<<(count + 63) / 64, 64, 0, stream>>>(numbers, count, 2);
  LAUNCHED();
  RAND(curandGenerate(generator, numbers, count));
  expect_same(look(), std::vector<unsigned>(count, 1), "before their stream comes to them");
  release.set_value();
  CALL(cudaStreamSynchronize(stream));
  expect_same(look(), std::vector<unsigned>(from_the_start.begin() + offset, from_the_start.end()),
              "from the offset on");
  CALL(cudaStreamDestroy(stream));
  CALL(cudaStreamDestroy(other));
}

int main() {
  const int n = 4000;
  for (curandRngType_t type : {CURAND_RNG_PSEUDO_PHILOX4_32_10, CURAND_RNG_PSEUDO_XORWOW}) {
    Buffer<float> uniform(n), again(n), normal(n);
    Buffer<unsigned> raw(n);
    for (Buffer<float>* to : {&uniform, &again}) {
      curandGenerator_t generator;
      RAND(curandCreateGenerator(&generator, type));
      RAND(curandSetPseudoRandomGeneratorSeed(generator, 77));
      RAND(curandGenerateUniform(generator, *to, n));
      RAND(curandGenerateNormal(generator, normal, n, 3, 2));
      RAND(curandGenerate(generator, raw, n));
      CALL(cudaDeviceSynchronize());
      RAND(curandDestroyGenerator(generator));
    }
    expect_same(again.host(), uniform.host(), "again");
    double sum = 0, squares = 0, uniform_sum = 0, bits = 0;
    for (float v : normal.host()) sum += v, squares += (v - 3.0) * (v - 3.0);
    for (float v : uniform.host()) {
      EXPECT(v > 0 && v <= 1);
      uniform_sum += v;
    }
    for (unsigned v : raw.host()) bits += __builtin_popcount(v);
    EXPECT(std::fabs(sum / n - 3) < 0.2 && std::fabs(squares / n - 4) < 0.4 &&
           std::fabs(uniform_sum / n - 0.5) < 0.03);
    EXPECT(std::fabs(bits / n - 16) < 0.3);
    digest(uniform.host());
    digest(raw.host());
    curandGenerator_t generator;
    RAND(curandCreateGenerator(&generator, type));
    RAND(curandSetPseudoRandomGeneratorSeed(generator, 77));
    RAND(curandGenerate(generator, raw, n));
    CALL(cudaDeviceSynchronize());
    in_order(generator, raw.host());
    RAND(curandDestroyGenerator(generator));
  }
  return finish();
}
