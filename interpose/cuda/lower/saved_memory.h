// What a cut and a restart do with the program's device memory. LH, LH FS base; the main thread while the
// program is stopped (MAIN) or before it runs (START), unless stated otherwise.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "interpose/cuda/lower/memory.h"

namespace cropdl::cuda {

// "", or why memory in use cannot be saved. AGENT or MAIN.
std::string memory_refusal();

// A cut. Serves attempts in sequence. MAIN, all devices idle.
class MemoryCut {
 public:
  void settle();  // before the heap is saved
  Status save(restart::ChunkSink& sink);

 private:
  Status settled_;
};
uint64_t memory_region_bytes();

// --- A restart. START.
Status take_addresses();  // before objects are made again: addresses and chunks
// After objects are made again. `variables_may_move`: cropdl-restart --moved-variables.
Status load_memory(const restart::ImageReader& image, bool variables_may_move);

// --- Parts in memory_host.cpp, memory_pointers.cpp and memory_variables.cpp.
Status note_unmapped_host_memory();  // MAIN
std::string host_memory_refusal();
Status register_host_memory_again();
Status set_pointer_attributes_again();
Result<std::vector<memory::Variable>> registered_variables();
// Whether a restart can find the variables at the same addresses; the error names one that it cannot.
Status addresses_may_come_again(const std::vector<memory::Variable>& variables);
// Finds this process's variables by the names in an image. START.
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
  std::unordered_map<std::string, const void*> symbols_;  // of registered code, on any device
  std::map<std::pair<int, std::string>, Found> found_;
};

}  // namespace cropdl::cuda
