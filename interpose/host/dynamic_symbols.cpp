#include "interpose/host/dynamic_symbols.h"

#include <cstring>

#include "interpose/upper/raw.h"

namespace cropdl::host {
namespace {

struct Tables {
  const Elf64_Sym* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* hash = nullptr;      // DT_HASH
  const uint32_t* gnu_hash = nullptr;  // DT_GNU_HASH; newer kernels' vDSOs have only this

  bool defines(uint32_t i, const char* name) const {
    const auto type = ELF64_ST_TYPE(symbols[i].st_info);
    return symbols[i].st_shndx != SHN_UNDEF && type != STT_GNU_IFUNC && type != STT_TLS &&
           strcmp(strings + symbols[i].st_name, name) == 0;
  }
};

// Returns the symbol's index; 0: none.
uint32_t find(const Tables& t, const char* name) {
  if (t.gnu_hash == nullptr) {
    const uint32_t count = t.hash != nullptr ? t.hash[1] : 0;
    for (uint32_t i = 1; i < count; ++i)
      if (t.defines(i, name)) return i;
    return 0;
  }
  return upper::find_symbol(t.gnu_hash, name, [&](uint32_t i) { return t.defines(i, name); });
}

}  // namespace

uint64_t dynamic_symbol(const Elf64_Dyn* dynamic, uint64_t bias, bool relocated, const char* name) {
  Tables t;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const uint64_t at = dynamic->d_un.d_ptr + (relocated ? 0 : bias);
    if (dynamic->d_tag == DT_STRTAB) t.strings = reinterpret_cast<const char*>(at);
    if (dynamic->d_tag == DT_SYMTAB) t.symbols = reinterpret_cast<const Elf64_Sym*>(at);
    if (dynamic->d_tag == DT_HASH) t.hash = reinterpret_cast<const uint32_t*>(at);
    if (dynamic->d_tag == DT_GNU_HASH) t.gnu_hash = reinterpret_cast<const uint32_t*>(at);
  }
  if (t.strings == nullptr || t.symbols == nullptr) return 0;
  if (relocated && reinterpret_cast<uint64_t>(t.symbols) < bias)
    return 0;  // the core, which is not relocated
  const uint32_t found = find(t, name);
  return found != 0 ? bias + t.symbols[found].st_value : 0;
}

uint64_t dynamic_symbol(uint64_t elf_header, const char* name, bool relocated) {
  if (elf_header == 0) return 0;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(elf_header);
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(elf_header + header->e_phoff);
  const Elf64_Phdr *first = nullptr, *dynamic = nullptr;
  for (const Elf64_Phdr* s = segments; s != segments + header->e_phnum; ++s) {
    if (s->p_type == PT_LOAD && first == nullptr) first = s;
    if (s->p_type == PT_DYNAMIC) dynamic = s;
  }
  if (first == nullptr || dynamic == nullptr) return 0;
  const uint64_t bias = elf_header - first->p_vaddr;
  return dynamic_symbol(reinterpret_cast<const Elf64_Dyn*>(bias + dynamic->p_vaddr), bias, relocated, name);
}

}  // namespace cropdl::host
