// The engine's interface for the device: loaded code, and running grids. Called on the caller's threads,
// never from a kernel.
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

// A kernel that can run: its instructions are looked up and its registers assigned. Immutable, shared.
class Kernel;

struct KernelFacts {
  std::string name;
  std::vector<std::pair<uint64_t, uint64_t>> parameters;  // offset and size of each, bytes
  uint64_t parameter_bytes = 0;
  uint64_t static_shared = 0, local = 0, constant = 0;  // bytes; local per thread
  int registers = 0;                                    // as the function's attribute reports
  uint32_t max_threads = 1024;                          // per block; less by .maxntid or .reqntid
  Dim3 required_threads{};                              // all zero: none required
  std::string target;                                   // "sm_75"
};

// The code of one module. `address` returns the addresses of its .global and .const variables. `device`: the
// device for which its functions have addresses; -1: none.
class Code {
 public:
  using AddressOf = std::function<uint64_t(const std::string& variable)>;
  Code(std::shared_ptr<const ptx::Module> module, AddressOf address, int device = -1);
  ~Code();
  // Lowers on first use. The error names an unknown instruction, the kernel and the line.
  Result<std::shared_ptr<const Kernel>> kernel(const std::string& name);
  // The value of a function pointer (in a variable or by mov). Valid in all modules of the process while this
  // Code exists. 0: no such function.
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
  std::vector<std::byte> parameters;  // in the layout of the facts
  bool cooperative = false;           // all blocks are resident at once; grid barriers work
  const MemoryView* memory = nullptr;
  uint64_t local_limit = 0;  // cuCtxSetLimit's stack size per thread: recursion beyond it is an error
  // Receives the kernel's output, not necessarily in whole lines; the text of each call stays together.
  // Called by a worker.
  std::function<void(std::string_view)> print;
};

// CUDA_SUCCESS, or the context's sticky error: CUDA_ERROR_ILLEGAL_ADDRESS, _MISALIGNED_ADDRESS, _ASSERT,
// _ILLEGAL_INSTRUCTION (trap is CUDA_ERROR_LAUNCH_FAILED), _INVALID_PC, _HARDWARE_STACK_ERROR,
// _LAUNCH_FAILED. The text, for users, names kernel, block, thread, instruction and line.
struct Outcome {
  CUresult error = CUDA_SUCCESS;
  std::string text;
};

// The capacity of one multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability"; the defaults are those of 9.0).
struct Multiprocessor {
  uint32_t threads = 2048, blocks = 32;
  uint32_t shared = 228 << 10, reserved = 1 << 10;  // bytes; those reserved for the system, per block
};

// The host threads that run a device's blocks. Grids of several callers share them. Blocks of a grid begin in
// the order of their numbers; running blocks are interleaved (with a seed, at random). A grid of one block
// begins on its caller's thread if no other grid runs: one thread more than `cores`.
class WorkerPool {
 public:
  WorkerPool(int multiprocessors, int cores, uint64_t who, const Multiprocessor& each = {});
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  // Runs a grid to its end. Blocks the calling thread (a stream's worker), which is not one of the pool's
  // threads.
  Outcome run(const Launch& launch);
  // The number of blocks of that shape that fit on one multiprocessor at once (occupancy).
  int resident(const Kernel& kernel, uint32_t threads, uint32_t dynamic_shared) const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace cropdl::engine
