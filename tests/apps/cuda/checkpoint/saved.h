// Shared by the programs here: the log of ../../steplog.h, checks of calls, device memory. Nothing in it
// knows of checkpoints. A step starts by checking what earlier steps left on the device.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../steplog.h"

inline void check_call(cudaError_t error, const char* what, int line) {
  if (error != cudaSuccess) steplog_fail("line %d: %s: %s", line, what, cudaGetErrorName(error));
}
#define CALL(what) check_call((what), #what, __LINE__)
#define LAUNCHED() check_call(cudaGetLastError(), "launch", __LINE__)
#define EXPECT(condition)                                                \
  do {                                                                   \
    if (!(condition)) steplog_fail("line %d: %s", __LINE__, #condition); \
  } while (0)

// Device memory that is freed at the end of its scope.
template <class T>
struct Buffer {
  T* data = nullptr;
  size_t count;
  explicit Buffer(size_t n) : count(n) { CALL(cudaMalloc(&data, n * sizeof(T))); }
  explicit Buffer(const std::vector<T>& from) : Buffer(from.size()) {
    CALL(cudaMemcpy(data, from.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    CALL(cudaStreamSynchronize(0));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data); }
  operator T*() const { return data; }
  std::vector<T> host() const {
    std::vector<T> values(count);
    CALL(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
};

template <class T>
void mix(const std::vector<T>& values) {
  steplog_mix_bytes(values.data(), values.size() * sizeof(T));
}

// The nonce is stored on the device too, and read back at the end.
struct DeviceNonce {
  uint64_t* data;
  DeviceNonce() {
    CALL(cudaMalloc(&data, sizeof *data));
    CALL(cudaMemcpy(data, &steplog_nonce, sizeof *data, cudaMemcpyHostToDevice));
    CALL(cudaStreamSynchronize(0));  // the call may return before the bytes have reached the device
  }
  void back() {
    uint64_t kept = 0;
    CALL(cudaMemcpy(&kept, data, sizeof kept, cudaMemcpyDeviceToHost));
    EXPECT(kept == steplog_nonce);
    steplog_nonce = kept;
    CALL(cudaFree(data));
  }
};
