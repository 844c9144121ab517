#include "interpose/launch/elf_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "base/format.h"
#include "base/page.h"

namespace cropdl::launching {
namespace {

constexpr uint64_t kLargestAlignment = 1ull << 30;  // size of the largest pages

struct File : Descriptor {
  uint64_t size = 0;  // of a regular file; 0 for others
  // O_NONBLOCK: opening a FIFO must not block.
  explicit File(const std::string& path) : Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat info {};
    if (*this && fstat(fd(), &info) == 0 && S_ISREG(info.st_mode)) size = static_cast<uint64_t>(info.st_size);
  }
  bool holds(uint64_t offset, uint64_t bytes) const { return offset <= size && bytes <= size - offset; }
  bool read(void* to, size_t bytes, uint64_t offset) const {
    return pread(fd(), to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }
};

// File offset of virtual address `a`, or -1.
int64_t offset_of(const ElfFile& elf, uint64_t a) {
  for (const auto& s : elf.segments)
    if (s.p_type == PT_LOAD && a >= s.p_vaddr && a < s.p_vaddr + s.p_filesz)
      return static_cast<int64_t>(a - s.p_vaddr + s.p_offset);
  return -1;
}

void read_needed(const File& file, const Elf64_Phdr& dynamic, ElfFile* elf) {
  const size_t count = dynamic.p_filesz / sizeof(Elf64_Dyn);
  if (count > 4096) return;
  std::vector<Elf64_Dyn> entries(count);
  if (!file.read(entries.data(), count * sizeof(Elf64_Dyn), dynamic.p_offset)) return;
  int64_t strings = -1;
  uint64_t size = 0;
  for (const auto& e : entries) {
    if (e.d_tag == DT_STRTAB) strings = offset_of(*elf, e.d_un.d_ptr);
    if (e.d_tag == DT_STRSZ) size = e.d_un.d_val;
  }
  if (strings < 0) return;
  if (file.holds(static_cast<uint64_t>(strings), size)) {
    elf->names.resize(size);
    if (!file.read(elf->names.data(), size, static_cast<uint64_t>(strings))) elf->names.clear();
  }
  for (const auto& e : entries) {
    if (e.d_tag == DT_NULL) break;
    if (e.d_tag != DT_NEEDED) continue;
    char name[256] = {};
    if (pread(file.fd(), name, sizeof name - 1,
              static_cast<off_t>(strings + static_cast<int64_t>(e.d_un.d_val))) > 0)
      elf->needed.emplace_back(name);
  }
}

// Returns "" or why the segment cannot be mapped. Pages beyond the file's end would raise SIGBUS on access.
std::string why_not(const File& file, const Elf64_Phdr& s) {
  constexpr uint64_t kAddresses = 1ull << 47;  // of user space (Linux Documentation/arch/x86/x86_64/mm.rst)
  if (!file.holds(s.p_offset, s.p_filesz))
    return formatted("is cut short: it has {} bytes and should have {}", file.size,
                     s.p_filesz <= ~0ull - s.p_offset ? std::to_string(s.p_offset + s.p_filesz) : "more");
  if (s.p_filesz > s.p_memsz || s.p_vaddr >= kAddresses || s.p_memsz >= kAddresses ||
      s.p_vaddr % kPage != s.p_offset % kPage)
    return "damaged ELF header";
  return "";
}

}  // namespace

bool ElfFile::knows(const std::string& symbol) const {
  return names.find('\0' + symbol + '\0') != std::string::npos;
}

Result<ElfFile> read_elf(const std::string& path) {
  const File file(path);
  if (!file) return Error{"{}: cannot open: {}", path, errno_text(errno)};
  ElfFile elf;
  elf.path = path;
  if (!file.read(&elf.header, sizeof elf.header, 0) || memcmp(elf.header.e_ident, ELFMAG, SELFMAG) != 0)
    return Error{path + ": not an ELF program"};
  const auto& h = elf.header;
  if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != EM_X86_64 || h.e_phentsize != sizeof(Elf64_Phdr))
    return Error{path + ": not an x86-64 program"};
  if (h.e_type != ET_EXEC && h.e_type != ET_DYN) return Error{path + ": not a program"};
  if (h.e_phnum == 0 || h.e_phnum > 128) return Error{path + ": damaged ELF header"};
  elf.segments.resize(h.e_phnum);
  if (!file.read(elf.segments.data(), h.e_phnum * sizeof(Elf64_Phdr), h.e_phoff))
    return Error{path + ": damaged ELF header"};
  for (const auto& s : elf.segments) {
    if (s.p_type == PT_LOAD)
      if (const std::string line = why_not(file, s); !line.empty()) return Error{path + ": " + line};
    if (s.p_type == PT_INTERP && s.p_filesz < 4096) {
      elf.interpreter.resize(s.p_filesz);
      if (!file.read(elf.interpreter.data(), s.p_filesz, s.p_offset))
        return Error{path + ": damaged ELF header"};
      elf.interpreter.resize(strlen(elf.interpreter.c_str()));
    }
    if (s.p_type == PT_DYNAMIC) read_needed(file, s, &elf);
  }
  return elf;
}

