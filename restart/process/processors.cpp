#include "restart/process/processors.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdlib>

#include "base/file.h"
#include "base/format.h"
#include "restart/process/attribute_calls.h"

namespace cropdl::process {
namespace {

using Affinity = std::array<unsigned long, 128>;  // 8192 processors

// Of the calling thread, without the processors from `number` on. Empty if it cannot be read.
Affinity affinity_below(uint32_t number) {
  Affinity mask{};
  if (syscall(SYS_sched_getaffinity, 0, sizeof mask, mask.data()) < 0) return {};
  for (size_t i = number; i < mask.size() * 64; ++i) mask[i / 64] &= ~(1ul << i % 64);
  return mask;
}

}  // namespace

uint32_t possible_processors() {
  const std::string ranges = kernel_text("/sys/devices/system/cpu/possible");  // "0-7,16-23"
  const std::string number = ranges.substr(ranges.find_last_of("-,") + 1);     // npos + 1 is 0
  char* end = nullptr;
  const unsigned long highest = strtoul(number.c_str(), &end, 10);
  return end == number.c_str() ? 0 : static_cast<uint32_t>(highest + 1);
}

uint32_t allowed_processors() {
  uint32_t count = 0;
  for (const unsigned long word : affinity_below(UINT32_MAX)) count += std::popcount(word);
  return count;
}

std::string no_processor_below(uint32_t number) {
  if (number == 0 || affinity_below(number) != Affinity{}) return "";
  const std::string allowed = read_affinity(0);
  if (allowed.empty()) return "";  // unknown
  return formatted(
      "the program began on a machine with {} processors and may count on that, but here it is bound to "
      "{}; bind it to some of 0 to {} (taskset -c, or the launcher's option), or to none, or ask the batch "
      "system for such processors",
      number, allowed, number - 1);
}

Status keep_to_processors_below(uint32_t number, std::string* note) {
  if (number == 0) return {};
  const Affinity mask = affinity_below(number);
  const std::string before = read_affinity(0);
  if (mask == Affinity{}) return {};
  if (syscall(SYS_sched_setaffinity, 0, sizeof mask, mask.data()) != 0)
    return Error{"the program cannot be kept to the processors 0 to {} of this machine: {}", number - 1,
                 errno_text(errno)};
  if (const std::string now = read_affinity(0); now != before)
    *note = formatted(
        "the program began on a machine with {} processors, and is kept to as many here: it may run on {} "
        "(of {})",
        number, now, before);
  return {};
}

}  // namespace cropdl::process
