// Parses a function's body: instructions with operands, labels, scopes, declarations. One thread. Source: PTX
// ISA 9.0, "Instruction operands", "Control flow instructions: call, brx.idx", "Control flow directives".
#pragma once

#include "gpu_state/software/ptx/cursor.h"
#include "gpu_state/software/ptx/module.h"
#include "gpu_state/software/ptx/names.h"

namespace cropdl::ptx {

// A name that no scope of the function declares: it must be the module's, which is checked at the end.
struct Outside {
  std::string name;
  int line;
};

// Parses from { to } into the function, whose parameters were parsed before.
void parse_body(Cursor& cursor, Function* function, std::vector<Outside>* outside);

// `(.param .b32 _) _ (.param .b64 _)`, with or without name and lists; the caller parses .noreturn and other
// suffixes of a prototype.
void parse_signature(Cursor& cursor, Function* function, bool named);

}  // namespace cropdl::ptx
