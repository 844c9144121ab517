// The options of a just-in-time compiler, as far as they mean something where there is none: logs, sizes.
#pragma once

#include <cuda.h>

#include <string>

namespace cropdl::driver {

class JitOptions {
 public:
  // CUDA_ERROR_INVALID_VALUE for options that there are not, CUDA_ERROR_NOT_SUPPORTED (its name is said) for
  // those that would change what the code does.
  CUresult read(unsigned count, CUjit_option* options, void** values);
  // Writes the texts into the caller's buffers and what was used of them into his values. An error that he
  // has no buffer for goes to stderr.
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
