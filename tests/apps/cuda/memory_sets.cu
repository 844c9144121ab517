// One-dimensional memset and memcpy: bytes, offsets, all directions and the default kind, within the device,
// synchronous and asynchronous, between all kinds of allocations.
#include "check.h"

int main() {
  const int n = 4096;
  Buffer<unsigned char> a(n), b(n);
  CALL(cudaMemset(a, 0xab, n));
  CALL(cudaMemset(a + 100, 3, 1));
  CALL(cudaMemsetAsync(a + 1000, 0x17, 501, 0));
  CALL(cudaMemcpy(b, a, n, cudaMemcpyDeviceToDevice));
  CALL(cudaMemcpyAsync(b + 2000, a + 990, 300, cudaMemcpyDefault, 0));
  std::vector<unsigned char> expected(n, 0xab), got(n, 1);
  expected[100] = 3;
  for (int i = 1000; i < 1501; i++) expected[i] = 0x17;
  for (int i = 0; i < 300; i++) expected[2000 + i] = expected[990 + i];
  CALL(cudaMemcpy(got.data(), b, n, cudaMemcpyDefault));
  expect_same(got, expected);
  unsigned char *pinned, *managed;
  CALL(cudaMallocHost(&pinned, n));
  CALL(cudaMallocManaged(&managed, n));
  CALL(cudaMemcpy(pinned, b, n, cudaMemcpyDefault));
  CALL(cudaMemcpy(managed, pinned, n, cudaMemcpyDefault));
  CALL(cudaMemset(pinned, 0, n));
  CALL(cudaMemcpy(a, managed, n, cudaMemcpyDefault));
  CALL(cudaMemcpy(pinned, got.data(), n, cudaMemcpyHostToHost));
  CALL(cudaDeviceSynchronize());
  EXPECT(std::memcmp(pinned, expected.data(), n) == 0 && std::memcmp(managed, expected.data(), n) == 0);
  expect_same(a.host(), expected);
  digest(a.host());
  CALL(cudaMemcpy(a, b, 0, cudaMemcpyDeviceToDevice));
  CALL(cudaFreeHost(pinned));
  CALL(cudaFree(managed));
  return finish();
}
