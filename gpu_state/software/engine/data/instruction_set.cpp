#include "gpu_state/software/engine/data/instruction_set.h"

namespace cropdl::engine {

InstructionSet instruction_set() {
#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)  // clang 14 knows fewer features by name
  return InstructionSet::kBaseline;
#else
  // All features that GCC may use at this level, as far as they can be queried.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("f16c") ||
      !__builtin_cpu_supports("lzcnt") || !__builtin_cpu_supports("movbe"))
    return InstructionSet::kBaseline;
  return InstructionSet::kAvx2;
#endif
}

}  // namespace cropdl::engine
