// A function being lowered from text to a Routine: the operands of its instructions are register numbers, not
// yet places. lower_*.cpp make it, register_allocation.cpp assigns the places. One thread.
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

// A virtual register, or a .param variable of the body.
struct Virtual {
  std::string name;
  uint32_t lane_bytes = 0;  // 2, 4, 8, 16; 0: a predicate
  uint32_t bytes = 0;       // size of its place
  bool is_parameter = false;
  bool stays = false;  // keeps its place while the function runs: parameters and return values
};

struct Draft {
  Instruction instruction;
  const ptx::Instruction* source = nullptr;
  // Operand i of the instruction; more than nine become Instruction::many. Entries beyond the instruction's
  // operands (call parameters) only matter for liveness.
  std::vector<Ref> operands;
  std::vector<uint32_t> writes, reads;  // registers, independent of operands
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

// Assigns places and writes the routine's code, constants and frame. The error names a missing label.
Status place(DraftRoutine& draft, Routine* routine);

}  // namespace cropdl::engine
