// Cross-entropy of logits and its gradient, with the loss summed in a fixed order; one label is out of range.
#include "check.h"

__global__ void cross_entropy(const float* logits, const int* labels, float* losses, float* gradient,
                              int classes, int ignored) {
  __shared__ float work[64];
  const float* row = logits + blockIdx.x * classes;
  int label = labels[blockIdx.x], t = threadIdx.x;
  auto all = [&](float value, bool maximum) {
    work[t] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
      if (t < half) work[t] = maximum ? fmaxf(work[t], work[t + half]) : work[t] + work[t + half];
      __syncthreads();
    }
    float result = work[0];
    __syncthreads();
    return result;
  };
  float top = -INFINITY, sum = 0;
  for (int c = t; c < classes; c += blockDim.x) top = fmaxf(top, row[c]);
  top = all(top, true);
  for (int c = t; c < classes; c += blockDim.x) sum += expf(row[c] - top);
  sum = all(sum, false);
  for (int c = t; c < classes; c += blockDim.x)
    gradient[blockIdx.x * classes + c] =
        label == ignored ? 0.0f : expf(row[c] - top) / sum - (c == label ? 1.0f : 0.0f);
  if (t == 0) losses[blockIdx.x] = label == ignored ? 0.0f : logf(sum) + top - row[label];
}

__global__ void total(const float* losses, int n, double* sum) {
  double result = 0;
  for (int i = 0; i < n; i++) result += losses[i];
  *sum = result;
}

int main() {
  const int rows = 33, classes = 101;
  Random random(17);
  std::vector<float> logits = random.floats(rows * classes, -8, 8);
  std::vector<int> labels(rows);
  for (int& label : labels) label = random.below(classes);
  labels[7] = -100;
  std::vector<double> gradient(rows * classes);
  double loss = 0;
  for (int r = 0; r < rows; r++) {
    if (labels[r] < 0) continue;
    double sum = 0;
    for (int c = 0; c < classes; c++) sum += std::exp(double(logits[r * classes + c]));
    for (int c = 0; c < classes; c++)
      gradient[r * classes + c] = std::exp(double(logits[r * classes + c])) / sum - (c == labels[r]);
    loss += std::log(sum) - logits[r * classes + labels[r]];
  }
  Buffer<float> dl(logits), losses(rows), dg(rows * classes);
  Buffer<int> dlabels(labels);
  Buffer<double> sum(1);
  cross_entropy<<<rows, 64>>>(dl, dlabels, losses, dg, classes, -100);
  total<<<1, 1>>>(losses, rows, sum);
  LAUNCHED();
  expect_near(sum.host(), std::vector<double>{loss}, 1e-5, 0, "loss");
  expect_near(dg.host(), gradient, 1e-4, 1e-6, "gradient");
  digest(dg.host());
  digest(sum.host());
  return finish();
}
