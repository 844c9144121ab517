// What an image's memory is: heap, stacks, programs and libraries, and so on. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "restart/chunks.h"

namespace cropdl::cli {

// In the order in which they are shown.
enum class Use { kHeap, kStacks, kAnonymous, kProgram, kLibrary, kFile, kDevice, kCropdl };
const char* use_name(Use use);

struct MemoryUse {
  Use use = Use::kAnonymous;
  std::string name;  // file, device, or what the program called it (PR_SET_VMA_ANON_NAME); "": none
  uint64_t regions = 0;
  // Bytes. What is neither stored nor a file's by reference is zero, or was never touched.
  uint64_t address_space = 0, stored = 0, by_reference = 0;
  uint64_t zero() const { return address_space - stored - by_reference; }
};

// What tells the uses of regions apart, besides their addresses.
struct AddressFacts {
  std::string program;                    // its path
  std::map<uint64_t, std::string> files;  // path of the file that is mapped at a region's begin
  std::set<uint64_t> left_in_files;       // regions whose contents are their files' alone, by their begins
  std::vector<uint64_t> stack_pointers;   // of the threads
  uint64_t main_stack_below = 0;          // the main stack is the last anonymous region below; 0: not known
};

// Adds one image's regions to the uses of others, by use and name.
void add_memory(std::vector<MemoryUse>& uses, const std::vector<restart::Region>& regions,
                const AddressFacts& facts);

// By use, and then those first that fill most of an image.
void sort_memory(std::vector<MemoryUse>& uses);

MemoryUse sum_of(const std::vector<MemoryUse>& uses);

}  // namespace cropdl::cli
