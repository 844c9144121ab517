// Turns code images of a program into a module: the arguments of cuModuleLoadData, cuLibraryLoadData,
// cuLinkAddData and __cudaRegisterFatBinary, whose format is recognised by the first bytes. Any thread. Each
// case names the driver's error for it.
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
  std::vector<std::string> texts;  // one; for separately compiled programs (nvcc -rdc=true), one per part
  Refusal refused = Refusal::kNone;
  std::string why;  // for users, one line
};
// A fat binary, nvcc's wrapper around one or several (__fatBinC_Wrapper_t), or PTX that ends with a zero
// byte. Sizes come from the image's own header; as with NVIDIA's driver, damaged images are the caller's
// risk.
Texts texts_of(const void* image, Capability capability);
// The same for an image of known size: nothing beyond it is read. A wrapper, which points elsewhere, is not
// accepted.
Texts texts_of(std::span<const std::byte> image, Capability capability);

struct Loaded {
  std::optional<Module> module;
  Refusal refused = Refusal::kNone;
  std::string why;
};
// Parsed, and linked if there are several.
Loaded module_of(const void* image, Capability capability);
Loaded module_of(const Texts& texts, Capability capability);

}  // namespace cropdl::ptx
