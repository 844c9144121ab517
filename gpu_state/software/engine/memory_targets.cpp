// Selects the compiled copy of memory.cpp to run.
#include "gpu_state/software/engine/data/instruction_set.h"
#include "gpu_state/software/engine/memory.h"

namespace cropdl::engine {

namespace baseline {
Instruction::Execute find_memory(const MemoryForm& form);
}
namespace avx2 {
Instruction::Execute find_memory(const MemoryForm& form);
}

Instruction::Execute memory_execute(const MemoryForm& form) {
  switch (instruction_set()) {
    case InstructionSet::kBaseline:
      return baseline::find_memory(form);
    case InstructionSet::kAvx2:
      return avx2::find_memory(form);
  }
  return nullptr;
}

}  // namespace cropdl::engine
