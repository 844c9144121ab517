#include "base/result.h"

#include <cstring>

namespace cropdl {

std::string errno_text(int error_number) {
  char buffer[128];
  return strerror_r(error_number, buffer, sizeof buffer);  // the GNU form: thread-safe, returns the text
}

}  // namespace cropdl
