// nvcc: -std=c++17 -lcuda -lcurand -Xcompiler -pthread
// run: ways=static
// Holds a CUDA object that prevents a checkpoint, and releases it after half of its steps: held WHAT, with
// WHAT one of graph, executable_graph, capture, captured_draw, context, spinning_kernel, awaited_kernel (a
// thread waits for it, and it waits for this thread), failed_kernel, ipc_event, protected_memory,
// unloaded_malloc (memory of the device's heap, whose code is gone), variable (of the environment, set after
// its library was used).
#include <cuda.h>
#include <curand.h>
#include <pthread.h>
#include <sys/mman.h>

#include <string>

#include "../../refused.h"
#include "saved.h"

static cudaStream_t stream;
static cudaGraph_t graph;
static cudaGraphExec_t executable;
static CUcontext context;
static cudaEvent_t event;
static unsigned* memory;
static volatile unsigned* word;
static void* registered;

__global__ void add(unsigned* values) { values[threadIdx.x]++; }

__global__ void wait_for(volatile unsigned* until) {
  while (!*until) {
  }
}

__global__ void fail() { __trap(); }

static pthread_t waiter;
static void* await(void*) {
  CALL(cudaStreamSynchronize(stream));
  return nullptr;
}

static void never(void*) {}
static void seldom(void* what) { *static_cast<volatile unsigned*>(what) = 2; }

// Generators: the numbers of one fill more than half of a small device; a draw of the other is captured into
// a graph, and happens when the graph is launched.
static curandGenerator_t whole, captured;
static float* numbers;
constexpr size_t kNumbers = 9 << 20;
#define CURAND(what) EXPECT((what) == CURAND_STATUS_SUCCESS)

static void draw() {
  CALL(cudaMalloc(&numbers, kNumbers * sizeof(float)));
  CURAND(curandCreateGenerator(&whole, CURAND_RNG_PSEUDO_PHILOX4_32_10));
  CURAND(curandGenerateUniform(whole, numbers, kNumbers));
  CURAND(curandCreateGenerator(&captured, CURAND_RNG_PSEUDO_PHILOX4_32_10));
  CURAND(curandSetStream(captured, stream));
  CURAND(curandGenerateUniform(captured, numbers, 1024));
  CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CURAND(curandGenerateUniform(captured, numbers, 1024));
  CALL(cudaStreamEndCapture(stream, &graph));
  CALL(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; i++) CALL(cudaGraphLaunch(executable, stream));
  CALL(cudaStreamSynchronize(stream));
  CALL(cudaGraphExecDestroy(executable));
  CALL(cudaGraphDestroy(graph));
}

// A kernel that keeps memory of the device's heap, as nvcc writes it.
static const char* kAllocates = R"(.version 8.0
.target sm_75
.address_size 64
.extern .func (.param .b64 func_retval0) malloc (.param .b64 malloc_param_0);
.visible .entry allocate(.param .u64 at) {
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [at];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u64 %rd2, 64;
  {
    .param .b64 param0;
    st.param.b64 [param0+0], %rd2;
    .param .b64 retval0;
    call.uni (retval0), malloc, (param0);
    ld.param.b64 %rd3, [retval0+0];
  }
  st.global.u64 [%rd1], %rd3;
  ret;
}
)";

static void allocate_and_unload() {
  CUmodule module;
  CUfunction function;
  void* arguments[] = {&memory};
  EXPECT(cuModuleLoadData(&module, kAllocates) == CUDA_SUCCESS);
  EXPECT(cuModuleGetFunction(&function, module, "allocate") == CUDA_SUCCESS);
  EXPECT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr) == CUDA_SUCCESS);
  CALL(cudaStreamSynchronize(stream));
  EXPECT(cuModuleUnload(module) == CUDA_SUCCESS);
}

static void capture() {
  CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  add<<<1, 32, 0, stream>>>(memory);
}

