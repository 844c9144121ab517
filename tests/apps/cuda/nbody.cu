// Bodies that attract each other, tiles of them in shared memory, a few steps of leapfrog; energy on the
// host.
#include "check.h"

constexpr int kTile = 64;

__global__ void accelerate(const float4* bodies, float4* velocities, int n, float time) {
  __shared__ float4 tile[kTile];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 me = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
  float ax = 0, ay = 0, az = 0;
  for (int first = 0; first < n; first += kTile) {
    tile[threadIdx.x] = first + threadIdx.x < n ? bodies[first + threadIdx.x] : make_float4(0, 0, 0, 0);
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < kTile; j++) {
      float x = tile[j].x - me.x, y = tile[j].y - me.y, z = tile[j].z - me.z;
      float inverse = rsqrtf(x * x + y * y + z * z + 0.01f);
      float force = tile[j].w * inverse * inverse * inverse;
      ax += x * force;
      ay += y * force;
      az += z * force;
    }
    __syncthreads();
  }
  if (i < n) {
    velocities[i].x += ax * time;
    velocities[i].y += ay * time;
    velocities[i].z += az * time;
  }
}

__global__ void move(float4* bodies, const float4* velocities, int n, float time) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  bodies[i].x += velocities[i].x * time;
  bodies[i].y += velocities[i].y * time;
  bodies[i].z += velocities[i].z * time;
}

int main() {
  const int n = 150, steps = 4;
  const float time = 0.01f;
  Random random(73);
  std::vector<float4> bodies(n), velocities(n);
  for (float4& body : bodies)
    body = {random.uniform(), random.uniform(), random.uniform(), random.uniform(0.1f, 1)};
  Buffer<float4> db(bodies), dv(velocities);
  std::vector<double> p, v(3 * n);
  for (float4& body : bodies) p.insert(p.end(), {body.x, body.y, body.z});
  for (int s = 0; s < steps; s++) {
    accelerate<<<(n + kTile - 1) / kTile, kTile>>>(db, dv, n, time);
    move<<<(n + kTile - 1) / kTile, kTile>>>(db, dv, n, time);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) {
        double d[3], square = 0.01f;
        for (int k = 0; k < 3; k++) d[k] = p[3 * j + k] - p[3 * i + k], square += d[k] * d[k];
        for (int k = 0; k < 3; k++) v[3 * i + k] += d[k] * bodies[j].w / (square * std::sqrt(square)) * time;
      }
    for (int i = 0; i < 3 * n; i++) p[i] += v[i] * time;
  }
  LAUNCHED();
  std::vector<double> got;
  for (float4 body : db.host()) got.insert(got.end(), {body.x, body.y, body.z});
  expect_near(got, p, 1e-4, 1e-4);
  digest(got);
  return finish();
}
