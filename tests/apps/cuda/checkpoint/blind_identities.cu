// nvcc: -std=c++17 -lcuda -lnccl -Xcompiler -Wno-cast-function-type
// run: ways=static
// Values that programs query once and keep: ids of streams, contexts and memory, kernels and functions, entry
// points of the driver and of NCCL, names of the device. In each step they are unchanged and still work; an
// error inside an NCCL group is reported at the group's end.
#include <cuda.h>
#include <dlfcn.h>
#include <nccl.h>

#include <set>
#include <string>

#include "saved.h"

#define NCCL(what) EXPECT((what) == ncclSuccess)
#define DRIVER(what) EXPECT((what) == CUDA_SUCCESS)

__global__ void add(uint32_t* v, uint32_t what) { *v += what; }

struct Told {
  unsigned long long streams[4], context, buffers[3];
  CUdeviceptr starts[3];
  size_t sizes[3];
  int flags[3];
  std::string bus, name, uuid;
};
static Told ask(cudaStream_t* streams, void** memory) {
  Told t = {};
  for (int i = 0; i < 4; i++) CALL(cudaStreamGetId(streams[i], &t.streams[i]));
  CUcontext context;
  DRIVER(cuCtxGetCurrent(&context));
  DRIVER(cuCtxGetId(context, &t.context));
  for (int i = 0; i < 3; i++) {
    const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(memory[i]);
    DRIVER(cuPointerGetAttribute(&t.buffers[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, at));
    DRIVER(cuPointerGetAttribute(&t.starts[i], CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + 8));
    DRIVER(cuPointerGetAttribute(&t.sizes[i], CU_POINTER_ATTRIBUTE_RANGE_SIZE, at));
    DRIVER(cuPointerGetAttribute(&t.flags[i], CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
  }
  char bus[64];
  CALL(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  t.bus = bus;
  cudaDeviceProp properties;
  CALL(cudaGetDeviceProperties(&properties, 0));
  t.name = properties.name;
  t.uuid.assign(properties.uuid.bytes, sizeof properties.uuid.bytes);
  return t;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  cudaStream_t streams[4] = {nullptr, cudaStreamPerThread};
  void* memory[3];
  CALL(cudaStreamCreate(&streams[2]));
  CALL(cudaStreamCreateWithFlags(&streams[3], cudaStreamNonBlocking));
  CALL(cudaMalloc(&memory[0], 4096));
  CALL(cudaMallocManaged(&memory[1], 4096));
  CALL(cudaMallocHost(&memory[2], 4096));
  for (void* one : memory) CALL(cudaMemset(one, 0, 4096));
  int on = 1;
  DRIVER(
      cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, reinterpret_cast<CUdeviceptr>(memory[0])));
  CALL(cudaDeviceSynchronize());
  cudaFunction_t function;
  cudaKernel_t kernel;
  CALL(cudaGetFuncBySymbol(&function, reinterpret_cast<const void*>(add)));
  CALL(cudaGetKernel(&kernel, reinterpret_cast<const void*>(add)));
  void *entry = nullptr, *library = dlopen("libnccl.so.2", RTLD_NOW);
  cudaDriverEntryPointQueryResult found;
  CALL(cudaGetDriverEntryPointByVersion("cuStreamSynchronize", &entry, 12000, cudaEnableDefault, &found));
  EXPECT(entry && library);
  auto synchronize = reinterpret_cast<CUresult (*)(CUstream)>(entry);
  auto version = reinterpret_cast<ncclResult_t (*)(int*)>(dlsym(library, "ncclGetVersion"));
  ncclUniqueId id;
  ncclComm_t comm;
  NCCL(ncclGetUniqueId(&id));
  NCCL(ncclCommInitRank(&comm, 1, id, 0));
  const bool without = steplog_has(argc, argv, "--without-threads");  // threads' own streams
  const Told was = ask(streams, memory);
  uint32_t* value = static_cast<uint32_t*>(memory[0]);
  uint32_t expected = 0;
  std::set<unsigned long long> given[2] = {{was.streams, was.streams + 4}, {was.buffers, was.buffers + 3}};
  while (steplog_done < steplog_steps) {
    uint32_t step = static_cast<uint32_t>(steplog_done), got = 0;
    const Told now = ask(streams, memory);
    for (int i = 0; i < 4; i++)
      if (now.streams[i] != was.streams[i] && !(i == 1 && without))
        steplog_fail("stream %d has id %llu, had %llu", i, now.streams[i], was.streams[i]);
    if (now.context != was.context) steplog_fail("context has id %llu, had %llu", now.context, was.context);
    for (int i = 0; i < 3; i++) {
      if (now.buffers[i] != was.buffers[i])
        steplog_fail("memory %d has id %llu, had %llu", i, now.buffers[i], was.buffers[i]);
      EXPECT(now.starts[i] == was.starts[i] && now.sizes[i] == was.sizes[i]);
      if (now.flags[i] != was.flags[i]) steplog_fail("SYNC_MEMOPS of memory %d is %d", i, now.flags[i]);
    }
    EXPECT(now.bus == was.bus && now.name == was.name && now.uuid == was.uuid);
    void* arguments[] = {&value, &step};
    DRIVER(cuLaunchKernel(reinterpret_cast<CUfunction>(function), 1, 1, 1, 1, 1, 1, 0, streams[2], arguments,
                          nullptr));
    DRIVER(synchronize(streams[2]));
    CALL(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0, streams[3]));
    CALL(cudaStreamSynchronize(streams[3]));
    expected += 2 * step;
    CALL(cudaMemcpy(&got, value, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == expected);
    // No id is ever used twice.
    unsigned long long fresh[2];
    cudaStream_t brief;
    void* block;
    CALL(cudaStreamCreate(&brief));
    CALL(cudaStreamGetId(brief, &fresh[0]));
    CALL(cudaStreamDestroy(brief));
    CALL(cudaMalloc(&block, 1 << 20));
    DRIVER(cuPointerGetAttribute(&fresh[1], CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                 reinterpret_cast<CUdeviceptr>(block)));
    CALL(cudaFree(block));
    for (int i = 0; i < 2; i++)
      if (!given[i].insert(fresh[i]).second)
        steplog_fail("%s has the id %llu, which was another's", i ? "memory" : "a stream", fresh[i]);
    int number = 0;
    NCCL(version(&number));
    EXPECT(number == NCCL_VERSION_CODE);
    steplog_mix(got);
    NCCL(ncclGroupStart());
    const ncclResult_t wrong = ncclBroadcast(value, value, 1, ncclUint32, 9, comm, streams[3]);
    EXPECT(wrong == ncclInvalidArgument);
    steplog_step();  // inside a group
    const ncclResult_t end = ncclGroupEnd();
    if (end != wrong) steplog_fail("the group's end tells %d, not %d", end, wrong);
    NCCL(ncclAllReduce(value, value, 1, ncclUint32, ncclSum, comm, streams[3]));
    CALL(cudaStreamSynchronize(streams[3]));
  }
  NCCL(ncclCommDestroy(comm));
  nonce.back();
  steplog_ok();
  return 0;
}
