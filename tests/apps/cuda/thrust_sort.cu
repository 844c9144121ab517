// nvcc: -std=c++17
// run: build=long
// Thrust: stable sort of keys with values, after a transform.
#include <thrust/device_vector.h>
#include <thrust/sort.h>

#include <algorithm>

#include "check.h"

int main() {
  const int n = 3000;
  std::vector<uint32_t> keys = Random(50).integers(n, 700);
  std::vector<std::pair<uint32_t, int>> expected;
  thrust::device_vector<uint32_t> dk(keys.begin(), keys.end());
  thrust::device_vector<int> dv(n);
  for (int i = 0; i < n; i++) expected.push_back({keys[i], i});
  std::vector<int> numbers(n);
  for (int i = 0; i < n; i++) numbers[i] = i;
  thrust::copy(numbers.begin(), numbers.end(), dv.begin());
  thrust::stable_sort_by_key(dk.begin(), dk.end(), dv.begin());
  std::stable_sort(expected.begin(), expected.end(), [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<uint32_t> sorted(n);
  thrust::copy(dk.begin(), dk.end(), sorted.begin());
  thrust::copy(dv.begin(), dv.end(), numbers.begin());
  for (int i = 0; i < n; i++) EXPECT(sorted[i] == expected[i].first && numbers[i] == expected[i].second);
  digest(sorted);
  digest(numbers);
  return finish();
}
