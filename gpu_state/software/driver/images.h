// Makes an image from a caller's data or file, with error messages.
#pragma once

#include <cstddef>
#include <vector>

#include "gpu_state/software/device/image.h"
#include "gpu_state/software/driver/jit.h"

namespace cropdl::driver {

// CUDA_ERROR_FILE_NOT_FOUND; CUDA_ERROR_INVALID_IMAGE: the file is empty.
CUresult read_file(const char* path, std::vector<std::byte>* bytes);

// device::make_image; also fills the logs of the options.
CUresult make_image(const ptx::Texts& texts, JitOptions& options, device::Image* image);

}  // namespace cropdl::driver
