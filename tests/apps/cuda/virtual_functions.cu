// Objects made on the device with virtual functions, which other kernels call.
// run: also=shared
#include "check.h"

struct Shape {
  float size;
  __device__ explicit Shape(float s) : size(s) {}
  __device__ virtual ~Shape() {}
  __device__ virtual float area() const = 0;
  __device__ virtual int corners() const { return 0; }
};
struct Square : Shape {
  using Shape::Shape;
  __device__ float area() const override { return size * size; }
  __device__ int corners() const override { return 4; }
};
struct Disc : Shape {
  using Shape::Shape;
  __device__ float area() const override { return 3 * size * size; }
};
struct Triangle : Square {
  using Square::Square;
  __device__ float area() const override { return Square::area() / 2; }
  __device__ int corners() const override { return 3; }
};

__global__ void make(Shape** shapes, int n) {
  for (int i = 0; i < n; i++) switch (i % 3) {
      case 0:
        shapes[i] = new Square(i);
        break;
      case 1:
        shapes[i] = new Disc(i);
        break;
      case 2:
        shapes[i] = new Triangle(i);
        break;
    }
}

__global__ void measure(Shape** shapes, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = shapes[i]->area() + 1000 * shapes[i]->corners();
}

__global__ void destroy(Shape** shapes, int n) {
  for (int i = 0; i < n; i++) delete shapes[i];
}

int main() {
  const int n = 50;
  std::vector<float> expected(n);
  for (int i = 0; i < n; i++)
    expected[i] = i % 3 == 0 ? i * i + 4000.0f : i % 3 == 1 ? 3.0f * i * i : i * i / 2.0f + 3000;
  Buffer<Shape*> shapes(n);
  Buffer<float> out(n);
  make<<<1, 1>>>(shapes, n);
  measure<<<2, 32>>>(shapes, out, n);
  destroy<<<1, 1>>>(shapes, n);
  LAUNCHED();
  expect_same(out.host(), expected);
  digest(out.host());
  return finish();
}
