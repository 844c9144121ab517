// Bit operations: population count, leading zeros, reversal, first set bit, funnel shifts, byte permutation,
// dot products of bytes, sums of absolute differences, bit fields, packed video arithmetic.
#include "check.h"

__global__ void tricks(const unsigned* a, const unsigned* b, unsigned* out, int n) {
  int i = threadIdx.x;
  unsigned x = a[i], y = b[i];
  unsigned long long wide = static_cast<unsigned long long>(x) << 32 | y;
  unsigned* o = out + i * 24;
  o[0] = __popc(x) * 100 + __popcll(wide);
  o[1] = __clz(x >> i % 33 % 32) * 100 + __clzll(wide >> i % 64);
  o[2] = __brev(x);
  o[3] = static_cast<unsigned>(__brevll(wide) >> 32);
  o[4] = __ffs(x & ~7u) * 100 + __ffsll(wide & ~0xfffull);
  o[5] = __funnelshift_l(x, y, i);
  o[6] = __funnelshift_r(x, y, i);
  o[7] = __funnelshift_lc(x, y, i);
  o[8] = __byte_perm(x, y, 0x1735 + i % 8 * 0x1000);
  o[9] = __dp4a(static_cast<int>(x), static_cast<int>(y), 5);
  o[10] = __dp4a(x, y, 5u);
  o[11] = __sad(static_cast<int>(x), static_cast<int>(y), 1u);
  o[12] = __usad(x, y, 1u);
  o[13] = __umulhi(x, y);
  o[14] = __mulhi(static_cast<int>(x), static_cast<int>(y));
  o[15] = __mul24(static_cast<int>(x), static_cast<int>(y));
  o[16] = __uhadd(x, y);
  o[17] = __rhadd(static_cast<int>(x), static_cast<int>(y));
  o[18] = __vadd4(x, y);
  o[19] = __vabsdiffu4(x, y);
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(o[20]) : "r"(x), "r"(i % 40), "r"(i % 35));
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(o[21]) : "r"(x), "r"(y), "r"(i % 40), "r"(i % 35));
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(o[22]) : "r"(x), "r"(y), "r"(i));
  asm("prmt.b32.rc8 %0, %1, %2, %3;" : "=r"(o[23]) : "r"(x), "r"(y), "r"(i));
}

static int signed_byte(unsigned value, int k) { return static_cast<int8_t>(value >> (8 * k)); }

int main() {
  const int n = 128;
  Random random(41);
  std::vector<unsigned> a(n), b(n), expected(24 * n);
  for (unsigned& value : a) value = random.next() & (random.next() | random.next());
  for (unsigned& value : b) value = random.next();
  a[3] = 0;
  for (int i = 0; i < n; i++) {
    unsigned x = a[i], y = b[i], *o = &expected[24 * i];
    uint64_t wide = uint64_t(x) << 32 | y;
    int64_t sx = int(x), sy = int(y);
    auto clz = [](unsigned v) { return v ? __builtin_clz(v) : 32; };
    auto clzll = [](uint64_t v) { return v ? __builtin_clzll(v) : 64; };
    auto reversed = [](unsigned v) {
      unsigned r = 0;
      for (int k = 0; k < 32; k++) r |= (v >> k & 1) << (31 - k);
      return r;
    };
    o[0] = __builtin_popcount(x) * 100 + __builtin_popcountll(wide);
    o[1] = clz(x >> i % 33 % 32) * 100 + clzll(wide >> i % 64);
    o[2] = reversed(x);
    o[3] = reversed(y);
    o[4] = __builtin_ffs(x & ~7u) * 100 + __builtin_ffsll(wide & ~0xfffull);
    uint64_t pair = uint64_t(y) << 32 | x;
    o[5] = static_cast<unsigned>(pair << (i & 31) >> 32);
    o[6] = static_cast<unsigned>(pair >> (i & 31));
    o[7] = static_cast<unsigned>((i >= 32 ? pair << 32 : pair << i) >> 32);
    unsigned selector = 0x1735 + i % 8 * 0x1000;
    for (int k = 0; k < 4; k++) {
      int from = selector >> (4 * k) & 7;
      o[8] |= static_cast<unsigned>(pair >> (8 * from) & 0xff) << (8 * k);
    }
    int dot = 5;
    unsigned udot = 5;
    for (int k = 0; k < 4; k++) {
      dot += signed_byte(x, k) * signed_byte(y, k);
      udot += (x >> 8 * k & 255) * (y >> 8 * k & 255);
      o[18] |= ((x >> 8 * k) + (y >> 8 * k) & 255) << 8 * k;
      o[19] |= static_cast<unsigned>(std::abs(int(x >> 8 * k & 255) - int(y >> 8 * k & 255))) << 8 * k;
      o[23] |= (x >> 8 * (i & 3) & 255) << 8 * k;  // rc8: the selected byte in all four places
    }
    o[23] = 0;
    for (int k = 0; k < 4; k++) o[23] |= (x >> 8 * (i & 3) & 255) << 8 * k;
    o[9] = dot;
    o[10] = udot;
    o[11] = static_cast<unsigned>(sx > sy ? sx - sy : sy - sx) + 1;
    o[12] = (x > y ? x - y : y - x) + 1;
    o[13] = uint64_t(x) * y >> 32;
    o[14] = static_cast<unsigned>(sx * sy >> 32);
    o[15] = static_cast<unsigned>(int64_t(int(x << 8) >> 8) * (int(y << 8) >> 8));
    o[16] = (uint64_t(x) + y) >> 1;
    o[17] = static_cast<unsigned>((sx + sy + 1) >> 1);
    int position = i % 40, length = i % 35;
    o[20] = position >= 32 || length == 0 ? 0
            : length >= 32                ? x >> position
                                          : (x >> position) & ((1u << length) - 1);
    unsigned mask = position >= 32 || length == 0 ? 0 : (length >= 32 ? ~0u : (1u << length) - 1) << position;
    o[21] = (y & ~mask) | (position >= 32 ? 0 : x << position & mask);
    o[22] = x ^ y ^ i;
  }
  Buffer<unsigned> da(a), db(b), out(24 * n);
  tricks<<<1, n>>>(da, db, out, n);
  LAUNCHED();
  std::vector<unsigned> got = out.host();
  for (int i = 0; i < 24 * n; i++)
    if (got[i] != expected[i])
      fail("trick %d, %d: %08x instead of %08x", i % 24, i / 24, got[i], expected[i]);
  digest(got);
  return finish();
}
