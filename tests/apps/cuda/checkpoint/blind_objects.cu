// nvcc: -std=c++17 -lcuda
// run: ways=static,shared
// Objects that kernels build by placement new: virtual tables, pointers to functions, to device and managed
// variables and to each other. Kernels that take function addresses are first used in a special order, some
// of them late; temporary modules have pointers to their functions too. Symbols are written in stream order.
#include <cuda.h>

#include <new>

#include "saved.h"

#define CU(what)                                                                                 \
  do {                                                                                           \
    CUresult result_ = (what);                                                                   \
    if (result_ != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, (int)result_); \
  } while (0)

__device__ uint32_t weight = 7;
__managed__ uint32_t shared_weight = 11;
__constant__ uint32_t table[8];
__device__ uint32_t* to_weight = &weight;  // set by a static initialiser
__device__ uint32_t* to_managed;
__device__ const uint32_t* to_table;
__device__ void* everything[6];

typedef uint32_t (*Function)(uint32_t);
__device__ __noinline__ uint32_t twist(uint32_t v) { return (v ^ v >> 13) * 2654435761u; }
__device__ __noinline__ uint32_t turn(uint32_t v) { return v << 7 | v >> 25; }
__device__ __noinline__ uint32_t count_bits(uint32_t v) { return v + __popc(v); }
__device__ __noinline__ uint32_t late(uint32_t v) { return v * 3 + *to_weight; }
__device__ Function first_function = twist;
__device__ Function functions[4];

struct Shape {
  uint32_t size;
  Shape* next;
  __device__ Shape(uint32_t s) : size(s), next(nullptr) {}
  __device__ virtual uint32_t area(uint32_t v) const = 0;
};
struct Square : Shape {
  __device__ Square(uint32_t s) : Shape(s) {}
  __device__ uint32_t area(uint32_t v) const override { return size * size + v; }
};
struct Weighted : Shape {
  uint32_t* by;
  Function f;
  __device__ Weighted(uint32_t s, uint32_t* b, Function g) : Shape(s), by(b), f(g) {}
  __device__ uint32_t area(uint32_t v) const override { return f(v * *by) + size; }
};
struct Tabled : Square {
  __device__ Tabled(uint32_t s) : Square(s) {}
  __device__ uint32_t area(uint32_t v) const override { return Square::area(v) ^ to_table[v % 8]; }
};
constexpr size_t kRoom = 64;

// First used in this order: third, first, second; the fourth some steps later.
__global__ void take_first() { functions[0] = twist; }
__global__ void take_second() { functions[1] = turn, functions[2] = count_bits; }
__global__ void link_up() {
  to_managed = &shared_weight;
  to_table = table;
  everything[0] = &weight, everything[1] = &to_weight, everything[2] = everything,
  everything[3] = &shared_weight;
  everything[4] = (void*)table;
}
__global__ void take_late() { functions[3] = late; }
__global__ void build(char* room, int n) {
  Shape* last = nullptr;
  for (int i = 0; i < n; i++) {
    Shape* made;
    if (i % 3 == 0)
      made = new (room + i * kRoom) Square(i);
    else if (i % 3 == 1)
      made = new (room + i * kRoom) Weighted(i, i % 2 ? to_weight : to_managed, functions[i % 2]);
    else
      made = new (room + i * kRoom) Tabled(i);
    made->next = last;
    last = made;
  }
}
__global__ void change_one(char* room, int i) {
  if (i % 2)
    new (room + i * kRoom) Weighted(i, to_managed, functions[2]);
  else
    new (room + i * kRoom) Tabled(i);
}
__global__ void walk(Shape* from, int late_too, uint32_t* to) {
  uint32_t v = *to;
  for (Shape* s = from; s; s = s->next) v = s->area(v);
  v = first_function(v);
  for (int i = 0; i < 3 + late_too; i++) v = functions[i](v);
  if (everything[2] != everything || everything[0] != to_weight || everything[1] != &to_weight ||
      everything[3] != to_managed || everything[4] != (void*)table)
    v = 0;
  *to = v;
  *to_weight = weight * 5 + 1;
  *to_managed += v & 15;
}

static const char* kModule = R"(
.version 7.0
.target sm_75
.address_size 64
.global .u32 number = 5;
.global .u64 here = generic(number);
.visible .func (.param .u32 r) plus(.param .u32 v) {
  .reg .u32 %r<4>;
  ld.param.u32 %r1, [v];
  add.u32 %r2, %r1, 12345;
  st.param.u32 [r], %r2;
  ret;
}
.visible .entry keep(.param .u64 to) {
  .reg .u64 %rd<4>;
  ld.param.u64 %rd1, [to];
  mov.u64 %rd2, plus;
  st.global.u64 [%rd1], %rd2;
  mov.u64 %rd3, number;
  st.global.u64 [%rd1+8], %rd3;
  ret;
}
.visible .entry use(.param .u64 from, .param .u64 to) {
  .reg .u64 %rd<5>;
  .reg .u32 %r<6>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  ld.global.u64 %rd3, [%rd1];
  ld.global.u32 %r1, [%rd2];
  { .param .u32 a; .param .u32 b;
    st.param.u32 [a], %r1;
    prototype: .callprototype (.param .u32 _) _ (.param .u32 _);
    call (b), %rd3, (a), prototype;
    ld.param.u32 %r2, [b]; }
  ld.global.u64 %rd4, [%rd1+8];
  ld.global.u32 %r3, [%rd4];
  add.u32 %r4, %r2, %r3;
  st.global.u32 [%rd2], %r4;
  add.u32 %r3, %r3, 2;
  st.global.u32 [%rd4], %r3;
  ret;
}
)";

