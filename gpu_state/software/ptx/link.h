// Links separately compiled parts into one module, as nvlink does with machine code: the parts of a program
// built with nvcc -rdc=true, and cuLink's inputs. Any thread; plain data.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::ptx {

// One entry per name stays: the .visible definition, or the first .weak one, or the largest .common one, or a
// declaration if no part defines the name (no error here: a kernel that needs it is refused when it is
// lowered). Names without a linking directive are local to their part; if another part has the same name, the
// later one is renamed to NAME.part2. Errors: two definitions; a declaration that does not match its
// definition. `names`: the parts' names in errors, none or one per part.
Result<Module> link(std::vector<Module> parts, const std::vector<std::string>& names = {});

// The 75 in "sm_75" and "sm_75a".
int number_of_target(const std::string& target);

}  // namespace cropdl::ptx
