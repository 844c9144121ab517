#include "gpu_state/software/driver/images.h"

#include <fstream>
#include <iterator>
#include <vector>

namespace cropdl::driver {

CUresult read_file(const char* path, ptx::Texts* texts) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.empty()) return CUDA_ERROR_INVALID_IMAGE;
  *texts = device::read_texts(std::as_bytes(std::span(bytes)));
  return CUDA_SUCCESS;
}

CUresult make_image(const ptx::Texts& texts, JitOptions& options, device::Image* image) {
  std::string why;
  CUresult result = device::make_image(texts, image, &why);
  options.report("", why);
  return result;
}

}  // namespace cropdl::driver
