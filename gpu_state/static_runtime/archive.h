// NVIDIA's runtime in a file without symbols, found by its code: all of it is one section of
// libcudart_static.a, which linkers copy as it is, but for what relocations change. Any thread.
#pragma once

#include <string_view>

#include "gpu_state/static_runtime/object_file.h"

namespace cropdl::static_runtime {

// Where the code of `archive` (the contents of a libcudart_static.a) is in `file`: every byte that no
// relocation may change is the same, in one place. kAbsent: it is not there, or the archive is none. `names`
// as in static_runtime_of.
StaticRuntime static_runtime_by_code(std::string_view file, std::string_view archive,
                                     const std::vector<std::string>& names);

}  // namespace cropdl::static_runtime
