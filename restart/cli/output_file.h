// Files that commands write outside a store. Tools; one thread.
#pragma once

#include <string>

#include "base/result.h"

namespace cropdl::cli {

// Follows links; returns "" if one is broken.
std::string resolved(const std::string& path);

// Refuses an output file inside the store: with foreign files, a store is no longer valid.
Status check_outside(const std::string& file, const std::string& store);

}  // namespace cropdl::cli
