// Just-in-time compiler options that matter without such a compiler: logs and sizes.
#pragma once

#include <cuda.h>

#include <string>

namespace cropdl::driver {

class JitOptions {
 public:
  // CUDA_ERROR_INVALID_VALUE for unknown options; CUDA_ERROR_NOT_SUPPORTED, with the name printed, for
  // options that would change the code's behaviour.
  CUresult read(unsigned count, CUjit_option* options, void** values);
  // Writes the texts into the caller's buffers, and the used sizes into the option values. Without an error
  // buffer, an error is printed to stderr.
  void report(const std::string& info, const std::string& error);

 private:
  struct Buffer {
    char* bytes = nullptr;
    size_t size = 0;
    void** used = nullptr;
  };
  static void fill(const Buffer& buffer, const std::string& text);
  Buffer info_, error_;
  void** wall_time_ = nullptr;
};

}  // namespace cropdl::driver
