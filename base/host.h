// This machine's name as stores, manifests and job files record it. Any code; any thread.
#pragma once

#include <unistd.h>

#include <string>

namespace cropdl {

inline std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace cropdl
