// Makes a context current while it exists.
#pragma once

#include <cuda.h>

namespace cropdl::nccl {

class Current {
 public:
  explicit Current(CUcontext context) : pushed_(cuCtxPushCurrent(context) == CUDA_SUCCESS) {}
  ~Current() {
    CUcontext popped;
    if (pushed_) cuCtxPopCurrent(&popped);
  }
  Current(const Current&) = delete;

 private:
  const bool pushed_;
};

}  // namespace cropdl::nccl
