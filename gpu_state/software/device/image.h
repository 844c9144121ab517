// Reads the code of modules and libraries: a fat binary, PTX text, or an image from cuLinkComplete. Not yet
// in a context. Any thread.
#pragma once

#include <cuda.h>

#include <memory>
#include <span>
#include <string>

#include "gpu_state/software/ptx/image.h"
#include "gpu_state/software/ptx/module.h"

namespace cropdl::device {

struct Image {
  std::shared_ptr<const ptx::Module> text;
};

// Read an image from the caller: of the size that the data itself states, or of a known size.
ptx::Texts read_texts(const void* data);
ptx::Texts read_texts(std::span<const std::byte> data);
// For cuLink, which also accepts a host object file with device code.
ptx::Texts read_part(std::span<const std::byte> data);

// Makes one module of the texts; links them if there are several. CUDA_ERROR_INVALID_IMAGE,
// CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION; `why` is then one
// line for users.
CUresult make_image(const ptx::Texts& texts, Image* image, std::string* why);

// The image that cuLinkComplete returns: the texts behind CropDL's own mark, which read_texts() recognises.
std::string linked_image(const ptx::Texts& texts);

}  // namespace cropdl::device
