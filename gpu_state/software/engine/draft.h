// A function on its way from text to a Routine: instructions whose operands are registers by number, not yet
// places. lower_*.cpp make them, places.cpp gives the registers places. One thread.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu_state/software/engine/routine.h"

namespace cropdl::engine {

struct Ref {
  enum class What : uint8_t { kNone, kRegister, kConstant };
  What what = What::kNone;
  uint32_t number = 0;
};

// A virtual register, or a .param variable of the body: bytes that its place takes.
struct Virtual {
  std::string name;
  uint32_t lane_bytes = 0;  // 2, 4, 8, 16; 0: a predicate
  uint32_t bytes = 0;       // of the place
  bool is_parameter = false;
  bool stays = false;  // for as long as the function runs: its parameters and what it returns
};

struct Draft {
  Instruction instruction;
  const ptx::Instruction* source = nullptr;
  // Operand i of the instruction; more than nine become Instruction::many. Entries beyond the named ones
  // (call parameters) are only for liveness.
  std::vector<Ref> operands;
  std::vector<uint32_t> writes, reads;  // registers, whatever operand they are
  Ref guard;
  std::string label;                // kBranch: its target
  std::vector<std::string> labels;  // kBranchTable
  bool falls_through = true;
};

struct DraftCall {
  CallSite site;
  std::string callee;  // kRoutine
  uint32_t address = 0;
  std::vector<uint32_t> arguments, returned;  // registers that are parameters
};

struct DraftCollective {
  CollectiveUse use;
  Ref mask;
};

struct DraftRoutine {
  std::vector<Virtual> registers;
  std::vector<Draft> code;
  std::map<std::string, uint32_t> labels;  // index into code
  std::vector<DraftCall> calls;
  std::vector<BarrierUse> barriers;
  std::vector<DraftCollective> collectives;
  std::vector<MatrixUse> matrices;
  std::vector<uint32_t> parameters, returned;
  std::map<std::array<uint64_t, 3>, uint32_t> constants;  // width, low, high: number
};

// Chooses places and writes the routine's code, constants and frame. The error names a label that is not
// there.
Status place(DraftRoutine& draft, Routine* routine);

}  // namespace cropdl::engine
