#include "interpose/host/initial_stack.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "interpose/host/drawn_addresses.h"
#include "interpose/seam/state.h"

namespace cropdl::host {
namespace {

// As in the kernel (fs/exec.c, setup_arg_pages): a small mapping that grows on access below it, up to the
// current RLIMIT_STACK (setrlimit at run time included), also after a restart. Nothing else is placed in the
// addresses reserved for its growth, which cost no memory. It begins larger than the kernel's: the frames of
// CropDL's signals need more space than a program with the smallest limit has.
constexpr uint64_t kFirstPart = 512ull << 10;
constexpr uint64_t kRoom = 256ull << 30;
constexpr uint64_t kTopSpread = 8 << 10;  // the start within a page is random, too (arch_align_stack)

std::vector<Elf64_auxv_t> own_auxv() {
  std::vector<Elf64_auxv_t> all;
  const int fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
  Elf64_auxv_t entry;
  while (fd >= 0 && read(fd, &entry, sizeof entry) == sizeof entry && entry.a_type != AT_NULL)
    all.push_back(entry);
  if (fd >= 0) close(fd);
  return all;
}

}  // namespace

Result<uint64_t> build_stack(const InitialStack& what) {
  uint64_t texts = 0;
  for (const auto& e : what.environment) texts += e.size() + 1 + sizeof(char*);
  for (const auto& a : what.arguments) texts += a.size() + 1 + sizeof(char*);
  const uint64_t size = (texts + kTopSpread + kFirstPart + 0xffff) & ~0xffffull;
  auto* state = seam::state();
  const uint64_t low = state->map_next + kRoom + drawn(kStackSpread);
  void* p =
      mmap(reinterpret_cast<void*>(low), size, PROT_READ | PROT_WRITE | (what.executable ? PROT_EXEC : 0),
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_GROWSDOWN | MAP_FIXED_NOREPLACE, -1, 0);
  if (p != reinterpret_cast<void*>(low)) return Error{"cannot map the program's stack: " + errno_text(errno)};
  state->map_first = state->map_next = low + size + (1 << 20) + drawn(kMappingsSpread);

  auto* top = reinterpret_cast<char*>(low + size - 64);
  const auto push = [&](const void* bytes, size_t n) {
    top -= n;
    memcpy(top, bytes, n);
    return reinterpret_cast<uint64_t>(top);
  };
  const auto push_text = [&](const std::string& text) { return push(text.c_str(), text.size() + 1); };

  const uint64_t execfn = push_text(what.program), platform = push_text("x86_64");
  std::vector<uint64_t> environment, arguments;
  // The last string first, so that the order in memory is the kernel's, which /proc shows.
  auto& view = state->view;
  for (auto e = what.environment.rbegin(); e != what.environment.rend(); ++e)
    environment.push_back(push_text(*e));
  view.environment = reinterpret_cast<uint64_t>(top);
  for (auto a = what.arguments.rbegin(); a != what.arguments.rend(); ++a) arguments.push_back(push_text(*a));
  view.arguments = reinterpret_cast<uint64_t>(top);
  top = reinterpret_cast<char*>(reinterpret_cast<uint64_t>(top) & ~15ull) - drawn(kTopSpread, 16);
  const uint64_t random = push(reinterpret_cast<const void*>(getauxval(AT_RANDOM)), 16);

  std::vector<uint64_t> aux;
  for (const Elf64_auxv_t& entry : own_auxv()) {
    uint64_t value = entry.a_un.a_val;
    switch (entry.a_type) {
      case AT_PHDR:
        value = what.image.headers;
        break;
      case AT_PHNUM:
        value = what.segments;
        break;
      case AT_ENTRY:
        value = what.image.entry;
        break;
      case AT_BASE:
        value = what.interpreter.bias;
        break;
      case AT_EXECFN:
        value = execfn;
        break;
      case AT_RANDOM:
        value = random;
        break;
      case AT_PLATFORM:
        value = platform;
        break;
      case AT_SYSINFO_EHDR:
        value = what.vdso;
        break;
      case AT_BASE_PLATFORM:
        continue;
      default:
        break;
    }
    aux.push_back(entry.a_type);
    aux.push_back(value);
  }
  aux.push_back(AT_NULL);
  aux.push_back(0);

  const size_t words = 1 + arguments.size() + 1 + environment.size() + 1 + aux.size();
  auto* sp = reinterpret_cast<uint64_t*>((reinterpret_cast<uint64_t>(top) - words * 8) & ~15ull);
  uint64_t* w = sp;
  *w++ = arguments.size();
  for (auto a = arguments.rbegin(); a != arguments.rend(); ++a) *w++ = *a;
  *w++ = 0;
  for (auto e = environment.rbegin(); e != environment.rend(); ++e) *w++ = *e;
  *w++ = 0;
  view.auxiliary = reinterpret_cast<uint64_t>(w);
  view.auxiliary_bytes = aux.size() * sizeof(uint64_t);
  for (const uint64_t a : aux) *w++ = a;
  return reinterpret_cast<uint64_t>(sp);
}

}  // namespace cropdl::host
