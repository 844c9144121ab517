// Device code embedded in the program. Constructors register it before main, a restart before anything else.
// It points into the program's memory. LH, LH FS base, any thread.
#include "interpose/cuda/lower/registration.h"

using namespace cropdl::cuda;

std::vector<RegisteredSymbol> cropdl::cuda::registered_symbols(RegisteredSymbol::Kind kind) {
  std::vector<RegisteredSymbol> all;
  if (!rt::tables) return all;
  const cropdl::handles::SpinGuard guard(rt::family_lock);
  each_registered_symbol([&](const RegisteredSymbol& one) {
    if (one.kind == kind) all.push_back(one);
  });
  return all;
}

extern "C" {

void** lower___cudaRegisterFatBinary(void* code) {
  rt::Call call;
  void** real = CROPDL_CUDART(__cudaRegisterFatBinary)(code);
  rt::RecipeWriter recipe;
  recipe.value(code);
  return rt::handle_of<void**>(rt::made_word(rt::word_of(real), kind::cudaFatBinary, kCudart,
                                             cudart::kFn___cudaRegisterFatBinary, &recipe));
}

int64_t again___cudaRegisterFatBinary(rt::Again& from) {
  void** real = CROPDL_CUDART(__cudaRegisterFatBinary)(from.value<void*>());
  from.made(rt::word_of(real));
  return real ? 0 : cudaErrorInvalidKernelImage;
}

}  // extern "C"
