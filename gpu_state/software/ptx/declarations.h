// Parses declarations of variables and registers: `.global .align 16 .v4 .f32 table[2][3] = {…}, other;`. One
// thread. Source: PTX ISA 9.0, "State spaces, types, and variables".
#pragma once

#include <functional>

#include "gpu_state/software/ptx/cursor.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::ptx {

// One declared name: a variable, or a numbered range of them (%r<35>) if `range` is not -1.
struct Declared {
  Variable variable;
  int range = -1;
};

// Whether the cursor is at a declaration of variables: a linking directive, a space, or an attribute.
bool declaration_follows(const Cursor& cursor);
// A whole declaration including its semicolon.
std::vector<Declared> parse_declaration(Cursor& cursor);
// A formal parameter of a function or prototype: no initialiser, no semicolon, one name.
Variable parse_parameter(Cursor& cursor);
// .attribute(…): sets is_managed for .managed; .unified concerns the driver and has no effect here.
void skip_attribute(Cursor& cursor, bool* is_managed);

// Skips debugging directives: .loc, .file, .section { … }. False: none of these.
bool skip_debugging(Cursor& cursor);

}  // namespace cropdl::ptx
