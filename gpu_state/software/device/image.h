// What modules and libraries are made from: the code in a fat binary, in PTX text, in what cuLinkComplete
// handed out. In no context yet. Any thread.
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

// What somebody hands over as an image: what the data says of its own size, or what its size is known of.
ptx::Texts read_texts(const void* data);
ptx::Texts read_texts(std::span<const std::byte> data);
// For cuLink, which takes a host's object file with device code in it as well.
ptx::Texts read_part(std::span<const std::byte> data);

// One module of them, linked if they are several. CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_NO_BINARY_FOR_GPU,
// CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION; `why` then is one line for people.
CUresult make_image(const ptx::Texts& texts, Image* image, std::string* why);

// The image that cuLinkComplete hands out: the texts behind a mark of our own, for read_texts() to find.
std::string linked_image(const ptx::Texts& texts);

}  // namespace cropdl::device
