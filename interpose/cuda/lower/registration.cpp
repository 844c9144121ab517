// Device code embedded in the program. Constructors register it before main, a restart before anything else.
// It points into the program's memory. LH, LH FS base, any thread.
#include "interpose/cuda/lower/registration.h"

using namespace cropdl::cuda;

constexpr static uint64_t kManagedVariable = 0x6d76'6172;  // kind of state: any number that no other has

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

// The driver places a managed variable. The program's own code has its address in a slot.
int lower___cudaRegisterManagedVar(void** code, void** slot, char* address, const char* name, int external,
                                   size_t size, int constant, int global) {
  rt::Call call;
  CROPDL_CUDART(__cudaRegisterManagedVar)
  (rt::real(code, kind::cudaFatBinary), slot, address, name, external, size, constant, global);
  rt::RecipeWriter recipe;
  recipe.handle(rt::word_of(code));
  const auto write = [&](auto... values) { (recipe.value(values), ...); };
  write(slot, address, name, external, size, constant, global);
  rt::Key key;
  key.value(slot);
  rt::keep_state(rt::word_of(code), kCudart, cudart::kFn___cudaRegisterManagedVar, kManagedVariable, key,
                 recipe);
  return 0;
}
int64_t again___cudaRegisterManagedVar(rt::Again& from) {
  const auto code = rt::handle_of<void**>(from.handle());
  const auto slot = from.value<void**>();
  const auto address = from.value<char*>();
  const auto name = from.value<const char*>();
  const auto external = from.value<int>();
  const auto size = from.value<size_t>();
  const auto constant = from.value<int>();
  CROPDL_CUDART(__cudaRegisterManagedVar)
  (code, slot, address, name, external, size, constant, from.value<int>());
  return 0;
}

}  // extern "C"
