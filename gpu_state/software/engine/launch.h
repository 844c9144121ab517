// The engine as the device sees it: code that was loaded, and grids that run. Threads of the caller's own;
// nothing here is called from a kernel.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu_state/software/engine/memory_view.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::engine {

using Dim3 = std::array<uint32_t, 3>;

// A kernel that can run: its instructions have been looked up, its registers assigned. Immutable, shared.
class Kernel;

struct KernelFacts {
  std::string name;
  std::vector<std::pair<uint64_t, uint64_t>> parameters;  // offset and size of each, bytes
  uint64_t parameter_bytes = 0;
  uint64_t static_shared = 0, local = 0, constant = 0;  // bytes; local per thread
  int registers = 0;                                    // as the function's attribute shows
  uint32_t max_threads = 1024;                          // per block; less by .maxntid or .reqntid
  Dim3 required_threads{};                              // all zero: none required
  std::string target;                                   // "sm_75"
};

// The code of one module. `address` says where the module's .global and .const variables were put, `device`
// whose functions' addresses are given; -1: of none.
class Code {
 public:
  using AddressOf = std::function<uint64_t(const std::string& variable)>;
  Code(std::shared_ptr<const ptx::Module> module, AddressOf address, int device = -1);
  ~Code();
  // Lowers on first use. The error names the instruction, the kernel and the line when one is of no class.
  Result<std::shared_ptr<const Kernel>> kernel(const std::string& name);
  // What a variable that holds a function's address, or a mov of one, contains: valid in all modules of the
  // process until this code goes. 0: no such function.
  uint64_t function_address(const std::string& name);

 private:
  struct Body;
  std::shared_ptr<Body> body_;
};

const KernelFacts& facts(const Kernel& kernel);

struct Launch {
  std::shared_ptr<const Kernel> kernel;
  Dim3 grid{1, 1, 1}, block{1, 1, 1};
  uint32_t dynamic_shared = 0;
  std::vector<std::byte> parameters;  // as laid out by the facts
  bool cooperative = false;           // all blocks are resident at once; grid barriers work
  const MemoryView* memory = nullptr;
  uint64_t local_limit = 0;  // cuCtxSetLimit's stack size per thread: recursion beyond it is an error
  // What the kernel prints, whole lines or not, in an order that keeps each call's text together. Called by a
  // worker.
  std::function<void(std::string_view)> print;
};

// CUDA_SUCCESS, or what the context then has for ever: CUDA_ERROR_ILLEGAL_ADDRESS, _MISALIGNED_ADDRESS,
// _ASSERT, _ILLEGAL_INSTRUCTION (trap is CUDA_ERROR_LAUNCH_FAILED), _INVALID_PC, _HARDWARE_STACK_ERROR,
// _LAUNCH_FAILED. The text names kernel, block, thread, instruction and line for people.
struct Outcome {
  CUresult error = CUDA_SUCCESS;
  std::string text;
};

// What one multiprocessor holds at once (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability"; as they stand here, of 9.0).
struct Multiprocessor {
  uint32_t threads = 2048, blocks = 32;
  uint32_t shared = 228 << 10, reserved = 1 << 10;  // bytes; of them the system's, of each block
};

// The host threads on which a device's blocks run. Grids of several callers share them; blocks of a grid
// begin in the order of their numbers, those that have begun are interleaved (with a seed, at random). A grid
// of one block that comes when there is no other begins on its caller's thread, which is one more than
// `cores`.
class WorkerPool {
 public:
  WorkerPool(int multiprocessors, int cores, uint64_t who, const Multiprocessor& each = {});
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  // Runs a grid to its end. Blocks the calling thread (a stream's worker), which is not one of the
  // processors.
  Outcome run(const Launch& launch);
  // How many blocks of that shape fit on one multiprocessor at once (occupancy).
  int resident(const Kernel& kernel, uint32_t threads, uint32_t dynamic_shared) const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace cropdl::engine
