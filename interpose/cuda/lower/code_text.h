// What PTX declares that a checkpoint needs. Any thread, LH FS base; reads only its arguments. Source: PTX
// ISA 8.8, "Syntax", "State Spaces, Types, and Variables", "Directives".
#pragma once

#include <string_view>

#include "interpose/cuda/lower/code_facts.h"

namespace cropdl::cuda {

// Adds to `facts`. False: the text does not parse, and variables may be missing.
bool read_text(std::string_view text, CodeFacts* facts);

}  // namespace cropdl::cuda
