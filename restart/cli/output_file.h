// Files that commands write beside a store. Tools; one thread.
#pragma once

#include <string>

#include "base/result.h"

namespace cropdl::cli {

// A link is followed; "" if it leads nowhere.
std::string resolved(const std::string& path);

// Nothing else is written into a store, which would not be one any more.
Status check_outside(const std::string& file, const std::string& store);

}  // namespace cropdl::cli
