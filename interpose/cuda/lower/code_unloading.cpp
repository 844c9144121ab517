// Unloaded code. Code loaded after it on the devices is placed behind it, so it stays in the order
// (code_order.h) as long as such code exists. LH, LH FS base, any thread.
#include <elf.h>

#include <algorithm>
#include <span>
#include <vector>

#include "interpose/cuda/lower/code_image.h"
#include "interpose/cuda/lower/code_order.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/cuda/lower/taken_variables.h"
#include "interpose/cuda/lower/variables.h"
#include "interpose/gen/cudart/undeclared.h"
#include "interpose/libraries/program_environment.h"
#include "interpose/one_abi/state.h"

using namespace cropdl::cuda;

namespace {

// With more than kFew unloaded pieces of code, keeps only those that code with variables needs; with more
// than kMost of these, refuses checkpoints.
constexpr size_t kFew = 64, kMost = 2000;
constexpr size_t kMostBytes = 64 << 20;  // largest copy of registered code

// When each of these codes was loaded, in the order of all objects.
std::vector<uint64_t> times_of(const std::vector<uint64_t>& code) {
  std::vector<uint64_t> all;
  for (uint64_t word : code) {
    const cropdl::handles::Slot& slot = *rt::slot_of(word);
    const bool registered = slot.maker == rt::maker_of(kCudart, cudart::kFn___cudaRegisterFatBinary);
    if (const uint64_t came = registered ? first_use_of(word) : slot.serial) all.push_back(came);
  }
  return all;
}
std::vector<uint64_t> living_code() {
  std::vector<uint64_t> all;
  for (uint32_t of : {kind::cudaModule, kind::cudaLibrary, kind::cudaFatBinary})
    for (uint64_t word : rt::living(of)) all.push_back(word);
  return all;
}

// Forgets unloaded code that nothing was loaded after, youngest first: its place may need an older one.
size_t prune(bool with_variables) {
  std::vector<rt::Lingering> all = rt::lingering();
  std::vector<uint64_t> came = times_of(with_variables ? code_with_variables() : living_code());
  size_t left = 0;
  for (auto one = all.rbegin(); one != all.rend(); ++one) {
    if (std::ranges::any_of(came, [&](uint64_t c) { return c > one->began && c < one->ended; })) {
      came.push_back(one->began);
      ++left;
    } else {
      rt::stop_lingering(one->handle);
    }
  }
  return left;
}

void was_unloaded(Maker m) {
  if (prune(false) > kFew && prune(true) > kMost)
    rt::mark_unsaved(
        m.library, m.function,
        "code with variables was loaded and unloaded in turns more than 2000 times, and where its variables "
        "lie depends on all of it");
}

template <class F, class H>
auto unload_code(RealFunction<F> its, H handle) {
  rt::Call call;
  const CodeOrder in_order;
  const uint64_t heaps = heaps_used_by(rt::word_of(handle));
  const auto r = its(rt::real(handle, std::is_same_v<H, CUmodule> ? kind::cudaModule : kind::cudaLibrary));
  if (static_cast<int>(r) != CUDA_SUCCESS) return r;
  note_heaps(heaps, its);
  rt::linger_word(rt::word_of(handle));
  forget_variables_of_unloaded_code();
  was_unloaded(its);
  return r;
}

// Whether the address is in the program's executable, which stays mapped until the process has ended.
bool is_in_executable(const void* address) {
  const uint64_t headers = cropdl::libraries::auxiliary_value(AT_PHDR);
  const std::span<const Elf64_Phdr> segments(reinterpret_cast<const Elf64_Phdr*>(headers),
                                             headers ? cropdl::libraries::auxiliary_value(AT_PHNUM) : 0);
  uint64_t base = 0;
  for (const Elf64_Phdr& one : segments)
    if (one.p_type == PT_PHDR) base = headers - one.p_vaddr;
  const uint64_t at = reinterpret_cast<uint64_t>(address) - base;
  return std::any_of(segments.begin(), segments.end(), [&](const Elf64_Phdr& one) {
    return one.p_type == PT_LOAD && at >= one.p_vaddr && at - one.p_vaddr < one.p_memsz;
  });
}

// The heaps that registered code has used, which is being unregistered. The executable's code is unregistered
// as the process ends: it is read only if a checkpoint is taken even then.
void note_heaps_of_registered(uint64_t code) {
  const cropdl::handles::Slot* slot = rt::slot_of(code);
  const auto* image = slot && slot->recipe ? rt::arguments_of(*slot).value<const void*>() : nullptr;
  if (image && is_in_executable(image)) {
    if (first_use_of(code) != 0) note_ended_image(image);
  } else {
    note_heaps(heaps_used_by(code), CROPDL_CUDART_MAKER(__cudaUnregisterFatBinary));
  }
}

// Keeps a copy of registered code that is being unregistered.
void stay_instead(uint64_t code) {
  const cropdl::handles::Slot* slot = rt::slot_of(code);
  const uint64_t came = first_use_of(code);
  if (!slot || !slot->recipe || !came) return;
  const auto living = times_of(living_code());
  if (std::none_of(living.begin(), living.end(), [&](uint64_t c) { return c > came; })) return;
  const std::span<const char> image = code_at(rt::arguments_of(*slot).value<const void*>());
  if (image.empty() || image.size() > kMostBytes) {
    rt::mark_unsaved(
        kCudart, cudart::kFn___cudaUnregisterFatBinary,
        "a library with kernels was closed, of which no copy could be kept, before code that came later");
    return;
  }
  rt::RecipeWriter recipe;
  recipe.array(image.data(), static_cast<int64_t>(image.size()));
  for (int options = 0; options < 2; ++options) {
    recipe.array<int32_t>(nullptr, 0);
    recipe.array<void*>(nullptr, 0);
    recipe.value<uint32_t>(0);
  }
  rt::linger_instead(kind::cudaLibrary, kDriver, driver::kFn_cuLibraryLoadData, recipe, came);
}

int64_t end_again(cropdl::handles::Handle h) {
  const cropdl::handles::Slot& slot = *rt::tables->slot(h);
  if (cropdl::handles::kind_of(h) == kind::cudaLibrary)
    return CROPDL_DRIVER(cuLibraryUnload)(reinterpret_cast<CUlibrary>(slot.owner[0]));
  const OnDevice on(rt::device_of(slot));
  return on.fine() ? CROPDL_DRIVER(cuModuleUnload)(reinterpret_cast<CUmodule>(slot.owner[0]))
                   : CUDA_ERROR_INVALID_CONTEXT;
}

struct UnloadingHooks {
  UnloadingHooks() { rt::end_again = end_again; }
} unloading_hooks;

}  // namespace

extern "C" {

CROPDL_CALLS(unload_code)

// Called by the destructors of a library that is closed, and of the program.
int lower___cudaUnregisterFatBinary(void** code) {
  rt::Call call;
  const CodeOrder in_order;
  note_heaps_of_registered(rt::word_of(code));
  stay_instead(rt::word_of(code));
  CROPDL_CUDART(__cudaUnregisterFatBinary)(rt::real(code, kind::cudaFatBinary));
  forget_variables_of(rt::word_of(code));
  rt::forget_word(rt::word_of(code));
  registered_code_went();
  prune(false);
  return 0;
}

}  // extern "C"
