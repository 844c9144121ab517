// Finds the static runtime by its code: static_runtime_by_code() (object_file.h).
#include <ar.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "gpu_state/static_runtime/elf_view.h"
#include "gpu_state/static_runtime/object_file.h"

namespace cropdl::static_runtime {
namespace {

constexpr size_t kAnchorBytes = 64;

struct Code {
  std::string_view bytes;
  std::vector<bool> fixed;                 // for each byte: whether no relocation changes it
  std::vector<RuntimeFunction> functions;  // their addresses are offsets
};

// The bytes around a relocation that a linker may change: the field, and instructions that the linker
// rewrites when it knows the address (x86-64 psABI, "Linker Optimizations").
struct Around {
  uint64_t before, after;
};
Around around(uint32_t type) {
  if (type == R_X86_64_NONE) return {0, 0};
  if (type == R_X86_64_64 || type == R_X86_64_DTPOFF64 || type == R_X86_64_TPOFF64) return {0, 8};
  if (type == R_X86_64_GOTPCRELX) return {2, 4};
  if (type == R_X86_64_REX_GOTPCRELX || type == R_X86_64_GOTTPOFF) return {3, 4};
  if (type == R_X86_64_TLSGD || type == R_X86_64_TLSLD) return {4, 12};
  return {0, 4};
}

// The largest code section of an object.
Code code_of(std::string_view member) {
  const ObjectFile object(member);
  Code code;
  size_t number = 0;
  for (size_t i = 0; i < object.sections().size(); ++i) {
    const Elf64_Shdr& section = object.sections()[i];
    if (section.sh_type != SHT_PROGBITS || !(section.sh_flags & SHF_EXECINSTR)) continue;
    if (section.sh_size > code.bytes.size()) code.bytes = object.content(section), number = i;
  }
  if (code.bytes.empty()) return code;
  code.fixed.assign(code.bytes.size(), true);
  for (const Elf64_Shdr& section : object.sections()) {
    if (section.sh_type != SHT_RELA || section.sh_info != number) continue;
    each_entry<Elf64_Rela>(object.content(section), [&](const Elf64_Rela& one) {
      const Around its = around(ELF64_R_TYPE(one.r_info));
      const uint64_t first = one.r_offset - std::min<uint64_t>(its.before, one.r_offset);
      for (uint64_t i = first; i < std::min<uint64_t>(one.r_offset + its.after, code.bytes.size()); ++i)
        code.fixed[i] = false;
    });
  }
  if (const Elf64_Shdr* symbols = object.section(SHT_SYMTAB))
    object.each_function(*symbols, [&](std::string_view name, const Elf64_Sym& symbol) {
      if (symbol.st_shndx == number && (name.starts_with("cuda") || name.starts_with("__cuda")))
        code.functions.push_back({std::string(name), symbol.st_value, symbol.st_size, {}});
    });
  return code;
}

// The largest code section in the archive (<ar.h>).
Code code_in(std::string_view archive) {
  Code best;
  if (!archive.starts_with(ARMAG)) return best;
  for (size_t at = SARMAG; at + sizeof(ar_hdr) <= archive.size();) {
    ar_hdr header;
    std::memcpy(&header, archive.data() + at, sizeof header);
    size_t size = 0;
    if (std::from_chars(header.ar_size, header.ar_size + sizeof header.ar_size, size).ec != std::errc())
      break;
    at += sizeof header;
    if (size > archive.size() - at) break;
    // No alignment is needed: members begin at even addresses, and ELF tables are read by memcpy.
    Code code = code_of(archive.substr(at, size));
    if (code.bytes.size() > best.bytes.size()) best = std::move(code);
    at += size + size % 2;
  }
  return best;
}

bool is_at(const Code& code, std::string_view place) {
  if (place.size() < code.bytes.size()) return false;
  for (size_t i = 0; i < code.bytes.size(); ++i)
    if (code.fixed[i] && code.bytes[i] != place[i]) return false;
  return true;
}

// The start of the first kAnchorBytes bytes in a row that no relocation changes; npos: there is none.
size_t anchor_of(const Code& code) {
  size_t run = 0;
  for (size_t i = 0; i < code.bytes.size(); ++i) {
    run = code.fixed[i] ? run + 1 : 0;
    if (run == kAnchorBytes) return i + 1 - kAnchorBytes;
  }
  return std::string_view::npos;
}

}  // namespace

StaticRuntime static_runtime_by_code(std::string_view file, std::string_view archive,
                                     const std::vector<std::string>& names) {
  StaticRuntime found;
  Code code = code_in(archive);
  const size_t anchor = anchor_of(code);
  if (anchor == std::string_view::npos || code.functions.empty()) return found;
  const std::string_view wanted = code.bytes.substr(anchor, kAnchorBytes);
  const ObjectFile object(file);
  uint64_t address = 0;
  size_t places = 0;
  for (const Elf64_Phdr& segment : object.segments()) {
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
    const std::string_view bytes = object.part(segment.p_offset, segment.p_filesz);
    for (size_t at = bytes.find(wanted); at != bytes.npos; at = bytes.find(wanted, at + 1)) {
      if (at < anchor || !is_at(code, bytes.substr(at - anchor))) continue;
      address = segment.p_vaddr + at - anchor;
      places++;
    }
  }
  if (places != 1) return found;
  found.functions = std::move(code.functions);
  for (RuntimeFunction& function : found.functions) {
    function.address += address;
    function.original = object.code(function.address, kEntryBytes);
  }
  found.compare(names);
  return found;
}

}  // namespace cropdl::static_runtime
