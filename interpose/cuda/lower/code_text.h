// The facts of device code that a checkpoint needs, and those in PTX. Any thread, LH FS base; reads only its
// arguments. Source: PTX ISA 8.8, "Syntax", "State Spaces, Types, and Variables", "Directives".
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace cropdl::cuda {

struct CodeFacts {
  std::set<std::string> variables;  // in global and constant memory, by their names in the code
  bool allocates = false;  // kernels call malloc or its like, whose blocks are in the device's own heap
  bool read = false;       // false: unknown format, or it does not parse
  bool broken = false;     // it does not parse: the facts are incomplete
};

// Whether a function of that name, which the driver adds to code that calls it, takes memory of the device's
// heap. nvcc makes of malloc and of a new that the program does not define one of two names: malloc, and
// __cuda_syscall_aligned_malloc for an alignment (also of __nv_aligned_device_malloc and
// cuda::std::aligned_alloc). Other names with __cuda_syscall are those of launches, of device queries and of
// bulk copies (seen with nvcc 13.0). A kernel's cudaMalloc is a function of libcudadevrt.a that calls malloc.
inline bool allocates_on_heap(std::string_view name) {
  return name == "malloc" || name == "__cuda_syscall_aligned_malloc" ||
         name == "__nv_aligned_device_malloc_impl" || name == "__cudaCDP2Malloc";
}

// Adds what PTX declares to `facts`. False: the text does not parse, and variables may be missing.
bool read_text(std::string_view text, CodeFacts* facts);

}  // namespace cropdl::cuda
