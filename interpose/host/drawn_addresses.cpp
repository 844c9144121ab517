#include "interpose/host/drawn_addresses.h"

#include <sys/personality.h>

#include "base/file.h"
#include "base/random.h"
#include "interpose/seam/layout.h"

namespace cropdl::host {
namespace {

static_assert(kProgramSpread + kLoaderSpread + kStackSpread + kMappingsSpread <
              (seam::kMapEnd - seam::kMapBegin) / 2);

bool are_drawn() {
  if ((personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0) return false;  // 0xffffffff: only reads it
  return !kernel_text("/proc/sys/kernel/randomize_va_space").starts_with('0');
}

}  // namespace

uint64_t drawn(uint64_t spread, uint64_t unit) {
  static const bool wanted = are_drawn();
  return wanted ? random_number(spread / unit) * unit : 0;
}

}  // namespace cropdl::host
