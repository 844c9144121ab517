// From a caller's data or file to an image, with what there is to say about it.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu_state/software/device/image.h"
#include "gpu_state/software/driver/jit.h"

namespace cropdl::driver {

// CUDA_ERROR_FILE_NOT_FOUND; CUDA_ERROR_INVALID_IMAGE: it is empty.
CUresult read_file(const char* path, std::vector<std::byte>* bytes);

// device::make_image, and the options' logs are filled.
CUresult make_image(const ptx::Texts& texts, JitOptions& options, device::Image* image);

}  // namespace cropdl::driver
