// See last_version.h.
#include "coord/last_version.h"

#include <algorithm>

namespace cropdl::coord {

double last_version_margin(double run) {
  constexpr double kShare = 0.01, kLeast = 1, kMost = 60;
  return std::clamp(run * kShare, kLeast, kMost);
}

double last_version_at(double start, double limit, double cost, double iteration) {
  return limit - (2 * cost + iteration + last_version_margin(limit - start));
}

}  // namespace cropdl::coord
