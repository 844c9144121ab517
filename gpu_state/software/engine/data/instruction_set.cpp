#include "gpu_state/software/engine/data/instruction_set.h"

namespace cropdl::engine {

InstructionSet instruction_set() {
#ifdef __SANITIZE_ADDRESS__
  return InstructionSet::kBaseline;
#else
  // All that GCC may use of a level, as far as it can be asked for.
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("f16c") ||
      !__builtin_cpu_supports("lzcnt") || !__builtin_cpu_supports("movbe"))
    return InstructionSet::kBaseline;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512cd"))
    return InstructionSet::kAvx2;
  return InstructionSet::kAvx512;
#endif
}

}  // namespace cropdl::engine
