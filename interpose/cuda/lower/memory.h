// Device memory of the program (gpu_state/memory) as a part of the plug-in: how code by hand gets at it, and
// what a cut and a restart do with it. LH, LH FS base; a thread of the program, if nothing else is said.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gpu_state/memory/advice.h"
#include "gpu_state/memory/arena.h"
#include "gpu_state/memory/contents.h"
#include "gpu_state/memory/managed.h"
#include "gpu_state/memory/own.h"
#include "gpu_state/memory/pools.h"
#include "interpose/cuda/lower/real.h"

namespace cropdl::cuda {

// Memory of the host that is registered with the driver, in the persistent heap: the program's own that it
// registered, or that the shim made for it (cudaHostAlloc), which lies in the window too. Append-only.
struct HostMemory {
  memory::RecordHead head;
  uint64_t begin, size;
  uint64_t device_address;
  uint32_t registered;   // cuMemHostRegister's flags
  uint32_t flags;        // as the program gave them
  int32_t device;        // that was current
  uint32_t made;         // 1: by cudaHostAlloc and the like
  uint32_t gone;         // 1: the last cut found it unmapped; 2: ... so that this run has registered nothing
  uint32_t sync_memops;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as it was set
};

// An address of a device's variable that the program has got: it must be the same after a restart.
struct TakenVariable {
  enum Kind : uint32_t { kSymbol = 1, kOfModule = 2, kOfLibrary = 3, kManaged = 4 };
  memory::RecordHead head;
  // Address of the host's variable, of the slot of a managed one; of others the handle of what was loaded.
  uint64_t symbol;
  uint64_t name;  // address of text in the heap; of a symbol 0
  uint64_t address;
  int32_t device;
  Kind kind;
};

// Which number the program was told (CU_POINTER_ATTRIBUTE_BUFFER_ID) of registered memory or of a mapping of
// its own: blocks have theirs in their records.
struct MemoryNumber {
  memory::RecordHead head;
  uint64_t begin, id;
};

// In the persistent heap. Append-only.
struct MemoryState {
  memory::State* device;
  memory::Records<HostMemory> host;
  memory::Records<TakenVariable> variables;
  memory::Records<MemoryNumber> numbers;
  uint64_t reserved[28];
};
static_assert(sizeof(MemoryState) == 41 * sizeof(uint64_t));

struct DeviceMemory {
  explicit DeviceMemory(MemoryState& state);
  // That the address lies in; nullptr: in none. Under the lock of `blocks`.
  HostMemory* host_around(uint64_t address) const;
  // Of memory that begins there, the same as long as it is there; 0: the heap is full. Then it is gone. Under
  // the same lock.
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

// Made when the first memory is asked for. nullptr: it cannot be had, which was said once.
DeviceMemory* device_memory();
// The same if it was made.
DeviceMemory* known_device_memory();

// The device's primary context, for copies at a cut and what a restart makes in it; it stays until
// let_contexts_go(). nullptr: it cannot be had.
CUcontext primary_context(int device);
void let_contexts_go();  // MAIN, when the process goes on after a cut

// --- What a function begins with: the device whose memory is meant.
CUresult enter_runtime(int* device);  // and the runtime has begun there
CUresult enter_driver(int* device);   // the current context's
// What it ends with: the runtime keeps a thread's last error.
cudaError_t of_runtime(CUresult result);

// Everything that may still use memory of that device's (-1: of all) is done; in streams that are captured
// nothing is. The error is that of work that failed.
CUresult wait_for_device(int device);

// Before the arena does alone what the driver would do: what the driver would say to it. While streams are
// captured, a call that allocates or frees at once may spoil a capture, and is refused then; after a kernel
// has failed nothing is done any more. Asks it only then, and once after each error that any thread was told.
CUresult verdict_of_driver(int device);

// Runs `allocate`, which wants memory of that device (-1: of the current one) from the driver: once more,
// with what the arena keeps for later given back, if there was too little.
void make_room(int device);
template <class Allocate>
auto with_room(int device, Allocate allocate) {
  const auto result = allocate();
  if (static_cast<int>(result) != CUDA_ERROR_OUT_OF_MEMORY || !known_device_memory()) return result;
  make_room(device);
  return allocate();
}

// By what the arena has: cudaFree and cuMemFree. CUDA_ERROR_INVALID_VALUE: no block begins there.
CUresult free_block(CUdeviceptr address);

// The device's primary context ends with all that is in it (cudaDeviceReset).
void forget_memory_of(int device);
// Nor can others reach its memory any more.
void forget_peer(int device);

// Before anything of the driver's is loaded. START.
void steer_driver();

// "", or why what lives cannot be saved. AGENT or MAIN.
std::string memory_refusal();

// Of all blocks that the program has. AGENT.
uint64_t memory_in_use();

// --- A cut. MAIN, all devices idle.
void settle_memory();  // before the heap is saved
uint64_t memory_region_bytes();
Status save_memory(restart::ChunkSink& sink);

// --- A restart. START.
Status take_addresses();            // before objects are made again; addresses and chunks
void let_variables_move(bool may);  // before load_memory(): cropdl-restart --moved-variables
Status load_memory(const restart::ImageReader& image);  // after that

// --- Its parts (memory_host.cpp, memory_variables.cpp).
Status note_unmapped_host_memory();  // MAIN
std::string host_memory_refusal();
Status register_host_memory_again();
Status set_pointer_attributes_again();
Result<std::vector<memory::Variable>> registered_variables();
// Whether a restart may find them where they are; the error names one that it could not.
Status addresses_may_come_again(const std::vector<memory::Variable>& variables);
Status compare_taken_variables();
// The variables of this process, to be found by the names that an image has for them. START.
class VariablesHere {
 public:
  VariablesHere();
  // 0: there is none of that size.
  CUdeviceptr find(const std::string& name, int device, uint64_t size) const;

 private:
  struct Found {
    CUdeviceptr address;
    size_t size;
  };
  std::unordered_map<std::string, const void*> symbols_;  // of registered code, on whichever device
  std::map<std::pair<int, std::string>, Found> found_;
};
void drop(MemoryState& state, TakenVariable* one);  // with its name
// The addresses that the program was told of variables of registered code, which goes now; and of modules and
// libraries that it has unloaded, before their handles are others'. A thread of the program.
void forget_variables_of(uint64_t registered_code);
void forget_variables_of_unloaded_code();

}  // namespace cropdl::cuda
