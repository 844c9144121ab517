// nvcc: -std=c++17 -Xcompiler -fPIC -shared
// A plug-in with its own runtime.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CALL(what)                                                                        \
  do {                                                                                    \
    cudaError_t e_ = (what);                                                              \
    if (e_ != cudaSuccess) fprintf(stderr, "plug-in: %s: %d\n", #what, (int)e_), exit(1); \
  } while (0)

typedef uint32_t (*Function)(uint32_t);
static __device__ uint32_t variable;
static __device__ __noinline__ uint32_t twist(uint32_t v) { return (v ^ v >> 11) * 2654435761u; }
static __device__ __noinline__ uint32_t turn(uint32_t v) { return v << 9 | v >> 23; }
static __global__ void fill(Function* table) { table[0] = twist, table[1] = turn; }
static __global__ void work(uint32_t* v, uint32_t step) {
  variable = variable * 3 + step;
  *v = (*v + variable) ^ step;
}
struct State {
  Function* table;
  cudaStream_t own;
};

extern "C" void* plugin_begin(uint32_t seed) {
  auto* s = new State;
  CALL(cudaMalloc(&s->table, 2 * sizeof(Function)));
  CALL(cudaStreamCreateWithFlags(&s->own, cudaStreamNonBlocking));
  CALL(cudaMemcpyToSymbol(variable, &seed, 4));
  CALL(cudaDeviceSynchronize());
  fill<<<1, 1, 0, s->own>>>(s->table);
  CALL(cudaStreamSynchronize(s->own));
  return s;
}
extern "C" void plugin_step(void*, cudaStream_t stream, cudaEvent_t event, uint32_t* v, uint32_t step) {
  work<<<1, 1, 0, stream>>>(v, step);
  CALL(cudaEventRecord(event, stream));
}
extern "C" uint32_t plugin_variable() {
  uint32_t v;
  CALL(cudaMemcpyFromSymbol(&v, variable, 4));
  return v;
}
extern "C" void plugin_end(void* state) {
  auto* s = static_cast<State*>(state);
  CALL(cudaFree(s->table));
  CALL(cudaStreamDestroy(s->own));
  delete s;
}
