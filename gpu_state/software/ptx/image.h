// From what a program hands over to one module: what cuModuleLoadData, cuLibraryLoadData, cuLinkAddData and
// __cudaRegisterFatBinary are given is told apart by its first bytes. Any thread. What each case answers in
// the driver API is named beside it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu_state/software/ptx/fat_binary.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::ptx {

enum class Refusal : uint8_t {
  kNone,
  kNoImage,  // neither fat binary nor PTX, or damaged: CUDA_ERROR_INVALID_IMAGE
  kNoPtx,    // only machine code, or PTX for other devices: CUDA_ERROR_NO_BINARY_FOR_GPU
  kBadPtx,   // a text that cannot be read, or for another device: CUDA_ERROR_INVALID_PTX
  kBadLink   // texts that do not fit together: CUDA_ERROR_INVALID_PTX
};

struct Texts {
  std::vector<std::string> texts;  // one, or of separately compiled programs (nvcc -rdc=true) one per part
  Refusal refused = Refusal::kNone;
  std::string why;  // one line for people
};
// A fat binary, nvcc's wrapper around one or several (__fatBinC_Wrapper_t), or PTX ended by a zero byte.
// Sizes are what the image's own header says: of a damaged one the caller is to blame, as with a driver.
Texts texts_of(const void* image, Capability capability);
// The same, and nothing beyond its end is read. A wrapper, which points elsewhere, is no image here.
Texts texts_of(std::span<const std::byte> image, Capability capability);

struct Loaded {
  std::optional<Module> module;
  Refusal refused = Refusal::kNone;
  std::string why;
};
// Parsed, and linked where there are several.
Loaded module_of(const void* image, Capability capability);
Loaded module_of(const Texts& texts, Capability capability);

}  // namespace cropdl::ptx
