// The driver's linker. A link under way refuses checkpoints, since its handle has no recipe. The linked code
// is in the driver's memory; a module loaded from it is saved with its code. Source: CUDA Driver API 13.0,
// "Module Management". LH, LH FS base, any thread.
#include "interpose/cuda/lower/real.h"
#include "interpose/one_abi/kinds.h"

namespace rt = cropdl::one_abi;
namespace kind = rt::kind;
namespace driver = cropdl::seam::driver;
using cropdl::cuda::kDriver;

extern "C" {

#define LINK_CREATE(name)                                                                               \
  CUresult lower_##name(unsigned n, CUjit_option* options, void** values, CUlinkState* state) {         \
    rt::Call call;                                                                                      \
    CUlinkState real = nullptr;                                                                         \
    const CUresult r = CROPDL_DRIVER(name)(n, options, values, state ? &real : nullptr);                \
    if (r == CUDA_SUCCESS)                                                                              \
      *state = rt::handle_of<CUlinkState>(                                                              \
          rt::made_word(rt::word_of(real), kind::cudaLinkState, kDriver, driver::kFn_##name, nullptr)); \
    return r;                                                                                           \
  }
LINK_CREATE(cuLinkCreate)
LINK_CREATE(cuLinkCreate_v2)
#undef LINK_CREATE

#define LINK_ADD_DATA(function)                                                                              \
  CUresult lower_##function(CUlinkState state, CUjitInputType type, void* data, size_t size,                 \
                            const char* name, unsigned n, CUjit_option* options, void** values) {            \
    rt::Call call;                                                                                           \
    return CROPDL_DRIVER(function)(rt::real(state, kind::cudaLinkState), type, data, size, name, n, options, \
                                   values);                                                                  \
  }
LINK_ADD_DATA(cuLinkAddData)
LINK_ADD_DATA(cuLinkAddData_v2)
#undef LINK_ADD_DATA

#define LINK_ADD_FILE(function)                                                                           \
  CUresult lower_##function(CUlinkState state, CUjitInputType type, const char* path, unsigned n,         \
                            CUjit_option* options, void** values) {                                       \
    rt::Call call;                                                                                        \
    return CROPDL_DRIVER(function)(rt::real(state, kind::cudaLinkState), type, path, n, options, values); \
  }
LINK_ADD_FILE(cuLinkAddFile)
LINK_ADD_FILE(cuLinkAddFile_v2)
#undef LINK_ADD_FILE

CUresult lower_cuLinkComplete(CUlinkState state, void** code, size_t* size) {
  rt::Call call;
  return CROPDL_DRIVER(cuLinkComplete)(rt::real(state, kind::cudaLinkState), code, size);
}
CUresult lower_cuLinkDestroy(CUlinkState state) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuLinkDestroy)(rt::real(state, kind::cudaLinkState));
  if (r == CUDA_SUCCESS) rt::forget_word(rt::word_of(state));
  return r;
}

}  // extern "C"
