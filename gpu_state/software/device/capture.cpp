#include "gpu_state/software/device/capture.h"

namespace cropdl::device {

bool has_implicit(const CUstream_st&) { return false; }
CUresult check_implicit(const CUstream_st&) { return CUDA_SUCCESS; }
CUresult refuse_while_captured(const CUstream_st&) { return CUDA_SUCCESS; }
CUresult add_captured(CUstream_st&, Work) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult record_captured(CUstream_st&, CUevent_st&, bool) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult wait_captured(const std::shared_ptr<CUstream_st>&, CUevent_st&, bool) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult unsafe_while_capturing() { return CUDA_SUCCESS; }
bool is_captured(CUstream) { return false; }

}  // namespace cropdl::device
