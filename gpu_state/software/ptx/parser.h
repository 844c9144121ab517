// PTX text to module.h, whole. Reads what nvcc 13 and NVRTC emit and what people write: everything of PTX ISA
// 9.0 but preprocessor lines, subscripts, the video instructions' signs and constants as arguments of calls,
// which are refused by name. Knows no instruction: which there are is the engine's matter. Any thread.
#pragma once

#include <string_view>

#include "base/result.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::ptx {

// The error is one line that names the line of the text, what was expected and what was found.
Result<Module> parse(std::string_view text);

}  // namespace cropdl::ptx
