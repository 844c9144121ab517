// What PTX declares that matters to a checkpoint. Any thread, LH FS base; reads only what it is given.
// Source: PTX ISA 8.8, "Syntax", "State Spaces, Types, and Variables", "Directives".
#pragma once

#include <string_view>

#include "interpose/cuda/lower/code_image.h"

namespace cropdl::cuda {

// Adds to the facts. False: the text does not parse, so that variables may be missing.
bool read_text(std::string_view text, CodeFacts* facts);

}  // namespace cropdl::cuda
