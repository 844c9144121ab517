#include "interpose/cuda/lower/code_image.h"

#include <elf.h>
#include <zstd.h>

#include <cctype>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/lz4.h"

namespace cropdl::cuda {
namespace {

constexpr uint32_t kFatBinary = 0xba55ed50, kWrapper = 0x466243b1;

// Headers of a fat binary and of each of its entries.
struct Container {
  uint32_t magic;
  uint16_t version, header;  // header: size of this header
  uint64_t size;             // of what follows the header
};
struct Entry {
  uint16_t kind, version;
  uint32_t header;      // size of this header
  uint64_t payload;     // padded size
  uint32_t compressed;  // compressed size
  uint32_t options;
  uint32_t unknown;
  uint32_t architecture;
  uint32_t name, name_size;
  uint64_t flags;
  uint64_t reserved;
  uint64_t size;  // uncompressed size
};
static_assert(sizeof(Container) == 16 && sizeof(Entry) == 0x40);
constexpr uint16_t kText = 1, kMachineCode = 2;
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000;
constexpr uint64_t kLargest = uint64_t{1} << 32;

struct Wrapper {  // fatbinary_section.h
  uint32_t magic, version;
  const void* data;
  const void* const* parts;  // version 2 (separate compilation): ends with null; `data` is the linked result
};

template <class T>
T at(const char* bytes, size_t offset = 0) {
  T value;
  memcpy(&value, bytes + offset, sizeof value);
  return value;
}

bool is_elf(std::span<const char> code) {
  return code.size() >= sizeof(Elf64_Ehdr) && memcmp(code.data(), ELFMAG, SELFMAG) == 0;
}

size_t elf_size(const char* image) {
  const auto h = at<Elf64_Ehdr>(image);
  size_t end = h.e_shoff + size_t{h.e_shnum} * h.e_shentsize;
  end = std::max(end, h.e_phoff + size_t{h.e_phnum} * h.e_phentsize);
  for (size_t i = 0; i < h.e_shnum; ++i) {
    const auto s = at<Elf64_Shdr>(image, h.e_shoff + i * h.e_shentsize);
    if (s.sh_type != SHT_NOBITS) end = std::max(end, s.sh_offset + s.sh_size);
  }
  return end;
}

// --- Facts of code.
void take_text(std::string_view text, CodeFacts* facts) {
  facts->read = read_text(text, facts);
  facts->broken = !facts->read;
}

// Shared and local memory, which begins anew with each kernel.
bool is_of_kernels(std::string_view section) {
  return section.starts_with(".nv.shared") || section.starts_with(".nv.local");
}

void read_elf(std::span<const char> code, CodeFacts* facts) {
  const auto h = at<Elf64_Ehdr>(code.data());
  const auto holds = [&](uint64_t offset, uint64_t size) {
    return offset <= code.size() && size <= code.size() - offset;
  };
  if (h.e_shentsize < sizeof(Elf64_Shdr) || !holds(h.e_shoff, uint64_t{h.e_shnum} * h.e_shentsize)) return;
  const auto section = [&](size_t i) { return at<Elf64_Shdr>(code.data(), h.e_shoff + i * h.e_shentsize); };
  const auto text_in = [&](const Elf64_Shdr& texts, size_t from) -> std::string_view {
    if (from >= texts.sh_size || !holds(texts.sh_offset, texts.sh_size)) return "";
    const char* text = code.data() + texts.sh_offset + from;
    return {text, strnlen(text, texts.sh_size - from)};
  };
  const Elf64_Shdr section_names = h.e_shstrndx < h.e_shnum ? section(h.e_shstrndx) : Elf64_Shdr{};
  for (size_t i = 0; i < h.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_SYMTAB || symbols.sh_link >= h.e_shnum ||
        symbols.sh_entsize < sizeof(Elf64_Sym))
      continue;
    const Elf64_Shdr names = section(symbols.sh_link);
    if (!holds(symbols.sh_offset, symbols.sh_size) || !holds(names.sh_offset, names.sh_size)) return;
    facts->read = true;
    for (size_t n = 0; n < symbols.sh_size / symbols.sh_entsize; ++n) {
      const auto s = at<Elf64_Sym>(code.data(), symbols.sh_offset + n * symbols.sh_entsize);
      const std::string_view name = text_in(names, s.st_name);
      if (name.empty()) continue;
      if (s.st_shndx == SHN_UNDEF) {
        if (allocates_on_heap(name)) facts->allocates = true;
      } else if (ELF64_ST_TYPE(s.st_info) == STT_OBJECT && name[0] != '$' && name[0] != '.' &&
                 s.st_shndx < h.e_shnum &&
                 !is_of_kernels(text_in(section_names, section(s.st_shndx).sh_name))) {
        facts->variables.emplace(name);
      }
    }
  }
}

void read_entry(const Entry& entry, std::string_view payload, CodeFacts* facts) {
  std::string whole;
  if (entry.flags & (kLz4 | kZstd)) {
    if (entry.size > kLargest || entry.compressed > payload.size()) return;
    whole.resize(entry.size);
    payload = payload.substr(0, entry.compressed);
    const bool fine =
        entry.flags & kZstd
            ? ZSTD_decompress(whole.data(), whole.size(), payload.data(), payload.size()) == whole.size()
            : decompress_lz4(std::as_bytes(std::span(payload)), std::as_writable_bytes(std::span(whole)));
    if (!fine) return;
    payload = whole;
  }
  const std::span<const char> code(payload);
  if (entry.kind == kText)
    take_text(payload, facts);
  else if (is_elf(code))
    read_elf(code, facts);
}

// Reads the entry that a device uses: machine code of its major version, else the newest text not above it.
void read_fat_binary(std::span<const char> code, int architecture, bool text_only, CodeFacts* facts) {
  const auto h = at<Container>(code.data());
  size_t from = h.header;
  const size_t end = std::min<size_t>(code.size(), h.header + h.size);
  Entry best{};
  std::string_view payload;
  const auto rank = [](const Entry& e) {
    return (e.kind == kMachineCode ? 10000u : e.kind == kText ? 0u : ~0u) + e.architecture % 1000;
  };
  while (from + sizeof(Entry) <= end) {
    const auto e = at<Entry>(code.data(), from);
    if (e.header < sizeof(Entry) || e.payload > end - from || e.header > end - from - e.payload) return;
    const int its = static_cast<int>(e.architecture & 0xffff);
    const bool fits =
        its <= architecture &&
        (e.kind == kText || (e.kind == kMachineCode && !text_only && its / 10 == architecture / 10));
    if (fits && (best.kind == 0 || rank(e) >= rank(best))) {
      best = e;
      payload = {code.data() + from + e.header, e.payload};
    }
    from += e.header + e.payload;
  }
  if (best.kind != 0) read_entry(best, payload, facts);
}

}  // namespace

