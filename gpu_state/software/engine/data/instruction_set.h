// Which of the compiled copies of the hot files runs: the best that this processor has; in a build with
// AddressSanitizer the one that is compiled with it (none is with ThreadSanitizer).
#pragma once

namespace cropdl::engine {

enum class InstructionSet { kBaseline, kAvx2 };  // x86-64-v2, -v3, as CMakeLists.txt compiles them

InstructionSet instruction_set();

}  // namespace cropdl::engine
