// Shared by the programs here: checks of calls and values, seeded numbers, a digest of the results. A program
// ends with finish(), which prints `ok` and the digest; the digest must not depend on the device's
// scheduling.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

[[noreturn]] inline void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fflush(stdout);
  std::fputs("differs: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::exit(1);
}

inline void check_call(cudaError_t error, const char* what, int line) {
  if (error != cudaSuccess) fail("line %d: %s: %s", line, what, cudaGetErrorName(error));
}
#define CALL(what) check_call((what), #what, __LINE__)
#define LAUNCHED() check_call(cudaGetLastError(), "launch", __LINE__)

inline void check_error(cudaError_t error, cudaError_t expected, const char* what, int line) {
  if (error != expected)
    fail("line %d: %s: %s instead of %s", line, what, cudaGetErrorName(error), cudaGetErrorName(expected));
}
#define FAILS(what, expected) check_error((what), (expected), #what, __LINE__)

#define EXPECT(condition)                                        \
  do {                                                           \
    if (!(condition)) fail("line %d: %s", __LINE__, #condition); \
  } while (0)

struct Random {  // splitmix64
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  float uniform(float low = -1, float high = 1) {
    return low + (high - low) * static_cast<float>(next() >> 40) / 16777216.0f;
  }
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>((next() >> 32) * limit >> 32); }
  std::vector<float> floats(size_t count, float low = -1, float high = 1) {
    std::vector<float> values(count);
    for (float& value : values) value = uniform(low, high);
    return values;
  }
  std::vector<uint32_t> integers(size_t count, uint32_t limit) {
    std::vector<uint32_t> values(count);
    for (uint32_t& value : values) value = below(limit);
    return values;
  }
};

inline uint64_t the_digest = 0xcbf29ce484222325u;
template <class T>
void digest(const T& value) {
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  for (unsigned char byte : bytes) the_digest = (the_digest ^ byte) * 0x100000001b3u;
}
template <class T>
void digest(const std::vector<T>& values) {
  for (const T& value : values) digest(value);
}
inline int finish() {
  std::printf("ok %016llx\n", static_cast<unsigned long long>(the_digest));
  return 0;
}

template <class A, class B>
void expect_same(const std::vector<A>& got, const std::vector<B>& expected, const char* what = "result") {
  if (got.size() != expected.size()) fail("%s: %zu values instead of %zu", what, got.size(), expected.size());
  for (size_t i = 0; i < got.size(); i++)
    if (!(got[i] == static_cast<A>(expected[i])))
      fail("%s[%zu]: %.17g instead of %.17g", what, i, static_cast<double>(got[i]),
           static_cast<double>(expected[i]));
}

// |got - expected| <= absolute + relative * |expected|, and no NaN.
template <class A, class B>
void expect_near(const std::vector<A>& got, const std::vector<B>& expected, double relative,
                 double absolute = 0, const char* what = "result") {
  if (got.size() != expected.size()) fail("%s: %zu values instead of %zu", what, got.size(), expected.size());
  for (size_t i = 0; i < got.size(); i++) {
    double a = static_cast<double>(got[i]), b = static_cast<double>(expected[i]);
    if (!(std::fabs(a - b) <= absolute + relative * std::fabs(b)))
      fail("%s[%zu]: %.9g instead of %.9g", what, i, a, b);
  }
}

// Device memory that is freed at the end of its scope. It waits for the copy that fills it: a copy from
// pageable memory may still run when the call returns, and only the default stream waits for it.
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
  void zero() {
    CALL(cudaMemset(data, 0, count * sizeof(T)));
    CALL(cudaStreamSynchronize(0));
  }
  std::vector<T> host() const {
    std::vector<T> values(count);
    CALL(cudaMemcpy(values.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
};
