// Variables and registers as PTX declares them: `.global .align 16 .v4 .f32 table[2][3] = {…}, other;`. One
// thread. Source: PTX ISA 9.0, "State spaces, types, and variables".
#pragma once

#include <functional>

#include "gpu_state/software/ptx/cursor.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::ptx {

// One name of a declaration: a variable, or with `range` a numbered family (%r<35>), -1: none.
struct Declared {
  Variable variable;
  int range = -1;
};

// Whether a declaration of variables begins at the cursor: a linking directive, a space, or an attribute.
bool declaration_follows(const Cursor& cursor);
// A whole declaration with its semicolon.
std::vector<Declared> parse_declaration(Cursor& cursor);
// A formal parameter, of functions and prototypes: no initialiser, no semicolon, one name.
Variable parse_parameter(Cursor& cursor);
// .attribute(…): sets is_managed for .managed; .unified is the driver's matter and has no effect here.
void skip_attribute(Cursor& cursor, bool* is_managed);

// What is for debuggers only: .loc, .file, .section { … }. False: it is none of these.
bool skip_debugging(Cursor& cursor);

}  // namespace cropdl::ptx
