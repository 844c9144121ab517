// The program's device memory (gpu_state/memory) in this plug-in, for hand-written code. saved_memory.h has
// what a cut and a restart do with it. LH, LH FS base; a thread of the program, unless stated otherwise.
#pragma once

#include <map>
#include <optional>

#include "base/result.h"
#include "gpu_state/memory/advice.h"
#include "gpu_state/memory/arena.h"
#include "gpu_state/memory/contents.h"
#include "gpu_state/memory/managed.h"
#include "gpu_state/memory/own.h"
#include "gpu_state/memory/pools.h"
#include "interpose/cuda/lower/generated_support.h"
#include "interpose/cuda/lower/real.h"

namespace cropdl::cuda {

// generated_support.h, which knows neither library's names, has these numbers.
static_assert(int{CU_MEMCPY_OPERAND_TYPE_ARRAY} == 2 && int{cudaMemcpyOperandTypeArray} == 2);
static_assert(int{CUDA_ERROR_OUT_OF_MEMORY} == 2 && int{cudaErrorMemoryAllocation} == 2);

// Host memory registered with the driver: the program's own, or memory that the shim mapped in the window for
// cudaHostAlloc. In the persistent heap; append-only.
struct HostMemory {
  memory::RecordHead head;
  uint64_t begin, size;
  uint64_t device_address;
  uint32_t registered;   // cuMemHostRegister's flags
  uint32_t flags;        // the program's flags
  int32_t device;        // current at the call
  uint32_t made;         // 1: made by cudaHostAlloc and the like
  uint32_t gone;         // 1: the last cut found it unmapped; 2: the same, and not registered in this run
  uint32_t sync_memops;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as set by the program
};

// The address of a device variable that the program has got. It must be the same after a restart.
struct TakenVariable {
  enum Kind : uint32_t { kSymbol = 1, kOfModule = 2, kOfLibrary = 3, kManaged = 4 };
  memory::RecordHead head;
  // Address of the host variable, or of a managed variable's slot; for modules and libraries their handle.
  uint64_t symbol;
  uint64_t name;  // address of text in the heap; 0 for a symbol
  uint64_t address;
  int32_t device;
  Kind kind;
};

// The buffer id (CU_POINTER_ATTRIBUTE_BUFFER_ID) that the program has got for registered memory or for a
// mapping of its own. Blocks keep theirs in their records.
struct MemoryNumber {
  memory::RecordHead head;
  uint64_t begin, id;
};

// In the persistent heap; append-only.
struct MemoryState {
  memory::State* device;
  memory::Records<HostMemory> host;
  memory::Records<TakenVariable> variables;
  memory::Records<MemoryNumber> numbers;
  uint64_t reserved[28];

  void drop(TakenVariable* one);  // and its name
};
static_assert(sizeof(MemoryState) == 41 * sizeof(uint64_t));

struct DeviceMemory {
  explicit DeviceMemory(MemoryState& state);
  // The registered memory that contains the address; nullptr: none. Under the lock of `blocks`.
  HostMemory* host_around(uint64_t address) const;
  // The buffer id of the memory that begins there, stable as long as the memory exists. 0: the heap is full.
  // forget_numbers() drops the ids of a range. Under the lock of `blocks`.
  uint64_t number_of(uint64_t begin);
  void forget_numbers(uint64_t begin, uint64_t end);
  MemoryState& state;
  memory::Driver driver;
  memory::Blocks blocks;
  memory::Arena arena;
  memory::Pools pools;
  memory::Advised advised;
  memory::Managed managed;
  memory::Own own;
  memory::Contents contents;
  std::map<uint64_t, HostMemory*> host;       // by begin
  std::map<uint64_t, MemoryNumber*> numbers;  // by begin
};

// The program's block around the address, if it is not freed.
std::optional<memory::Block> block_around(CUdeviceptr address);

// Made at the first request for memory. nullptr: not available. The reason was printed once, unless the
// driver cannot be initialised, which the program's own calls return.
DeviceMemory* device_memory();
// The same, if already made; else nullptr.
DeviceMemory* known_device_memory();
// START: made from the image's state; nullptr: the image has none.
Result<DeviceMemory*> restored_device_memory();

// The device's primary context, for copies at a cut and for what a restart makes in it. Held until
// let_contexts_go(). nullptr: not available.
CUcontext primary_context(int device);
void let_contexts_go();  // MAIN, when the process continues after a cut

// The runtime's current device; starts the runtime there.
CUresult enter_runtime(int* device);
// Records the thread's last error as the runtime does.
cudaError_t of_runtime(CUresult result);
// A whole function of the runtime, or of the driver, on the current device: `work(device)` returns a
// CUresult. `valid`: false: the arguments are refused before the runtime looks for the device.
template <class Work>
cudaError_t in_runtime(Work work, bool valid = true) {
  rt::Call call;
  int device = 0;
  const CUresult error = valid ? enter_runtime(&device) : CUDA_ERROR_INVALID_VALUE;
  return of_runtime(error ? error : work(device));
}
// A whole function of the runtime that allocates: `work(device, &address)` returns a CUresult.
template <class Work>
cudaError_t allocate_in_runtime(void** p, Work work) {
  const auto allocate = [&](int device) {
    CUdeviceptr address = 0;
    const CUresult error = work(device, &address);
    if (error == CUDA_SUCCESS) *p = reinterpret_cast<void*>(address);
    return error;
  };
  return in_runtime(allocate, p != nullptr);
}
template <class Work>
CUresult in_driver(Work work) {
  rt::Call call;
  int device = 0;
  const CUresult error = CROPDL_DRIVER(cuCtxGetDevice)(&device);
  return error ? error : work(device);
}
inline CUdeviceptr address_of(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }
inline CUstream real_stream(CUstream stream) { return rt::real(stream, kind::cudaStream); }
inline CUmemoryPool real_pool(CUmemoryPool pool) { return rt::real(pool, kind::cudaMemPool); }
// For the functions in which stream 0 is the calling thread's own default stream.
inline CUstream own_stream(CUstream stream) { return stream ? stream : CU_STREAM_PER_THREAD; }

// Waits until all work that may use memory of the device (-1: of all devices) has ended, except in streams
// that are captured. Returns the error of failed work.
CUresult wait_for_device(int device);

// What the driver would answer to an operation that the arena is about to do without it. While streams are
// captured, allocating or freeing calls may spoil a capture and are refused; after a failed kernel every call
// fails. So the driver is asked only during captures, and once after each error returned to any thread.
CUresult verdict_of_driver(int device);

// The arena's side of a pool of the driver, which provides its memory. Each pool of device memory has one,
// default pools from their first use. nullptr: the driver provides the pool's memory itself.
memory::Pool* arenas_side(DeviceMemory& its, CUmemoryPool real);

// The device's primary context ends with everything in it (cudaDeviceReset).
void forget_memory_of(int device);
// Other devices lose access to its memory.
void forget_peer(int device);

// Bytes of all blocks of the program. AGENT.
uint64_t memory_in_use();

}  // namespace cropdl::cuda
