// run: devices=2
// Two devices: copies between them; access to the other's memory only after it was enabled.
#include "child.h"

__global__ void sum(const int* a, const int* b, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

static const int n = 500;

static int* numbers(int device, int factor) {
  std::vector<int> values(n);
  for (int i = 0; i < n; i++) values[i] = factor * i;
  int* memory;
  CALL(cudaSetDevice(device));
  CALL(cudaMalloc(&memory, n * sizeof(int)));
  CALL(cudaMemcpy(memory, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CALL(cudaDeviceSynchronize());  // streams of the other device do not wait for this copy
  return memory;
}

static void without_access() {
  int *a = numbers(0, 1), *b = numbers(1, 2);
  CALL(cudaSetDevice(0));
  sum<<<4, 128>>>(a, b, a, n);
  FAILS(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
}

int main(int argc, char** argv) {
  if (has_children(argc, argv)) expect_child(in_child(without_access), "a peer's memory without access");
  int *a = numbers(0, 1), *b = numbers(1, 10), can = 0;
  CALL(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT(can == 1);
  CALL(cudaSetDevice(0));
  CALL(cudaDeviceEnablePeerAccess(1, 0));
  FAILS(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  FAILS(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
  cudaGetLastError();
  int* out;
  CALL(cudaMalloc(&out, n * sizeof(int)));
  sum<<<4, 128>>>(a, b, out, n);
  LAUNCHED();
  CALL(cudaMemcpyPeer(b, 1, out, 0, n * sizeof(int)));
  std::vector<int> got(n), expected(n);
  for (int i = 0; i < n; i++) expected[i] = 11 * i;
  CALL(cudaSetDevice(1));
  CALL(cudaMemcpy(got.data(), b, n * sizeof(int), cudaMemcpyDeviceToHost));
  expect_same(got, expected);
  digest(got);
  CALL(cudaSetDevice(0));
  CALL(cudaDeviceDisablePeerAccess(1));
  FAILS(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
  CALL(cudaMemcpy(a, b, n * sizeof(int), cudaMemcpyDefault));  // copies work without peer access
  CALL(cudaMemcpy(got.data(), a, n * sizeof(int), cudaMemcpyDeviceToHost));
  expect_same(got, expected);
  cudaPointerAttributes attributes;
  CALL(cudaPointerGetAttributes(&attributes, b));
  EXPECT(attributes.type == cudaMemoryTypeDevice && attributes.device == 1);
  return finish();
}
