#include <fcntl.h>
#include <linux/prctl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/file.h"
#include "base/procfs.h"
#include "base/random.h"
#include "interpose/host/process.h"

namespace cropdl::host {
namespace {

// As in the kernel (fs/exec.c, setup_arg_pages): a small mapping that grows on access below it, up to the
// current RLIMIT_STACK (setrlimit at run time included), also after a restart. The addresses for its growth
// are reserved and cost no memory. It begins larger than the kernel's: CropDL's signal frames need more than
// the smallest limit gives.
constexpr uint64_t kFirstPart = 512ull << 10;
constexpr uint64_t kRoom = 256ull << 30;
constexpr uint64_t kTopSpread = 8 << 10;  // the start within a page is random, too (arch_align_stack)

// Maps the stack and returns its end. The program's mappings come behind it.
Result<uint64_t> map_stack(const InitialStack& what) {
  uint64_t texts = 0;
  for (const auto* list : {&what.environment, &what.arguments})
    for (const std::string& text : *list) texts += text.size() + 1 + sizeof(char*);
  const uint64_t size = (texts + kTopSpread + kFirstPart + 0xffff) & ~0xffffull;
  auto* state = seam::state();
  const int access = PROT_READ | PROT_WRITE | (state->executable_stacks != 0 ? PROT_EXEC : 0);
  const uint64_t low = state->map_next + kRoom + drawn(kSpread);
  void* p = mmap(reinterpret_cast<void*>(low), size, access,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0);
  if (p != reinterpret_cast<void*>(low)) return Error{"cannot map the program's stack: " + errno_text(errno)};
  state->map_first = state->map_next = low + size + (1 << 20) + drawn(kSpread);
  return low + size;
}

// Each push returns its address.
struct Top {
  uint64_t at;
  uint64_t push(const void* bytes, size_t n) {
    memcpy(reinterpret_cast<void*>(at -= n), bytes, n);
    return at;
  }
  uint64_t push(const std::string& text) { return push(text.c_str(), text.size() + 1); }
  // The last string first: the order in memory is the kernel's, which /proc shows. A null ends the addresses.
  std::vector<uint64_t> push(const std::vector<std::string>& texts) {
    std::vector<uint64_t> addresses(texts.size() + 1);
    for (size_t i = texts.size(); i-- > 0;) addresses[i] = push(texts[i]);
    return addresses;
  }
};

// The kernel's vector for this process, with the program's values.
std::vector<uint64_t> auxiliary_vector(const InitialStack& what, uint64_t execfn, uint64_t platform,
                                       uint64_t random) {
  const std::map<uint64_t, uint64_t> programs = {
      {AT_PHDR, what.image.headers},    {AT_PHNUM, what.segments},     {AT_ENTRY, what.image.entry},
      {AT_BASE, what.interpreter.bias}, {AT_EXECFN, execfn},           {AT_RANDOM, random},
      {AT_PLATFORM, platform},          {AT_SYSINFO_EHDR, seam::kCore}};
  std::vector<uint64_t> vector;
  const int fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
  Elf64_auxv_t entry;
  while (fd >= 0 && read(fd, &entry, sizeof entry) == sizeof entry && entry.a_type != AT_NULL) {
    if (entry.a_type == AT_BASE_PLATFORM) continue;
    const auto own = programs.find(entry.a_type);
    vector.insert(vector.end(), {entry.a_type, own != programs.end() ? own->second : entry.a_un.a_val});
  }
  if (fd >= 0) close(fd);
  vector.insert(vector.end(), {AT_NULL, 0});
  return vector;
}

}  // namespace

uint64_t drawn(uint64_t spread, uint64_t unit) {
  static const bool wanted =
      (personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0 &&  // 0xffffffff: only reads it
      !kernel_text("/proc/sys/kernel/randomize_va_space").starts_with('0');
  return wanted ? random_number(spread / unit) * unit : 0;
}

Result<uint64_t> build_stack(const InitialStack& what) {
  const auto end = map_stack(what);
  if (!end) return end.error();
  Top top{*end - 64};
  const uint64_t execfn = top.push(what.program), platform = top.push("x86_64");
  auto& view = seam::state()->view;
  const std::vector<uint64_t> environment = top.push(what.environment);
  view.environment = top.at;
  const std::vector<uint64_t> arguments = top.push(what.arguments);
  view.arguments = top.at;
  top.at = (top.at & ~15ull) - drawn(kTopSpread, 16);
  const uint64_t random = top.push(reinterpret_cast<const void*>(getauxval(AT_RANDOM)), 16);
  const std::vector<uint64_t> auxiliary = auxiliary_vector(what, execfn, platform, random);

  std::vector<uint64_t> words = {what.arguments.size()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), environment.begin(), environment.end());
  view.auxiliary_bytes = auxiliary.size() * sizeof(uint64_t);
  words.insert(words.end(), auxiliary.begin(), auxiliary.end());
  const uint64_t sp = (top.at - words.size() * sizeof(uint64_t)) & ~15ull;
  memcpy(reinterpret_cast<void*>(sp), words.data(), words.size() * sizeof(uint64_t));
  view.auxiliary = sp + (words.size() - auxiliary.size()) * sizeof(uint64_t);
  return sp;
}

void show_program() {
  const auto& view = seam::state()->view;
  if (view.auxiliary == 0) return;
  // PR_SET_MM_MAP sets all bounds together (man 2 prctl). The bounds that do not change come from fields 26,
  // 27, 45 to 47, 50 and 51 of /proc/self/stat (man 5 proc). The kernel works with those of data and brk:
  // they stay the lower half's, as its own malloc calls brk().
  const std::vector<std::string> stat = process_stat("self");
  if (stat.size() < 52) return;
  const auto field = [&stat](size_t n) { return strtoull(stat[n].c_str(), nullptr, 10); };
  prctl_mm_map map{};
  map.start_code = field(26);
  map.end_code = field(27);
  map.start_stack = view.auxiliary;  // natively below argv and envp: whoever scans the stack scans them, too
  map.start_data = field(45);
  map.end_data = field(46);
  map.start_brk = field(47);
  map.brk = reinterpret_cast<uint64_t>(sbrk(0));
  map.arg_start = view.arguments;
  map.arg_end = view.environment;
  map.env_start = field(50);
  map.env_end = field(51);
  map.auxv = reinterpret_cast<__u64*>(view.auxiliary);
  map.auxv_size = static_cast<uint32_t>(view.auxiliary_bytes);
  map.exe_fd = static_cast<uint32_t>(-1);
  prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0);
}

}  // namespace cropdl::host
