// What the tests of cuBLAS and cuBLASLt share: memory of the device, scalars on either side, small random
// numbers.
#pragma once

#include <cublas_v2.h>
#include <cuda.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <random>
#include <vector>

namespace blas_rig {

template <class T>
class Memory {
 public:
  explicit Memory(const std::vector<T>& values) : count_(values.size()) {
    EXPECT_EQ(cuMemAlloc(&address_, count_ * sizeof(T)), CUDA_SUCCESS);
    EXPECT_EQ(cuMemcpyHtoD(address_, values.data(), count_ * sizeof(T)), CUDA_SUCCESS);
    // A copy from pageable memory may still be under way, and streams that do not wait for it begin at once.
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  }
  explicit Memory(T value) : Memory(std::vector<T>(1, value)) {}
  ~Memory() { cuMemFree(address_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  T* at(int64_t i = 0) const { return reinterpret_cast<T*>(address_) + i; }
  std::vector<T> values() const {
    std::vector<T> found(count_);
    EXPECT_EQ(cuMemcpyDtoH(found.data(), address_, count_ * sizeof(T)), CUDA_SUCCESS);
    return found;
  }

 private:
  size_t count_;
  CUdeviceptr address_ = 0;
};

// A scalar where the pointer mode wants it.
template <class T>
class Scalar {
 public:
  Scalar(bool on_device, T value) : on_device_(on_device), host_(value), device_(value) {}
  T* at() { return on_device_ ? device_.at() : &host_; }
  T value() const { return on_device_ ? device_.values()[0] : host_; }

 private:
  bool on_device_;
  T host_;
  Memory<T> device_;
};

// Multiples of 1/8 from -2 to 2: sums and products of few are exact in float.
template <class T>
T number(std::mt19937& random) {
  auto one = [&] { return (static_cast<int>(random() % 33) - 16) / 8.0; };
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    double real = one();
    return T(static_cast<typename T::value_type>(real), static_cast<typename T::value_type>(one()));
  } else {
    return static_cast<T>(one());
  }
}
template <class T>
std::vector<T> numbers(std::mt19937& random, int64_t count) {
  std::vector<T> made(static_cast<size_t>(count));
  for (T& one : made) one = number<T>(random);
  return made;
}

}  // namespace blas_rig
