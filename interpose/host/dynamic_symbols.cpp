// Symbols of ELF objects in memory, by their dynamic symbol tables. (The core reads libc's, when PT_DYNAMIC
// is not mapped yet: upper/patch.cpp.)
#include <cstring>

#include "interpose/host/process.h"
#include "interpose/upper/raw.h"

namespace cropdl::host {

uint64_t dynamic_symbol(const Elf64_Dyn* dynamic, uint64_t bias, bool relocated, const char* name) {
  const Elf64_Sym* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t *hash = nullptr, *gnu_hash = nullptr;  // newer kernels' vDSOs have only the latter
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const uint64_t at = dynamic->d_un.d_ptr + (relocated ? 0 : bias);
    if (dynamic->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(at);
    if (dynamic->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const Elf64_Sym*>(at);
    if (dynamic->d_tag == DT_HASH) hash = reinterpret_cast<const uint32_t*>(at);
    if (dynamic->d_tag == DT_GNU_HASH) gnu_hash = reinterpret_cast<const uint32_t*>(at);
  }
  if (strings == nullptr || symbols == nullptr) return 0;
  if (relocated && reinterpret_cast<uint64_t>(symbols) < bias) return 0;  // the core, which is not relocated
  const auto defines = [&](uint32_t i) {
    const auto type = ELF64_ST_TYPE(symbols[i].st_info);
    return symbols[i].st_shndx != SHN_UNDEF && type != STT_GNU_IFUNC && type != STT_TLS &&
           strcmp(strings + symbols[i].st_name, name) == 0;
  };
  uint32_t found = 0;
  if (gnu_hash != nullptr)
    found = upper::find_symbol(gnu_hash, name, defines);
  else
    for (uint32_t i = 1; hash != nullptr && found == 0 && i < hash[1]; ++i) found = defines(i) ? i : 0;
  return found != 0 ? bias + symbols[found].st_value : 0;
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
