// Parses PTX text into the structures of module.h. Accepts all of PTX ISA 9.0 that nvcc 13, NVRTC and
// programmers write, except preprocessor lines, subscripts, and, for video instructions, signs and constants
// as call arguments; these are refused with an error that names them. Does not check which instructions
// exist: that is the engine's task. Any thread.
#pragma once

#include <string_view>

#include "base/result.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::ptx {

// The error is one line: the line of the text, what was expected, and what was found.
Result<Module> parse(std::string_view text);

}  // namespace cropdl::ptx
