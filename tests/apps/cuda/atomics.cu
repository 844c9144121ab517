// Every atomic function, 32 and 64 bits, and compare-and-swap loops for operations without one.
#include "check.h"

__device__ double atomic_multiply(double* address, double value) {
  auto* bits = reinterpret_cast<unsigned long long*>(address);
  unsigned long long old = *bits, assumed;
  do {
    assumed = old;
    old = atomicCAS(
        bits, assumed,
        static_cast<unsigned long long>(__double_as_longlong(value * __longlong_as_double(assumed))));
  } while (assumed != old);
  return __longlong_as_double(old);
}

__device__ void atomic_max(float* address, float value) {
  int old = __float_as_int(*address), assumed;
  do {
    assumed = old;
    old = atomicCAS(reinterpret_cast<int*>(address), assumed,
                    __float_as_int(fmaxf(value, __int_as_float(assumed))));
  } while (assumed != old);
}

__global__ void use(unsigned* u, int* s, unsigned long long* l, float* f, double* d, unsigned short* h) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&u[0], i);
  atomicSub(&u[1], i);
  atomicMin(&u[2], i + 10);
  atomicMax(&u[3], i * 7 % 1000);
  atomicAnd(&u[4], ~(1u << i % 31));
  atomicOr(&u[5], 1u << i % 30);
  atomicXor(&u[6], i);
  atomicInc(&u[7], 99);
  atomicDec(&u[8], 49);
  atomicMin(&s[0], 5 - int(i));
  atomicMax(&s[1], -int(i) - 3);
  atomicAdd(&s[2], -1);
  atomicAdd(&l[0], 1ull << 33);
  atomicMax(&l[1], (1ull << 40) + i);
  atomicMin(&l[2], (1ull << 40) + i);
  atomicXor(&l[3], static_cast<unsigned long long>(i) << 20);
  atomicOr(&l[4], 1ull << i % 64);
  atomicAnd(&l[5], ~(1ull << i % 60));
  atomicMin(reinterpret_cast<long long*>(&l[6]), -static_cast<long long>(i));
  atomicAdd(&f[0], 2.0f);
  atomic_max(&f[1], static_cast<float>(i * 37 % 501));
  atomicAdd(&d[0], 0.5);
  if (i % 64 == 0) atomic_multiply(&d[1], 2);
  unsigned short old = h[1], assumed;
  do {
    assumed = old;
    old = atomicCAS(&h[1], assumed, static_cast<unsigned short>(assumed + 3));
  } while (old != assumed);
}

__global__ void returns(int* counter, int* tickets) {
  tickets[atomicAdd(counter, 1)] = 1 + atomicExch(&counter[1], threadIdx.x) * 0;
}

int main() {
  const int n = 640;
  std::vector<unsigned> u = {0, 0, 1000, 0, ~0u, 0, 0, 0, 0};
  std::vector<int> s = {0, -100000, 0};
  std::vector<unsigned long long> l = {0, 0, ~0ull, 0, 0, ~0ull, 0};
  std::vector<float> f = {0, 0};
  std::vector<double> d = {0, 1};
  std::vector<unsigned short> h = {7, 65535, 9, 9};
  Buffer<unsigned> du(u);
  Buffer<int> ds(s), counter(std::vector<int>(2)), tickets(n);
  Buffer<unsigned long long> dl(l);
  Buffer<float> df(f);
  Buffer<double> dd(d);
  Buffer<unsigned short> dh(h);
  use<<<5, 128>>>(du, ds, dl, df, dd, dh);
  tickets.zero();
  returns<<<5, 128>>>(counter, tickets);
  LAUNCHED();
  for (unsigned i = 0; i < n; i++) {
    u[0] += i;
    u[1] -= i;
    u[2] = std::min(u[2], i + 10);
    u[3] = std::max(u[3], i * 7 % 1000);
    u[4] &= ~(1u << i % 31);
    u[5] |= 1u << i % 30;
    u[6] ^= i;
    u[7] = u[7] >= 99 ? 0 : u[7] + 1;
    u[8] = u[8] == 0 || u[8] > 49 ? 49 : u[8] - 1;
    s[0] = std::min(s[0], 5 - int(i));
    s[1] = std::max(s[1], -int(i) - 3);
    s[2]--;
    l[0] += 1ull << 33;
    l[1] = std::max(l[1], (1ull << 40) + i);
    l[2] = std::min(l[2], (1ull << 40) + i);
    l[3] ^= static_cast<unsigned long long>(i) << 20;
    l[4] |= 1ull << i % 64;
    l[5] &= ~(1ull << i % 60);
    l[6] = std::min(static_cast<long long>(l[6]), -static_cast<long long>(i));
    f[0] += 2;
    f[1] = std::max(f[1], static_cast<float>(i * 37 % 501));
    d[0] += 0.5;
    if (i % 64 == 0) d[1] *= 2;
    h[1] += 3;
  }
  expect_same(du.host(), u, "unsigned");
  expect_same(ds.host(), s, "signed");
  expect_same(dl.host(), l, "64 bits");
  expect_same(df.host(), f, "float");
  expect_same(dd.host(), d, "double");
  expect_same(dh.host(), h, "16 bits");
  expect_same(tickets.host(), std::vector<int>(n, 1), "tickets");
  digest(u);
  digest(l);
  return finish();
}
