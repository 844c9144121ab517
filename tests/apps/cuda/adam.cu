// Twenty steps of Adam with weight decay on a quadratic; the state stays on the device.
#include "check.h"

struct Rates {
  float rate, beta1, beta2, epsilon, decay;
};

__global__ void step(float* w, const float* target, float* m, float* v, int n, Rates r, float correction1,
                     float correction2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float gradient = 2 * (w[i] - target[i]);
  m[i] = r.beta1 * m[i] + (1 - r.beta1) * gradient;
  v[i] = r.beta2 * v[i] + (1 - r.beta2) * gradient * gradient;
  w[i] -= r.rate * (m[i] / correction1 / (sqrtf(v[i] / correction2) + r.epsilon) + r.decay * w[i]);
}

int main() {
  const int n = 1000;
  const Rates rates = {0.05f, 0.9f, 0.999f, 1e-8f, 0.01f};
  Random random(16);
  std::vector<float> w = random.floats(n), target = random.floats(n);
  Buffer<float> dw(w), dt(target), dm(n), dv(n);
  dm.zero();
  dv.zero();
  std::vector<double> expected(w.begin(), w.end()), m(n), v(n);
  for (int t = 1; t <= 20; t++) {
    double c1 = 1 - std::pow(rates.beta1, t), c2 = 1 - std::pow(rates.beta2, t);
    step<<<(n + 127) / 128, 128>>>(dw, dt, dm, dv, n, rates, float(c1), float(c2));
    for (int i = 0; i < n; i++) {
      double gradient = 2 * (expected[i] - target[i]);
      m[i] = rates.beta1 * m[i] + (1 - rates.beta1) * gradient;
      v[i] = rates.beta2 * v[i] + (1 - rates.beta2) * gradient * gradient;
      expected[i] -=
          rates.rate * (m[i] / c1 / (std::sqrt(v[i] / c2) + rates.epsilon) + rates.decay * expected[i]);
    }
  }
  LAUNCHED();
  expect_near(dw.host(), expected, 2e-3, 2e-3);
  expect_near(dm.host(), m, 2e-2, 1e-2, "first moment");
  digest(dw.host());
  return finish();
}
