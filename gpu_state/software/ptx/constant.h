// Evaluates constants and constant expressions by PTX's rules: 64-bit integers, signed unless too large or
// marked U. One thread. Source: PTX ISA 9.0, "Constants" and "Constant expressions".
#pragma once

#include <variant>

#include "gpu_state/software/ptx/cursor.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::ptx {

using Constant = std::variant<Integer, Float>;

// Whether a constant can begin at the cursor.
bool constant_follows(const Cursor& cursor);
Constant parse_constant(Cursor& cursor);
// The count of a register range, which > ends.
uint64_t parse_range_count(Cursor& cursor, uint64_t most);
// An integer between `least` and `most`; `what` names it in the error.
uint64_t parse_count(Cursor& cursor, uint64_t least, uint64_t most, std::string_view what);
// What may follow a name or register: `+ constant` and `- constant`, any number of them; 0 for none.
int64_t parse_offset(Cursor& cursor);

}  // namespace cropdl::ptx
