// nvcc: -lcurand
// cuRAND's host API: Philox and XORWOW, seeds and offsets, uniform, normal and raw numbers; a generator that
// is made again gives the same.
#include <curand.h>

#include "check.h"

#define RAND(what)                                                                              \
  do {                                                                                          \
    curandStatus_t status = (what);                                                             \
    if (status != CURAND_STATUS_SUCCESS) fail("line %d: %s: %d", __LINE__, #what, int(status)); \
  } while (0)

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
  }
  return finish();
}
