#include "gpu_state/software/driver/images.h"

#include <fstream>
#include <iterator>
#include <vector>

namespace cropdl::driver {

CUresult read_file(const char* path, std::vector<std::byte>* bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::vector<char> read((std::istreambuf_iterator<char>(file)), {});
  auto all = std::as_bytes(std::span(read));
  bytes->assign(all.begin(), all.end());
  return bytes->empty() ? CUDA_ERROR_INVALID_IMAGE : CUDA_SUCCESS;
}

CUresult make_image(const ptx::Texts& texts, JitOptions& options, device::Image* image) {
  std::string why;
  CUresult result = device::make_image(texts, image, &why);
  options.report("", why);
  return result;
}

}  // namespace cropdl::driver
