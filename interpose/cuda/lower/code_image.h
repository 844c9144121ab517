// Device code as a program passes it: PTX, a cubin, or a fat binary of both for several architectures. Finds
// its length and the facts that a checkpoint needs. Any thread, LH FS base; reads only its arguments.
// Sources: ELF; for fat binaries, whose format NVIDIA does not document, dumps of nvcc 13.0's output.
#pragma once

#include <span>

#include "interpose/cuda/lower/code_text.h"

namespace cropdl::cuda {

// The code that begins at `image`. PTX ends at its zero byte; other formats have headers with their size. A
// wrapper (nvcc's __fatBinC_Wrapper_t) is resolved. Empty: unknown format, or a wrapper with several parts.
std::span<const char> code_at(const void* image);

// The facts of the part that a device of this architecture (10 * major + minor) runs; `text_only`: only PTX.
CodeFacts facts_of(std::span<const char> code, int architecture, bool text_only);
// The same for an image at its original address, with all parts of a wrapper.
CodeFacts facts_at(const void* image, int architecture, bool text_only);

}  // namespace cropdl::cuda
