// Loads and stores of several widths: float4, char2, structures by value, read-only and streaming access,
// unions, local arrays indexed at run time.
#include "check.h"

struct __align__(16) Particle {
  float position[3];
  int kind;
};
struct Odd {
  char a;
  short b;
  char c[5];
};

__global__ void move(const float4* __restrict__ in, float4* out, const Particle* particles, Particle* moved,
                     const Odd* odd, Odd* changed, const uchar2* bytes, uchar2* swapped, const double2* wide,
                     double2* sums) {
  int i = threadIdx.x;
  float4 v = __ldg(&in[i]);
  out[i] = make_float4(v.w, v.z, v.y, v.x);
  Particle p = particles[i];
  p.position[p.kind % 3] += 1;  // an index that is known only at run time
  moved[i] = p;
  Odd o = odd[i];
  o.c[o.a % 5] = o.b;
  changed[i] = o;
  uchar2 b = bytes[i];
  swapped[i] = make_uchar2(b.y, b.x);
  double2 w = __ldcs(&wide[i]);
  __stcg(&sums[i], make_double2(w.x + w.y, w.x - w.y));
}

int main() {
  const int n = 64;
  Random random(70);
  std::vector<float4> in(n);
  std::vector<Particle> particles(n);
  std::vector<Odd> odd(n);
  std::vector<uchar2> bytes(n);
  std::vector<double2> wide(n);
  for (int i = 0; i < n; i++) {
    in[i] = {random.uniform(), random.uniform(), random.uniform(), random.uniform()};
    particles[i] = {{random.uniform(), random.uniform(), random.uniform()}, int(random.below(100))};
    odd[i] = {char(random.below(100)), short(i), {1, 2, 3, 4, 5}};
    bytes[i] = {static_cast<unsigned char>(i), static_cast<unsigned char>(200 + i)};
    wide[i] = {random.uniform(), random.uniform()};
  }
  Buffer<float4> din(in), out(n);
  Buffer<Particle> dp(particles), moved(n);
  Buffer<Odd> dodd(odd), changed(n);
  Buffer<uchar2> db(bytes), swapped(n);
  Buffer<double2> dw(wide), sums(n);
  move<<<1, n>>>(din, out, dp, moved, dodd, changed, db, swapped, dw, sums);
  LAUNCHED();
  for (int i = 0; i < n; i++) {
    float4 v = out.host()[i];
    EXPECT(v.x == in[i].w && v.y == in[i].z && v.z == in[i].y && v.w == in[i].x);
    Particle p = particles[i];
    p.position[p.kind % 3] += 1;
    Particle got = moved.host()[i];
    EXPECT(std::memcmp(&p, &got, sizeof p) == 0);
    Odd o = odd[i], other = changed.host()[i];
    o.c[o.a % 5] = char(o.b);
    EXPECT(o.a == other.a && o.b == other.b && std::memcmp(o.c, other.c, 5) == 0);
    EXPECT(swapped.host()[i].x == bytes[i].y && swapped.host()[i].y == bytes[i].x);
    EXPECT(sums.host()[i].x == wide[i].x + wide[i].y && sums.host()[i].y == wide[i].x - wide[i].y);
    digest(got);
  }
  return finish();
}
