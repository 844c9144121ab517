// Classifies an image's memory: heap, stacks, programs and libraries, and so on. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "restart/chunks.h"

namespace cropdl::cli {

// In display order. use_name() has them in this order, too.
enum class Use { kHeap, kStacks, kAnonymous, kProgram, kLibrary, kFile, kDevice, kCropdl };
const char* use_name(Use use);

struct MemoryUse {
  Use use = Use::kAnonymous;
  std::string name;  // file, device, or the program's own name (PR_SET_VMA_ANON_NAME); "": none
  uint64_t regions = 0;
  // Bytes. The rest, neither stored nor in a file by reference, is zero or was never touched.
  uint64_t address_space = 0, stored = 0, by_reference = 0;
  uint64_t in_file = 0;  // what the stored bytes take in the image
  uint64_t zero() const { return address_space - stored - by_reference; }
};

// The facts that distinguish regions besides their addresses.
struct AddressFacts {
  std::string program;                    // path of the program
  std::map<uint64_t, std::string> files;  // path of the file mapped at a region's begin
  std::set<uint64_t> left_in_files;       // begins of regions whose contents are only in their files
  std::vector<uint64_t> stack_pointers;   // of the threads
  uint64_t main_stack_below = 0;  // the main stack is the highest anonymous region below this; 0: not known
};

// Adds one image's regions to `uses`, grouped by use and name.
void add_memory(std::vector<MemoryUse>& uses, const std::vector<restart::Region>& regions,
                const AddressFacts& facts);

// Sorts by use, then the largest part of an image first.
void sort_memory(std::vector<MemoryUse>& uses);

MemoryUse sum_of(const std::vector<MemoryUse>& uses);

}  // namespace cropdl::cli
