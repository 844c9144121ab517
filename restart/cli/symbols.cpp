// Function names in programs and libraries, by libelf.
#include <cxxabi.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>

#include <cstdlib>
#include <memory>
#include <optional>

#include "base/file.h"
#include "base/format.h"
#include "restart/cli/saved_process.h"
#include "restart/content.h"

namespace cropdl::cli {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? text.get() : name;
}

// Returns the link-time address of that file offset.
std::optional<uint64_t> address_of(Elf* elf, uint64_t offset) {
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr || segment.p_type != PT_LOAD) continue;
    if (offset >= segment.p_offset && offset - segment.p_offset < segment.p_filesz)
      return segment.p_vaddr + (offset - segment.p_offset);
  }
  return std::nullopt;
}

// `address`: of the last byte of the call.
std::string name_in(Elf* elf, Elf_Scn* section, const GElf_Shdr& header, uint64_t address) {
  Elf_Data* const data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return "";
  const uint64_t count = header.sh_size / header.sh_entsize;
  for (uint64_t i = 0; i < count && i <= INT32_MAX; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
    const auto type = GELF_ST_TYPE(symbol.st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
    if (address < symbol.st_value || address - symbol.st_value >= symbol.st_size) continue;
    const char* const name = elf_strptr(elf, header.sh_link, symbol.st_name);
    if (name != nullptr) return formatted("{}+0x{:x}", demangled(name), address + 1 - symbol.st_value);
  }
  return "";
}

// Searches the full symbol table, or the exported symbols if that was stripped.
std::string name_of(Elf* elf, uint64_t address) {
  for (const uint32_t kind : {SHT_SYMTAB, SHT_DYNSYM}) {
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr || header.sh_type != kind) continue;
      if (std::string name = name_in(elf, section, header, address); !name.empty()) return name;
    }
  }
  return "";
}

}  // namespace

std::string symbol_of_return(const CallSite& site) {
  if (site.offset == 0) return "";
  const Descriptor file(::open(site.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat now;
  if (!file || ::fstat(file.fd(), &now) != 0 || !S_ISREG(now.st_mode) ||
      !restart::has_size_and_time(now, site.size, site.modified) || elf_version(EV_CURRENT) == EV_NONE)
    return "";
  const std::unique_ptr<Elf, int (*)(Elf*)> elf(elf_begin(file.fd(), ELF_C_READ, nullptr), elf_end);
  if (!elf || elf_kind(elf.get()) != ELF_K_ELF) return "";
  const auto address = address_of(elf.get(), site.offset - 1);
  return address ? name_of(elf.get(), *address) : "";
}

}  // namespace cropdl::cli
