#include "gpu_state/software/device/image.h"

#include <cstdio>
#include <cstring>
#include <set>

#include "base/format.h"
#include "gpu_state/software/device/object_file.h"
#include "gpu_state/software/device/variables.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

// The first byte differs from that of PTX, fat binaries and ELF files. Then: u64 total size, u64 number of
// texts, and for each text u64 size and its bytes.
constexpr char kLinked[16] =
    "\x1b"
    "CropDL linked\n";

ptx::Capability capability_of_device() { return {settings::settings().major, settings::settings().minor}; }

uint64_t number_at(const char* at) {
  uint64_t number;
  std::memcpy(&number, at, sizeof number);
  return number;
}

ptx::Texts read_linked(std::span<const std::byte> image) {
  ptx::Texts damaged{{}, ptx::Refusal::kNoImage, "this image of cuLinkComplete is damaged"};
  const char* at = reinterpret_cast<const char*>(image.data()) + sizeof kLinked;
  const char* end = reinterpret_cast<const char*>(image.data()) + image.size();
  if (end - at < 16 || number_at(at) != image.size()) return damaged;
  uint64_t count = number_at(at + 8);
  at += 16;
  ptx::Texts texts;
  for (; count; --count) {
    if (end - at < 8 || number_at(at) > static_cast<uint64_t>(end - at - 8)) return damaged;
    texts.texts.emplace_back(at + 8, number_at(at));
    at += 8 + number_at(at);
  }
  return texts;
}

// Every named variable must have exactly one definition. (Functions without a definition are found when a
// kernel that calls them is looked up.)
Status check_names(const ptx::Module& module) {
  std::set<std::string_view> names;
  for (const ptx::Variable* variable : placed_variables(module))
    if (!names.insert(variable->name).second)
      return Error{"line {}: a second variable {} in memory", variable->line, variable->name};
  for (const ptx::Variable& variable : module.variables) {
    bool lies_in_memory = variable.space == ptx::Space::kGlobal || variable.space == ptx::Space::kConst;
    if (variable.is_extern && lies_in_memory && !names.count(variable.name))
      return Error{"line {}: the extern variable {} is nowhere defined", variable.line, variable.name};
  }
  return {};
}

// PTX ISA 9.0 belongs to CUDA 13.0, the version that cuDriverGetVersion returns.
bool is_too_new(const std::string& version) {
  int major = 0;
  return std::sscanf(version.c_str(), "%d", &major) == 1 && (major > 9 || (major == 9 && version != "9.0"));
}

CUresult error_of(ptx::Refusal refusal) {
  switch (refusal) {
    case ptx::Refusal::kNone:
      return CUDA_SUCCESS;
    case ptx::Refusal::kNoImage:
      return CUDA_ERROR_INVALID_IMAGE;
    case ptx::Refusal::kNoPtx:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case ptx::Refusal::kBadPtx:
    case ptx::Refusal::kBadLink:
      return CUDA_ERROR_INVALID_PTX;
  }
  return CUDA_ERROR_INVALID_IMAGE;
}

}  // namespace

ptx::Texts read_texts(const void* data) {
  const char* bytes = static_cast<const char*>(data);
  // Stops at the first different byte, so a short text is not read beyond its end.
  if (std::strncmp(bytes, kLinked, sizeof kLinked) == 0)
    return read_linked({static_cast<const std::byte*>(data), number_at(bytes + sizeof kLinked)});
  return ptx::texts_of(data, capability_of_device());
}

ptx::Texts read_texts(std::span<const std::byte> data) {
  if (data.size() >= sizeof kLinked && std::memcmp(data.data(), kLinked, sizeof kLinked) == 0)
    return read_linked(data);
  return ptx::texts_of(data, capability_of_device());
}

ptx::Texts read_part(std::span<const std::byte> data) {
  return is_host_object(data) ? texts_of_object(data, capability_of_device()) : read_texts(data);
}

CUresult make_image(const ptx::Texts& texts, Image* image, std::string* why) {
  *why = texts.why;
  if (CUresult error = error_of(texts.refused)) return error;
  ptx::Loaded loaded = ptx::module_of(texts, capability_of_device());
  *why = loaded.why;
  if (CUresult error = error_of(loaded.refused)) return error;
  if (is_too_new(loaded.module->version)) {
    *why = formatted("this is PTX {}, and the software GPU reads PTX up to 9.0 (CUDA 13.0)",
                     loaded.module->version);
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  if (Status status = check_names(*loaded.module); !status) {
    *why = status.error().message;
    return CUDA_ERROR_INVALID_PTX;
  }
  image->text = std::make_shared<const ptx::Module>(std::move(*loaded.module));
  return CUDA_SUCCESS;
}

std::string linked_image(const ptx::Texts& texts) {
  std::string image(kLinked, sizeof kLinked);
  auto append = [&](uint64_t number) { image.append(reinterpret_cast<const char*>(&number), sizeof number); };
  append(0);
  append(texts.texts.size());
  for (const std::string& text : texts.texts) {
    append(text.size());
    image += text;
  }
  uint64_t size = image.size();
  std::memcpy(image.data() + sizeof kLinked, &size, sizeof size);
  return image;
}

}  // namespace cropdl::device
