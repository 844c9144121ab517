#include "gpu_state/software/ptx/image.h"

#include <charconv>
#include <cstring>

#include "base/format.h"
#include "gpu_state/software/ptx/link.h"
#include "gpu_state/software/ptx/parser.h"

namespace cropdl::ptx {

namespace {

// See crt/link.stub and fatbinary_section.h of the toolkit.
struct Wrapper {
  uint32_t magic, version;
  const void* data;
  void* const* fat_binaries;  // version 2: those of the separately compiled parts, terminated by null
};
constexpr uint32_t kWrapperMagic = 0x466243b1;

uint32_t magic_of(const void* image) {
  uint32_t magic;
  std::memcpy(&magic, image, sizeof magic);
  return magic;
}

bool is_elf(uint32_t magic) { return magic == 0x464c457f; }

Texts refused(Refusal refusal, std::string why) { return {{}, refusal, std::move(why)}; }

Texts machine_code() {
  return refused(
      Refusal::kNoPtx,
      "this image is machine code (a cubin), which the software GPU cannot run: load PTX (nvcc -ptx) or a "
      "fat binary that holds PTX (nvcc -fatbin -gencode arch=compute_75,code=compute_75)");
}

std::string remedy(const std::vector<Entry>& entries, Capability capability) {
  // The architecture for which the program was built, if this device can run its PTX.
  int best = 0, own = capability.major * 10 + capability.minor;
  for (const Entry& entry : entries)
    if (entry.architecture <= own) best = std::max(best, entry.architecture);
  if (best == 0) best = own;
  return formatted(
      "no PTX for a device of compute capability {}.{}, which the software GPU runs: it holds {}; give nvcc "
      "-gencode arch=compute_{},code=compute_{} (-arch=sm_{} alone embeds PTX too)",
      capability.major, capability.minor, listed(entries), best, best, best);
}

Texts texts_of_fat_binary(std::span<const std::byte> bytes, Capability capability) {
  auto entries = entries_of(bytes);
  if (!entries) return refused(Refusal::kNoImage, entries.error().message);
  const Entry* best = best_ptx(*entries, capability);
  if (!best) return refused(Refusal::kNoPtx, "this fat binary has " + remedy(*entries, capability));
  auto text = text_of(*best);
  if (!text) return refused(Refusal::kNoImage, text.error().message);
  return {{std::move(*text)}, Refusal::kNone, ""};
}

Texts texts_of_fat_binary_at(const void* address, Capability capability) {
  auto bytes = fat_binary_at(address);
  if (!bytes) return refused(Refusal::kNoImage, bytes.error().message);
  return texts_of_fat_binary(*bytes, capability);
}

Texts texts_of_wrapper(const Wrapper& wrapper, Capability capability) {
  if (wrapper.version == 1) return texts_of_fat_binary_at(wrapper.data, capability);
  if (wrapper.version != 2 || !wrapper.fat_binaries)
    return refused(Refusal::kNoImage,
                   formatted("fat binaries' wrappers of version {} are not known", wrapper.version));
  // nvlink's result, in `data`, is machine code; the parts contain the PTX. A part without PTX (such as the
  // toolkit's own code for kernels that launch kernels) leaves its functions without a body.
  Texts all, none;
  for (size_t i = 0; wrapper.fat_binaries[i]; i++) {
    Texts one = texts_of_fat_binary_at(wrapper.fat_binaries[i], capability);
    if (one.refused == Refusal::kNoPtx)
      none = std::move(one);
    else if (one.refused != Refusal::kNone)
      return one;
    else
      all.texts.push_back(std::move(one.texts[0]));
  }
  if (!all.texts.empty()) return all;
  return none.refused != Refusal::kNone ? none : texts_of_fat_binary_at(wrapper.data, capability);
}

bool begins_as_text(std::span<const std::byte> image) {
  if (image.empty()) return false;
  auto c = static_cast<unsigned char>(image[0]);
  return (c >= ' ' && c < 0x7f) || (c >= '\t' && c <= '\r');
}

// "sm_75" runs on 7.5 and later, "sm_90a" on 9.0 only.
bool runs_on(const std::string& target, Capability capability) {
  int number = 0;
  if (!target.starts_with("sm_")) return target.starts_with("compute_");
  auto [end, error] = std::from_chars(target.data() + 3, target.data() + target.size(), number);
  if (error != std::errc()) return false;
  int own = capability.major * 10 + capability.minor;
  char suffix = end == target.data() + target.size() ? '\0' : *end;
  if (suffix == 'a') return number == own;
  if (suffix == 'f') return number <= own && number / 10 == capability.major;
  return number <= own;
}

}  // namespace

Texts texts_of(const void* image, Capability capability) {
  if (!image) return refused(Refusal::kNoImage, "there is no image: the address is null");
  // The text may be shorter than a magic number; no magic number contains a zero byte.
  auto* bytes = static_cast<const char*>(image);
  if (strnlen(bytes, 4) == 4) {
    uint32_t magic = magic_of(image);
    if (magic == kFatBinaryMagic) return texts_of_fat_binary_at(image, capability);
    if (magic == kWrapperMagic) {
      Wrapper wrapper;
      std::memcpy(&wrapper, image, sizeof wrapper);
      return texts_of_wrapper(wrapper, capability);
    }
    if (is_elf(magic)) return machine_code();
  }
  return texts_of(std::as_bytes(std::span(bytes, std::strlen(bytes))), capability);
}

Texts texts_of(std::span<const std::byte> image, Capability capability) {
  if (image.size() >= 4) {
    uint32_t magic = magic_of(image.data());
    if (magic == kFatBinaryMagic) return texts_of_fat_binary(image, capability);
    if (is_elf(magic)) return machine_code();
  }
  if (!begins_as_text(image)) return refused(Refusal::kNoImage, "this image is neither a fat binary nor PTX");
  return {{std::string(reinterpret_cast<const char*>(image.data()), image.size())}, Refusal::kNone, ""};
}

Loaded module_of(const void* image, Capability capability) {
  return module_of(texts_of(image, capability), capability);
}

Loaded module_of(const Texts& texts, Capability capability) {
  if (texts.refused != Refusal::kNone) return {std::nullopt, texts.refused, texts.why};
  std::vector<Module> parts;
  for (const std::string& text : texts.texts) {
    auto part = parse(text);
    if (!part) return {std::nullopt, Refusal::kBadPtx, part.error().message};
    if (!runs_on(part->target, capability))
      return {std::nullopt, Refusal::kBadPtx,
              formatted("this PTX is for {}, and the software GPU's compute capability is {}.{} "
                        "(CROPDL_SOFTWARE_GPU_CAPABILITY)",
                        part->target, capability.major, capability.minor)};
    parts.push_back(std::move(*part));
  }
  if (parts.size() == 1) return {std::move(parts[0]), Refusal::kNone, ""};
  auto linked = link(std::move(parts));
  if (!linked) return {std::nullopt, Refusal::kBadLink, linked.error().message};
  return {std::move(*linked), Refusal::kNone, ""};
}

}  // namespace cropdl::ptx
