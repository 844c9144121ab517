// This machine's name, as stores, manifests and job files have it. Anything; any thread.
#pragma once

#include <string>

namespace cropdl::restart {

std::string host_name();

}  // namespace cropdl::restart
