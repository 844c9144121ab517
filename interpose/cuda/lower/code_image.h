// Device code as a program hands it over: PTX, a cubin, or a fat binary of both for several architectures.
// How long it is, and what in it matters to a checkpoint. Any thread, LH FS base; reads only what it is
// given. Sources: ELF; of fat binaries, whose format NVIDIA does not document, dumps of what nvcc 13.0
// writes.
#pragma once

#include <cstddef>
#include <set>
#include <span>
#include <string>

namespace cropdl::cuda {

// The bytes that begin at `image`: up to PTX's zero, else by its headers. A wrapper (nvcc's
// __fatBinC_Wrapper_t) is what it points at. Empty: none of these, or several parts.
std::span<const char> code_at(const void* image);

struct CodeFacts {
  std::set<std::string> variables;  // in global and constant memory, as the code names them
  bool allocates = false;           // kernels call malloc: what they get lies in the device's own heap
  bool read = false;                // false: it is of a kind that is not known, or does not parse
  bool broken = false;              // it does not parse: what was found is not all
};
// Of the part that a device of that architecture (10 * major + minor) runs; `text_only`: that runs only PTX.
CodeFacts facts_of(std::span<const char> code, int architecture, bool text_only);
// The same of an image whose bytes are where it says, with all the parts of a wrapper.
CodeFacts facts_at(const void* image, int architecture, bool text_only);

}  // namespace cropdl::cuda
