// Separately compiled parts made one module, as nvlink does with machine code: the parts of a program built
// with nvcc -rdc=true, and what cuLink is given. Any thread; plain data.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::ptx {

// Of each name one entry remains: the definition that is .visible, or the first that is .weak, or the largest
// that is .common, or a declaration where no part defines it, which is no error here: a kernel that needs it
// is refused when it is lowered. Names without a linking directive are their part's own; where another part
// has the same name, the later one is called NAME.part2. Errors: two definitions; a declaration that does
// not fit its definition. `names` are what errors call the parts: none, or one for each.
Result<Module> link(std::vector<Module> parts, const std::vector<std::string>& names = {});

// 75 of "sm_75" and of "sm_75a".
int number_of_target(const std::string& target);

}  // namespace cropdl::ptx
