// Finds NVIDIA's static runtime by its code in a file without symbols. All of it is one section of
// libcudart_static.a, which linkers copy unchanged except for relocations. Any thread.
#pragma once

#include <string_view>

#include "gpu_state/static_runtime/object_file.h"

namespace cropdl::static_runtime {

// Finds the code of `archive` (the contents of a libcudart_static.a) in `file`: it must be in exactly one
// place, with every byte that no relocation may change equal. kAbsent: it is not there, or `archive` is no
// archive. `names` as in static_runtime_of.
StaticRuntime static_runtime_by_code(std::string_view file, std::string_view archive,
                                     const std::vector<std::string>& names);

}  // namespace cropdl::static_runtime
