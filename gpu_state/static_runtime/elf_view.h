// An x86-64 ELF file in memory: sections, segments, symbols. Parts outside of the file read as empty. Any
// thread, also before libc's own constructors.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace cropdl::static_runtime {

// Calls each(entry) for the whole entries of a table, which need not be aligned.
template <class T, class Each>
void each_entry(std::string_view table, Each each) {
  for (; table.size() >= sizeof(T); table.remove_prefix(sizeof(T))) {
    T entry;
    std::memcpy(&entry, table.data(), sizeof entry);
    each(entry);
  }
}

class ObjectFile {
 public:
  explicit ObjectFile(std::string_view bytes) : bytes_(bytes) {
    Elf64_Ehdr header{};
    if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
        header.e_machine != EM_X86_64)
      return;
    segments_ = table<Elf64_Phdr>(header.e_phoff, header.e_phnum, header.e_phentsize);
    sections_ = table<Elf64_Shdr>(header.e_shoff, header.e_shnum, header.e_shentsize);
    if (header.e_shstrndx < sections_.size()) names_ = content(sections_[header.e_shstrndx]);
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  const std::vector<Elf64_Phdr>& segments() const { return segments_; }

  const Elf64_Shdr* section(std::string_view name) const {
    for (const Elf64_Shdr& section : sections_)
      if (text(names_, section.sh_name) == name) return &section;
    return nullptr;
  }
  const Elf64_Shdr* section(uint32_t type) const {
    for (const Elf64_Shdr& section : sections_)
      if (section.sh_type == type) return &section;
    return nullptr;
  }
  std::string_view content(const Elf64_Shdr& section) const {
    return section.sh_type == SHT_NOBITS ? std::string_view() : part(section.sh_offset, section.sh_size);
  }
  std::string_view strings_of(const Elf64_Shdr& symbols) const {
    return symbols.sh_link < sections_.size() ? content(sections_[symbols.sh_link]) : std::string_view();
  }
  template <class Each>
  void each_function(const Elf64_Shdr& symbols, Each each) const {
    const std::string_view strings = strings_of(symbols);
    each_entry<Elf64_Sym>(content(symbols), [&](const Elf64_Sym& symbol) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF)
        each(text(strings, symbol.st_name), symbol);
    });
  }
  // The file's bytes that are loaded at that address.
  std::string_view code(uint64_t address, size_t size) const {
    for (const Elf64_Phdr& segment : segments_)
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
          address - segment.p_vaddr < segment.p_filesz &&
          size <= segment.p_filesz - (address - segment.p_vaddr))
        return part(segment.p_offset + (address - segment.p_vaddr), size);
    return {};
  }
  std::string_view part(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return {};
    return bytes_.substr(offset, size);
  }

 private:
  template <class T>
  std::vector<T> table(uint64_t offset, uint64_t count, uint64_t entry_size) const {
    std::vector<T> all;
    if (offset != 0 && entry_size == sizeof(T))
      each_entry<T>(part(offset, count * sizeof(T)), [&](const T& entry) { all.push_back(entry); });
    return all;
  }
  static std::string_view text(std::string_view strings, size_t offset) {
    if (offset >= strings.size()) return {};
    size_t end = strings.find('\0', offset);
    return end == std::string_view::npos ? std::string_view() : strings.substr(offset, end - offset);
  }

  std::string_view bytes_, names_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace cropdl::static_runtime
