// nvcc: -std=c++17
// run: ways=static,shared
// CUB: radix sort, scan and reduction of a whole device.
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

#include <algorithm>

#include "check.h"

template <class Function>
void with_room(Function function) {
  size_t bytes = 0;
  CALL(function(nullptr, bytes));
  Buffer<char> room(bytes);
  CALL(function(room.data, bytes));
  CALL(cudaDeviceSynchronize());
}

int main() {
  const int n = 6000;
  std::vector<float> values = Random(52).floats(n, -1000, 1000);
  std::vector<uint32_t> numbers = Random(53).integers(n, 1000), scanned(n);
  Buffer<float> in(values), out(n);
  Buffer<uint32_t> din(numbers), dout(n), sum(1), top(1);
  with_room([&](void* room, size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(room, bytes, in.data, out.data, n);
  });
  std::sort(values.begin(), values.end());
  expect_same(out.host(), values, "sorted");
  with_room([&](void* room, size_t& bytes) {
    return cub::DeviceScan::ExclusiveSum(room, bytes, din.data, dout.data, n);
  });
  for (int i = 1; i < n; i++) scanned[i] = scanned[i - 1] + numbers[i - 1];
  expect_same(dout.host(), scanned, "scanned");
  with_room(
      [&](void* room, size_t& bytes) { return cub::DeviceReduce::Sum(room, bytes, din.data, sum.data, n); });
  with_room(
      [&](void* room, size_t& bytes) { return cub::DeviceReduce::Max(room, bytes, din.data, top.data, n); });
  EXPECT(sum.host()[0] == scanned[n - 1] + numbers[n - 1]);
  EXPECT(top.host()[0] == *std::max_element(numbers.begin(), numbers.end()));
  digest(out.host());
  digest(dout.host());
  return finish();
}
