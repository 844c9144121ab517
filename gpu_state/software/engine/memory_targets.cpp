// Which of the compiled copies of memory.cpp runs: the best that this processor has, as data/rows.cpp does.
#include "gpu_state/software/engine/memory.h"

namespace cropdl::engine {

namespace baseline {
Instruction::Execute find_memory(const MemoryForm& form);
}
namespace avx2 {
Instruction::Execute find_memory(const MemoryForm& form);
}
namespace avx512 {
Instruction::Execute find_memory(const MemoryForm& form);
}

Instruction::Execute memory_execute(const MemoryForm& form) {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma"))
    return avx512::find_memory(form);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
      __builtin_cpu_supports("bmi2"))
    return avx2::find_memory(form);
  return baseline::find_memory(form);
}

}  // namespace cropdl::engine
