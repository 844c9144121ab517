// This machine's name, as stores, manifests and job files have it. Anything; any thread.
#pragma once

#include <string>

namespace cropdl {

std::string host_name();

}  // namespace cropdl
