// This machine's name as stores, manifests and job files record it. Any code; any thread.
#pragma once

#include <string>

namespace cropdl {

std::string host_name();

}  // namespace cropdl
