#include "gpu_state/software/device/object_file.h"

#include <elf.h>

#include <cstring>
#include <optional>
#include <string_view>

namespace cropdl::device {

namespace {

ptx::Texts no_image(const char* why) { return {{}, ptx::Refusal::kNoImage, why}; }

// The structure at that offset, if all of it is inside.
template <class T>
std::optional<T> at(std::span<const std::byte> file, uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

std::optional<std::span<const std::byte>> contents(std::span<const std::byte> file,
                                                   const Elf64_Shdr& section) {
  if (section.sh_type == SHT_NOBITS || section.sh_offset > file.size() ||
      file.size() - section.sh_offset < section.sh_size)
    return std::nullopt;
  return file.subspan(section.sh_offset, section.sh_size);
}

}  // namespace

bool is_host_object(std::span<const std::byte> file) {
  auto header = at<Elf64_Ehdr>(file, 0);
  return header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
         header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_machine == EM_X86_64;
}

ptx::Texts texts_of_object(std::span<const std::byte> file, ptx::Capability capability) {
  constexpr const char* kDamaged = "this object file is damaged: its sections lie beyond its end";
  auto header = at<Elf64_Ehdr>(file, 0);
  if (!header || header->e_shentsize != sizeof(Elf64_Shdr)) return no_image(kDamaged);
  auto section = [&](uint64_t number) {
    return at<Elf64_Shdr>(file, header->e_shoff + number * sizeof(Elf64_Shdr));
  };
  auto names_header = section(header->e_shstrndx);
  auto names = names_header ? contents(file, *names_header) : std::nullopt;
  if (!names) return no_image(kDamaged);

  ptx::Texts all;
  for (unsigned number = 0; number < header->e_shnum; ++number) {
    auto one = section(number);
    if (!one || one->sh_name >= names->size()) return no_image(kDamaged);
    const char* begin = reinterpret_cast<const char*>(names->data()) + one->sh_name;
    std::string_view name(begin, strnlen(begin, names->size() - one->sh_name));
    if (name != ".nv_fatbin" && name != "__nv_relfatbin") continue;
    auto bytes = contents(file, *one);
    if (!bytes) return no_image(kDamaged);
    // Consecutive fat binaries, each with its size in its header (ptx/fat_binary.h).
    while (bytes->size() >= 16) {
      if (*at<uint32_t>(*bytes, 0) != ptx::kFatBinaryMagic) {
        *bytes = bytes->subspan(8);  // padding
        continue;
      }
      uint64_t behind_header = *at<uint64_t>(*bytes, 8);
      if (behind_header > bytes->size() - 16) return no_image(kDamaged);
      ptx::Texts texts = ptx::texts_of(bytes->first(16 + behind_header), capability);
      if (texts.refused != ptx::Refusal::kNone) return texts;
      for (std::string& text : texts.texts) all.texts.push_back(std::move(text));
      *bytes = bytes->subspan(16 + behind_header);
    }
  }
  if (all.texts.empty()) return {{}, ptx::Refusal::kNoPtx, "this object file has no device code in it"};
  return all;
}

}  // namespace cropdl::device
