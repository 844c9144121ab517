// Selects the compiled copy of the hot files: the best that this processor supports; with AddressSanitizer,
// the copy that is compiled with it (no copy is compiled with ThreadSanitizer).
#pragma once

namespace cropdl::engine {

enum class InstructionSet { kBaseline, kAvx2 };  // x86-64-v2, -v3, as CMakeLists.txt compiles them

InstructionSet instruction_set();

}  // namespace cropdl::engine
