// Integer division and remainder of every width and sign, with corner cases, by variables and by constants.
#include "check.h"

#include <type_traits>

template <class T>
__global__ void divide(const T* a, const T* b, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[4 * i] = a[i] / b[i];
  out[4 * i + 1] = a[i] % b[i];
  out[4 * i + 2] = a[i] / T(7) + a[i] % T(10);
  out[4 * i + 3] = a[i] / T(16) - a[i] % T(64);
}

template <class T>
void check(const char* what) {
  using Limits = std::make_unsigned_t<T>;
  std::vector<T> corners = {T(0),
                            T(1),
                            T(2),
                            T(3),
                            T(-1),
                            T(-2),
                            T(-7),
                            T(10),
                            T(100),
                            T(Limits(~Limits(0)) >> 1),
                            T(T(Limits(~Limits(0)) >> 1) - 1),
                            T(T(1) << (8 * sizeof(T) - 1)),
                            T((T(1) << (8 * sizeof(T) - 1)) + 1)};
  std::vector<T> a, b, expected;
  for (T x : corners)
    for (T y : corners) {
      if (y == 0 || (std::is_signed_v<T> && y == T(-1) && x == T(Limits(1) << (8 * sizeof(T) - 1))))
        continue;  // undefined
      a.push_back(x);
      b.push_back(y);
    }
  Random random(43);
  for (int i = 0; i < 200; i++) {
    a.push_back(static_cast<T>(random.next()));
    T y = static_cast<T>(random.next() >> random.below(64));
    b.push_back(y ? y : T(1));
  }
  for (size_t i = 0; i < a.size(); i++) {
    volatile T x = a[i], y = b[i];
    for (T value : {T(x / y), T(x % y), T(x / T(7) + x % T(10)), T(x / T(16) - x % T(64))})
      expected.push_back(value);
  }
  Buffer<T> da(a), db(b), out(expected.size());
  divide<<<(a.size() + 63) / 64, 64>>>(da.data, db.data, out.data, static_cast<int>(a.size()));
  LAUNCHED();
  expect_same(out.host(), expected, what);
  digest(out.host());
}

int main() {
  check<int8_t>("int8");
  check<uint8_t>("uint8");
  check<int16_t>("int16");
  check<uint16_t>("uint16");
  check<int32_t>("int32");
  check<uint32_t>("uint32");
  check<int64_t>("int64");
  check<uint64_t>("uint64");
  return finish();
}
