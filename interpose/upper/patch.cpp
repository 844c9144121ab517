// Replaces libc's frequent placement system calls by jumps to the core, which save the SIGSYS. Calls that are
// not patched are trapped. Runs on the thread that has just mapped libc's text (ld.so, before any code of
// libc), so no thread is executing the changed bytes.
//
// A site is `b8 NR 00 00 00 0f 05` (mov $NR,%eax; syscall) inside one of the named functions. It is changed
// only if no short or near jump in that function lands between its bytes.
#include <asm/unistd.h>
#include <elf.h>
#include <linux/mman.h>

#include "base/page.h"
#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

constexpr int kSiteBytes = 7, kStubBytes = 32;
constexpr long kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;

CROPDL_OWN_FRAME bool is_libc(int fd) {
  char link[40] = "/proc/self/fd/", digits[12];
  int n = 14, d = 0;
  for (unsigned v = fd; v != 0 || d == 0; v /= 10) digits[d++] = '0' + v % 10;
  while (d > 0) link[n++] = digits[--d];
  link[n] = 0;
  return leads_to(link, equal, "libc.so.6", false);
}

template <class T>
bool read_at(int fd, uint64_t offset, T* to) {
  return raw(__NR_pread64, fd, as_word(to), sizeof *to, offset) == sizeof *to;
}

// The library's dynamic symbols. ld.so has already mapped their read-only segment below the text.
struct Symbols {
  uint64_t base = 0;
  const Elf64_Sym* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* hash = nullptr;

  const Elf64_Sym* find(const char* name) const {
    const uint32_t found =
        find_symbol(hash, name, [&](uint32_t i) { return equal(strings + symbols[i].st_name, name); });
    return found != 0 ? &symbols[found] : nullptr;
  }
};

// Reads the section headers of the file: PT_DYNAMIC lies in the data segment, which is not mapped yet.
CROPDL_OWN_FRAME bool read_symbols(int fd, uint64_t text, Symbols* out) {
  Elf64_Ehdr header;
  if (!read_at(fd, 0, &header)) return false;
  Elf64_Phdr ph;
  uint64_t text_address = 0;
  for (int i = 0; i < header.e_phnum; ++i) {
    if (!read_at(fd, header.e_phoff + i * sizeof ph, &ph)) return false;
    if (ph.p_type == PT_LOAD && (ph.p_flags & PF_X) != 0) text_address = ph.p_vaddr & ~4095ull;
  }
  if (text_address == 0) return false;
  out->base = text - text_address;
  Elf64_Shdr section;
  for (int i = 0; i < header.e_shnum; ++i) {
    if (!read_at(fd, header.e_shoff + i * sizeof section, &section)) return false;
    const uint64_t at = out->base + section.sh_addr;
    if (section.sh_type == SHT_GNU_HASH) out->hash = reinterpret_cast<const uint32_t*>(at);
    if (section.sh_type == SHT_DYNSYM) {
      out->symbols = reinterpret_cast<const Elf64_Sym*>(at);
      Elf64_Shdr strings;
      if (!read_at(fd, header.e_shoff + section.sh_link * sizeof strings, &strings)) return false;
      out->strings = reinterpret_cast<const char*>(out->base + strings.sh_addr);
    }
  }
  return out->hash != nullptr && out->symbols != nullptr && out->strings != nullptr;
}

int32_t read32(const uint8_t* p) {
  return static_cast<int32_t>(p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24);
}

bool jumped_into(const uint8_t* function, uint64_t size, const uint8_t* site) {
  auto inside = [&](const uint8_t* target) { return target > site && target < site + kSiteBytes; };
  for (const uint8_t* p = function; p + 6 <= function + size; ++p) {
    if (((p[0] & 0xf0) == 0x70 || p[0] == 0xeb) && inside(p + 2 + static_cast<int8_t>(p[1]))) return true;
    if ((p[0] == 0xe9 || p[0] == 0xe8) && inside(p + 5 + read32(p + 1))) return true;
    if (p[0] == 0x0f && (p[1] & 0xf0) == 0x80 && inside(p + 6 + read32(p + 2))) return true;
  }
  return false;
}

void put(uint8_t*& p, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) *p++ = static_cast<uint8_t>(value >> (8 * i));
}

}  // namespace

long patch_libc(const SystemCall& c, uint64_t text) {
  const uint64_t length = page_up(c.a[1]);
  const int fd = static_cast<int>(c.a[4]);
  const auto unchanged = static_cast<long>(text);
  Symbols symbols;
  if (!is_libc(fd) || !read_symbols(fd, text, &symbols)) return unchanged;
  const long stubs = place_mmap({__NR_mmap, {0, kPage, PROT_READ | PROT_WRITE, kAnonymous, -1, 0}});
  if (failed(stubs)) return unchanged;
  if (failed(raw(__NR_mprotect, text, length, PROT_READ | PROT_WRITE))) {
    raw(__NR_munmap, stubs, kPage);
    return unchanged;
  }
  auto* stub = reinterpret_cast<uint8_t*>(stubs);
  auto patch_in = [&](const char* name, int number) {
    const Elf64_Sym* symbol = symbols.find(name);
    if (symbol == nullptr) return;
    auto* function = reinterpret_cast<uint8_t*>(symbols.base + symbol->st_value);
    if (reinterpret_cast<uint64_t>(function) < text ||
        reinterpret_cast<uint64_t>(function) + symbol->st_size > text + length)
      return;
    for (uint8_t* p = function; p + kSiteBytes <= function + symbol->st_size; ++p) {
      if (p[0] != 0xb8 || read32(p + 1) != number || p[5] != 0x0f || p[6] != 0x05) continue;
      if (jumped_into(function, symbol->st_size, p)) continue;
      const long distance = stub - (p + 5);
      if (distance != static_cast<int32_t>(distance)) return;
      uint8_t* q = stub;
      put(q, 0xb948, 2), put(q, reinterpret_cast<uint64_t>(p + kSiteBytes), 8);  // movabs $return, %rcx
      put(q, 0xb8, 1), put(q, number, 4);                                        // mov $number, %eax
      put(q, 0xbb49, 2),
          put(q, reinterpret_cast<uint64_t>(cropdl_core_syscall_entry), 8);  // movabs $entry, %r11
      put(q, 0xe3ff41, 3);                                                   // jmp *%r11
      stub += kStubBytes;
      uint8_t* site = p;
      put(site, 0xe9, 1), put(site, static_cast<uint32_t>(distance), 4), put(site, 0x9090, 2);
    }
  };
  patch_in("mmap", __NR_mmap);
  patch_in("mremap", __NR_mremap);
  patch_in("brk", __NR_brk);
  constexpr long kCode = PROT_READ | PROT_EXEC;
  if (!failed(raw(__NR_mprotect, stubs, kPage, kCode)) && !failed(raw(__NR_mprotect, text, length, kCode)))
    return unchanged;
  // Written memory may not become executable here (SELinux's execmem and execmod, PR_SET_MDWE). Map the
  // file's text again; its calls are trapped.
  raw(__NR_munmap, stubs, kPage);
  return raw(c.nr, unchanged, c.a[1], c.a[2], c.a[3] | MAP_FIXED, c.a[4], c.a[5]);
}

}  // namespace cropdl::upper
