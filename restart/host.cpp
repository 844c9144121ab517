#include "restart/host.h"

#include <unistd.h>

namespace cropdl::restart {

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace cropdl::restart