std::span<const char> code_at(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  if (!bytes) return {};
  if (strnlen(bytes, sizeof(uint32_t)) == sizeof(uint32_t)) {
    const auto magic = at<uint32_t>(bytes);
    if (magic == kWrapper) {
      const auto w = at<Wrapper>(bytes);
      return w.version == 1 ? code_at(w.data) : std::span<const char>();
    }
    if (magic == kFatBinary) {
      const auto h = at<Container>(bytes);
      return {bytes, h.size < kLargest ? h.header + h.size : 0};
    }
    if (memcmp(bytes, ELFMAG, SELFMAG) == 0) return {bytes, elf_size(bytes)};
  }
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (first >= 0x7f || (first < ' ' && !isspace(first))) return {};
  return {bytes, strlen(bytes) + 1};
}

CodeFacts facts_of(std::span<const char> code, int architecture, bool text_only) {
  CodeFacts facts;
  if (code.size() >= sizeof(Container) && at<uint32_t>(code.data()) == kFatBinary)
    read_fat_binary(code, architecture, text_only, &facts);
  else if (is_elf(code))
    read_elf(code, &facts);
  else if (!code.empty())
    take_text({code.data(), code.size()}, &facts);
  return facts;
}

CodeFacts facts_at(const void* image, int architecture, bool text_only) {
  const auto* bytes = static_cast<const char*>(image);
  if (!bytes || strnlen(bytes, sizeof(uint32_t)) < sizeof(uint32_t) || at<uint32_t>(bytes) != kWrapper ||
      at<Wrapper>(bytes).version != 2)
    return facts_of(code_at(image), architecture, text_only);
  const auto w = at<Wrapper>(bytes);
  CodeFacts all = facts_of(code_at(w.data), architecture, text_only);
  for (size_t i = 0; w.parts && w.parts[i]; ++i) {
    CodeFacts part = facts_of(code_at(w.parts[i]), architecture, text_only);
    all.variables.merge(part.variables);
    all.allocates = all.allocates || part.allocates;
    all.read = all.read || part.read;
    all.broken = all.broken || part.broken;
  }
  all.read = all.read && !all.broken;
  return all;
}

}  // namespace cropdl::cuda