Result<MappedElf> map_elf(const ElfFile& elf, uint64_t at) {
  const File file(elf.path);
  if (!file) return Error{"{}: cannot open: {}", elf.path, errno_text(errno)};
  uint64_t low = ~0ull, high = 0, alignment = 1;
  for (const auto& s : elf.segments) {
    if (s.p_type != PT_LOAD) continue;
    if (std::has_single_bit(s.p_align) && s.p_align <= kLargestAlignment)
      alignment = std::max(alignment, s.p_align);
    low = std::min(low, page_down(s.p_vaddr));
    high = std::max(high, page_up(s.p_vaddr + s.p_memsz));
  }
  if (low >= high) return Error{elf.path + ": has nothing to load"};
  MappedElf m;
  m.begin = elf.position_independent() ? at + ((low - at) & (alignment - 1)) : low;
  m.bias = m.begin - low;
  m.end = m.begin + (high - low);
  auto fail = [&](const char* what) { return Error{"{}: {}: {}", elf.path, what, errno_text(errno)}; };
  // Reserves the whole range first, so that MAP_FIXED below cannot replace another mapping.
  void* reserved = mmap(reinterpret_cast<void*>(m.begin), m.end - m.begin, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (reserved != reinterpret_cast<void*>(m.begin)) return fail("its addresses are taken in this process");
  for (const auto& s : elf.segments) {
    if (s.p_type != PT_LOAD) continue;
    const int prot = ((s.p_flags & PF_R) ? PROT_READ : 0) | ((s.p_flags & PF_W) ? PROT_WRITE : 0) |
                     ((s.p_flags & PF_X) ? PROT_EXEC : 0);
    const uint64_t begin = page_down(m.bias + s.p_vaddr), file_end = m.bias + s.p_vaddr + s.p_filesz;
    const uint64_t end = page_up(m.bias + s.p_vaddr + s.p_memsz), file_pages = page_up(file_end);
    if (s.p_filesz != 0 &&
        mmap(reinterpret_cast<void*>(begin), file_pages - begin, prot, MAP_PRIVATE | MAP_FIXED, file.fd(),
             static_cast<off_t>(page_down(s.p_offset))) == MAP_FAILED)
      return fail("cannot map it");
    const uint64_t zero_from = s.p_filesz != 0 ? file_pages : begin;
    if (s.p_filesz != 0 && (prot & PROT_WRITE) != 0 && s.p_memsz > s.p_filesz)
      memset(reinterpret_cast<void*>(file_end), 0, file_pages - file_end);
    if (end > zero_from && mmap(reinterpret_cast<void*>(zero_from), end - zero_from, prot,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
      return fail("cannot map it");
    if (elf.header.e_phoff >= s.p_offset && elf.header.e_phoff < s.p_offset + s.p_filesz)
      m.headers = m.bias + s.p_vaddr + (elf.header.e_phoff - s.p_offset);
  }
  m.entry = m.bias + elf.header.e_entry;
  return m;
}

}  // namespace cropdl::launching
