// Device code embedded in the program. Constructors register it before main, a restart before anything else.
// It points into the program's memory. LH, LH FS base, any thread.
#include "interpose/cuda/lower/real.h"
#include "interpose/gen/cudart/undeclared.h"
#include "interpose/one_abi/kinds.h"

namespace rt = cropdl::one_abi;
namespace cudart = cropdl::seam::cudart;
using cropdl::cuda::kCudart;

extern "C" {

void** lower___cudaRegisterFatBinary(void* code) {
  rt::Call call;
  void** real = CROPDL_CUDART(__cudaRegisterFatBinary)(code);
  rt::RecipeWriter recipe;
  recipe.value(code);
  return rt::handle_of<void**>(rt::made_word(rt::word_of(real), rt::kind::cudaFatBinary, kCudart,
                                             cudart::kFn___cudaRegisterFatBinary, &recipe));
}

int64_t again___cudaRegisterFatBinary(rt::Again& from) {
  void** real = CROPDL_CUDART(__cudaRegisterFatBinary)(from.value<void*>());
  from.made(rt::word_of(real));
  return real ? 0 : cudaErrorInvalidKernelImage;
}

}  // extern "C"
