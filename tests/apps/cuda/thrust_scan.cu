// nvcc: -std=c++17
// run: ways=static,shared
// Thrust: scan, reduce_by_key and transform_reduce.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/transform_reduce.h>

#include "check.h"

struct Square {
  __host__ __device__ long long operator()(int x) const { return 1ll * x * x; }
};

int main() {
  const int n = 2500;
  std::vector<uint32_t> numbers = Random(51).integers(n, 100);
  std::vector<int> in(numbers.begin(), numbers.end()), keys(n), scanned(n), unique_keys, sums;
  long long squares = 0;
  for (int i = 0; i < n; i++) {
    keys[i] = i * i / 900 % 37;
    scanned[i] = in[i] + (i ? scanned[i - 1] : 0);
    squares += 1ll * in[i] * in[i];
    if (i == 0 || keys[i] != keys[i - 1]) unique_keys.push_back(keys[i]), sums.push_back(0);
    sums.back() += in[i];
  }
  thrust::device_vector<int> din(in.begin(), in.end()), dk(keys.begin(), keys.end()), out(n), out_keys(n),
      out_sums(n);
  thrust::inclusive_scan(din.begin(), din.end(), out.begin());
  std::vector<int> got(n);
  thrust::copy(out.begin(), out.end(), got.begin());
  expect_same(got, scanned, "scan");
  auto ends = thrust::reduce_by_key(dk.begin(), dk.end(), din.begin(), out_keys.begin(), out_sums.begin());
  EXPECT(size_t(ends.first - out_keys.begin()) == unique_keys.size());
  got.resize(unique_keys.size());
  thrust::copy(out_sums.begin(), ends.second, got.begin());
  expect_same(got, sums, "sums");
  EXPECT(thrust::transform_reduce(din.begin(), din.end(), Square(), 0ll, thrust::plus<long long>()) ==
         squares);
  digest(got);
  return finish();
}
