#include "restart/process/machine.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/caught.h"
#include "base/file.h"
#include "base/format.h"
#include "restart/process/attribute_calls.h"

namespace cropdl::process {
namespace {

// Only extensions that user code can execute; most flags of /proc/cpuinfo concern the kernel.
constexpr std::string_view kUserFeatures =
    " sse3 pni ssse3 sse4_1 sse4_2 popcnt aes pclmulqdq avx f16c fma movbe bmi1 bmi2 abm avx2 avx_vnni "
    "avx512f avx512dq avx512cd avx512bw avx512vl avx512ifma avx512vbmi avx512_vbmi2 avx512_vnni "
    "avx512_bitalg avx512_vpopcntdq avx512_bf16 avx512_fp16 avx512_vp2intersect vaes vpclmulqdq gfni "
    "sha_ni adx rdrand rdseed clwb clflushopt clzero rdpid erms fsrm movdiri movdir64b serialize "
    "waitpkg amx_tile amx_int8 amx_bf16 rtm sse4a xop fma4 tbm xsavec cx16 lahf_lm ";

// Extensions that /proc/cpuinfo lacks (arch/x86/include/asm/cpufeatures.h): CPUID leaf 7, subleaf 1.
struct Hidden {
  bool in_edx;
  unsigned bit;
  const char* name;
};
constexpr Hidden kHidden[] = {
    {false, 0, "sha512"},     {false, 1, "sm3"},           {false, 2, "sm4"},
    {false, 3, "rao_int"},    {false, 7, "cmpccxadd"},     {false, 21, "amx_fp16"},
    {false, 23, "avx_ifma"},  {true, 4, "avx_vnni_int8"},  {true, 5, "avx_ne_convert"},
    {true, 8, "amx_complex"}, {true, 10, "avx_vnni_int16"}};

std::vector<std::string> read_cpu_features() {
  std::ifstream in("/proc/cpuinfo");
  let_exceptions_through(in);
  std::vector<std::string> found;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    let_exceptions_through(words);
    for (std::string word; words >> word;)
      if (kUserFeatures.find(" " + word + " ") != kUserFeatures.npos) found.push_back(word);
    break;
  }
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx);
  for (const std::string& name : hidden_features(eax, edx)) found.push_back(name);
  if (has_fsgsbase()) found.push_back(kFsGsBase);
  std::sort(found.begin(), found.end());
  return found;
}

using Affinity = std::array<unsigned long, 128>;  // 8192 processors

// Of the calling thread, without the processors from `number` on. Empty if it cannot be read.
Affinity affinity_below(uint32_t number) {
  Affinity mask{};
  if (syscall(SYS_sched_getaffinity, 0, sizeof mask, mask.data()) < 0) return {};
  for (size_t i = number; i < mask.size() * 64; ++i) mask[i / 64] &= ~(1ul << i % 64);
  return mask;
}

}  // namespace

std::vector<std::string> hidden_features(unsigned eax, unsigned edx) {
  std::vector<std::string> names;
  for (const Hidden& h : kHidden)
    if (((h.in_edx ? edx : eax) >> h.bit & 1) != 0) names.emplace_back(h.name);
  return names;
}

const std::vector<std::string>& cpu_features() {
  static const std::vector<std::string> features = read_cpu_features();  // slow to read on many cores
  return features;
}

std::vector<std::string> missing_features(const std::vector<std::string>& needed) {
  const auto& have = cpu_features();
  std::vector<std::string> missing;
  for (const auto& name : needed)
    if (!std::binary_search(have.begin(), have.end(), name)) missing.push_back(name);
  return missing;
}

std::string line_of_more_features(const std::vector<std::string>& before,
                                  const std::vector<std::string>& here) {
  constexpr std::string_view kVectors[] = {"sse4", "avx", "amx", "fma", "xop"};
  std::string more;
  for (const std::string& name : here) {
    const bool is_vector =
        std::ranges::any_of(kVectors, [&](std::string_view with) { return name.starts_with(with); });
    const bool is_hidden = std::ranges::any_of(kHidden, [&](const Hidden& h) { return name == h.name; });
    if (!is_vector || is_hidden || std::ranges::find(before, name) != before.end()) continue;
    more += (more.empty() ? "" : ", ") + name;
  }
  if (more.empty()) return "";
  return formatted(
      "this CPU has more than the one before ({}): the state is the same bit for bit, but libraries that "
      "choose or compile code only now may add in another order",
      more);
}

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