static uint32_t h_twist(uint32_t v) { return (v ^ v >> 13) * 2654435761u; }
static uint32_t h_turn(uint32_t v) { return v << 7 | v >> 25; }
static uint32_t h_count(uint32_t v) { return v + __builtin_popcount(v); }

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  cudaStream_t stream;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  constexpr int kShapes = 40;
  char* room;
  uint32_t *value, *pinned;
  uint64_t* kept[2];
  CALL(cudaMalloc(&room, kShapes * kRoom));
  CALL(cudaMalloc(&value, 8));
  for (auto& k : kept) CALL(cudaMalloc(&k, 16));
  CALL(cudaMallocHost(&pinned, 64));
  CALL(cudaMemset(value, 1, 8));
  CALL(cudaDeviceSynchronize());
  for (int i = 0; i < 8; i++) pinned[i] = i * 77 + 1;
  CALL(cudaMemcpyToSymbolAsync(table, pinned, 32, 0, cudaMemcpyHostToDevice, stream));
  link_up<<<1, 1, 0, stream>>>();
  take_second<<<1, 1, 0, stream>>>();
  take_first<<<1, 1, 0, stream>>>();
  build<<<1, 1, 0, stream>>>(room, kShapes);
  CALL(cudaStreamSynchronize(stream));
  void* addresses[2];
  CALL(cudaGetSymbolAddress(&addresses[0], weight));
  CALL(cudaGetSymbolAddress(&addresses[1], table));
  struct Model {
    int kind;
    uint32_t size;
    bool managed;
    int f;
  };
  std::vector<Model> model(kShapes);
  for (int i = 0; i < kShapes; i++) model[i] = {i % 3, static_cast<uint32_t>(i), i % 2 == 0, i % 2};
  uint32_t v = 0x01010101, m = 0x01010101, w = 7, sw = 11, numbers[2] = {5, 5};
  CUmodule modules[2] = {};
  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    const int late_too = step >= 4;
    if (step == 4) take_late<<<1, 1, 0, stream>>>();
    // Two modules from the same text take turns; each keeps its functions' addresses while it is loaded.
    for (int i = 0; i < 2; i++) {
      if (step % 7 == 3 * i + 1 && !modules[i]) {
        CUfunction keep;
        CU(cuModuleLoadData(&modules[i], kModule));
        CU(cuModuleGetFunction(&keep, modules[i], "keep"));
        void* arguments[] = {&kept[i]};
        CU(cuLaunchKernel(keep, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
        numbers[i] = 5;
      }
      if (modules[i]) {
        CUfunction use;
        uint32_t* to = value + 1;
        CU(cuModuleGetFunction(&use, modules[i], "use"));
        void* arguments[] = {&kept[i], &to};
        CU(cuLaunchKernel(use, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
        m = m + 12345 + numbers[i];
        numbers[i] += 2;
      }
    }
    int one = static_cast<int>(step % kShapes);
    if (step % 4 == 3 && one) {  // the new module does not know the previous link: link it again
      change_one<<<1, 1, 0, stream>>>(room, one);
      Shape* before = reinterpret_cast<Shape*>(room + (one - 1) * kRoom);
      CALL(cudaMemcpyAsync(room + one * kRoom + 16, &before, 8, cudaMemcpyHostToDevice, stream));
      CALL(cudaStreamSynchronize(stream));
      if (one % 2)
        model[one] = {1, static_cast<uint32_t>(one), true, 2};
      else
        model[one] = {2, static_cast<uint32_t>(one), false, 0};
    }
    if (step % 6 == 5) {
      for (int i = 0; i < 8; i++) pinned[8 + i] = pinned[i] + static_cast<uint32_t>(step);
      CALL(cudaMemcpyToSymbolAsync(table, pinned + 8, 32, 0, cudaMemcpyHostToDevice, stream));
    }
    walk<<<1, 1, 0, stream>>>(reinterpret_cast<Shape*>(room + (kShapes - 1) * kRoom), late_too, value);
    LAUNCHED();
    CALL(cudaStreamSynchronize(stream));
    if (step % 6 == 5) memcpy(pinned, pinned + 8, 32);
    for (int i = kShapes - 1; i >= 0; i--) {
      const Model& s = model[i];
      if (s.kind == 0)
        v = s.size * s.size + v;
      else if (s.kind == 2)
        v = (s.size * s.size + v) ^ pinned[v % 8];
      else {
        uint32_t x = v * (s.managed ? sw : w);
        v = (s.f == 0 ? h_twist(x) : s.f == 1 ? h_turn(x) : h_count(x)) + s.size;
      }
    }
    v = h_twist(v);
    v = h_count(h_turn(h_twist(v)));
    if (late_too) v = v * 3 + w;
    w = w * 5 + 1;
    sw += v & 15;
    uint32_t got[2], now;
    CALL(cudaMemcpy(got, value, 8, cudaMemcpyDeviceToHost));
    EXPECT(got[0] == v);
    EXPECT(got[1] == m);
    CALL(cudaMemcpyFromSymbol(&now, weight, 4));
    EXPECT(now == w && shared_weight == sw);
    CALL(cudaMemcpy(&now, addresses[0], 4, cudaMemcpyDeviceToHost));
    EXPECT(now == w);
    shared_weight = ++sw;  // the host writes
    for (int i = 0; i < 2; i++)
      if (modules[i] && step % 7 == 2 * i + 4) {
        CU(cuModuleUnload(modules[i]));
        modules[i] = nullptr;
      }
    steplog_mix(got[0]);
    steplog_mix(got[1]);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}