static void take(const char* name) {
  const std::string what = name;
  CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CALL(cudaMalloc(&memory, 4096));
  CALL(cudaMemset(memory, 0, 4096));
  CALL(cudaHostAlloc(const_cast<unsigned**>(&word), 4096, cudaHostAllocMapped));
  *word = 0;
  if (what == "capture") capture();
  if (what == "graph" || what == "executable_graph") {
    capture();
    CALL(cudaStreamEndCapture(stream, &graph));
  }
  if (what == "executable_graph") {
    CALL(cudaGraphInstantiate(&executable, graph, 0));
    CALL(cudaGraphDestroy(graph));
    CALL(cudaGraphLaunch(executable, stream));
  }
  if (what == "context") {
    EXPECT(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
    CALL(cudaSetDevice(0));
  }
  if (what == "spinning_kernel") {
    wait_for<<<1, 1, 0, stream>>>(word);
    LAUNCHED();
    CALL(cudaLaunchHostFunc(stream, seldom, const_cast<unsigned*>(word)));
  }
  if (what == "awaited_kernel") {
    wait_for<<<1, 1, 0, stream>>>(word);
    LAUNCHED();
    EXPECT(pthread_create(&waiter, nullptr, await, nullptr) == 0);
  }
  if (what == "failed_kernel") {  // host functions are not called after a failure
    wait_for<<<1, 1, 0, stream>>>(word);
    fail<<<1, 1, 0, stream>>>();
    LAUNCHED();
    CALL(cudaLaunchHostFunc(stream, never, nullptr));
    *word = 1;
    EXPECT(cudaStreamSynchronize(stream) != cudaSuccess);
    void* more = nullptr;  // nothing runs any more, and nothing can be allocated
    for (const size_t size : {size_t{100}, size_t{10} << 20})
      EXPECT(cudaMalloc(&more, size) == cudaErrorLaunchFailure);
  }
  if (what == "captured_draw") draw();
  if (what == "unloaded_malloc") allocate_and_unload();
  if (what == "variable") {
    CURAND(curandCreateGenerator(&captured, CURAND_RNG_PSEUDO_PHILOX4_32_10));
    setenv("CURAND_ANYTHING", "1", 1);
  }
  if (what == "protected_memory") {
    registered = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CALL(cudaHostRegister(registered, 4096, 0));
    EXPECT(mprotect(registered, 4096, PROT_READ) == 0);
  }
  cudaIpcEventHandle_t event_handle;
  if (what == "ipc_event") {
    CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
    CALL(cudaIpcGetEventHandle(&event_handle, event));
  }
}

static void let_go(const char* name) {
  const std::string what = name;
  if (what == "capture") CALL(cudaStreamEndCapture(stream, &graph));
  if (what == "graph" || what == "capture") CALL(cudaGraphDestroy(graph));
  if (what == "executable_graph") {
    CALL(cudaStreamSynchronize(stream));
    CALL(cudaGraphExecDestroy(executable));
  }
  if (what == "context") EXPECT(cuCtxDestroy(context) == CUDA_SUCCESS);
  if (what == "spinning_kernel") {
    *word = 1;
    CALL(cudaStreamSynchronize(stream));
    EXPECT(*word == 2);
  }
  if (what == "awaited_kernel") {
    *word = 1;
    EXPECT(pthread_join(waiter, nullptr) == 0);
  }
  if (what == "unloaded_malloc") CALL(cudaDeviceReset());
  if (what == "variable") unsetenv("CURAND_ANYTHING");
  if (what == "captured_draw") CURAND(curandDestroyGenerator(captured));
  if (what == "protected_memory") {
    EXPECT(mprotect(registered, 4096, PROT_READ | PROT_WRITE) == 0);
    CALL(cudaHostUnregister(registered));
  }
  if (what == "ipc_event") CALL(cudaEventDestroy(event));
}

static void draw_on() {
  CURAND(curandGenerateUniform(whole, numbers, kNumbers));
  std::vector<float> drawn(1024);
  CALL(cudaMemcpy(drawn.data(), numbers, drawn.size() * sizeof(float), cudaMemcpyDeviceToHost));
  mix(drawn);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  refused_steps(argc, argv, take, let_go);
  if (whole) draw_on();
  steplog_ok();
  return 0;
}
