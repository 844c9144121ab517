// Modules and libraries of kernels that the program loads itself. The recipe has a copy of the code at the
// load, and the options that are plain values, not the buffers for the compiler's messages. Source: CUDA
// Driver API 13.0, "Module Management", "Library Management", "CUjit_option". LH, LH FS base, any thread.
#include <fstream>
#include <iterator>
#include <string>

#include "interpose/cuda/lower/code_image.h"
#include "interpose/cuda/lower/code_order.h"
#include "interpose/cuda/lower/load_options.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/cuda/lower/variables.h"

using namespace cropdl::cuda;

namespace {

LoadOptions jit_options(const void* names, void* const* values, unsigned n) {
  LoadOptions o;
  const auto* all = static_cast<const int32_t*>(names);
  for (unsigned i = 0; all && values && i < n; ++i) {
    switch (all[i]) {
      case CU_JIT_WALL_TIME:
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        break;
      case CU_JIT_GLOBAL_SYMBOL_NAMES:
      case CU_JIT_GLOBAL_SYMBOL_ADDRESSES:
      case CU_JIT_GLOBAL_SYMBOL_COUNT:
      case CU_JIT_REFERENCED_KERNEL_NAMES:
      case CU_JIT_REFERENCED_KERNEL_COUNT:
      case CU_JIT_REFERENCED_VARIABLE_NAMES:
      case CU_JIT_REFERENCED_VARIABLE_COUNT:
        o.values_only = false;
        break;
      default:
        o.names.push_back(all[i]);
        o.values.push_back(values[i]);
    }
  }
  return o;
}

// The program's tables stay in place. No CU_LIBRARY_BINARY_IS_PRESERVED: a restart loads the recipe's copy.
LoadOptions library_options(const void* names, void* const* values, unsigned n) {
  LoadOptions o;
  const auto* all = static_cast<const int32_t*>(names);
  for (unsigned i = 0; all && i < n; ++i) {
    if (all[i] == CU_LIBRARY_BINARY_IS_PRESERVED) continue;
    o.names.push_back(all[i]);
    o.values.push_back(values ? values[i] : nullptr);
  }
  return o;
}

void write(rt::RecipeWriter& recipe, const LoadOptions& o) {
  recipe.array(o.names.data(), static_cast<int64_t>(o.names.size()));
  recipe.array(o.values.data(), static_cast<int64_t>(o.values.size()));
  recipe.value<uint32_t>(o.count());
}

// The handle of a module or library loaded from that code. If the code's end is unknown or options point
// elsewhere, it has no recipe, and refuses checkpoints while it exists.
template <class H>
H loaded(H real, uint32_t its_kind, Maker m, const void* image, const LoadOptions& jit,
         const LoadOptions& its) {
  const std::span<const char> code = code_at(image);
  const bool known = !code.empty() && jit.values_only;
  rt::RecipeWriter recipe;
  if (known) {
    recipe.array(code.data(), static_cast<int64_t>(code.size()));
    write(recipe, jit);
    write(recipe, its);
  } else {
    note_heaps(heaps_used_by_image(image), m);
  }
  return rt::handle_of<H>(
      rt::made_word(rt::word_of(real), its_kind, m.library, m.function, known ? &recipe : nullptr));
}

// `load`: a function that loads a module from code; `m`: the function that the program calls.
template <class F, class... More>
CUresult load_module_as(Maker m, RealFunction<F> load, CUmodule* module, const void* image,
                        const LoadOptions& jit, More... more) {
  CUmodule real = nullptr;
  const CUresult r = load(&real, image, more...);
  if (r == CUDA_SUCCESS) *module = loaded(real, kind::cudaModule, m, image, jit, {});
  return r;
}

template <class F>
CUresult load_module(RealFunction<F> load, CUmodule* module, const void* image) {
  rt::Call call;
  const CodeOrder in_order;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return load_module_as(load, load, module, image, {});
}
template <class F>
CUresult load_module(RealFunction<F> load, CUmodule* module, const void* image, unsigned n,
                     CUjit_option* options, void** values) {
  rt::Call call;
  const CodeOrder in_order;
  if (!module) return CUDA_ERROR_INVALID_VALUE;  // before the options are read
  return load_module_as(load, load, module, image, jit_options(options, values, n), n, options, values);
}

// Read here, so that the recipe has what is loaded. False: the library's own function reports the error.
bool read_file(const char* name, std::string* contents) {
  if (!name) return false;
  std::ifstream file(name, std::ios::binary);
  contents->assign(std::istreambuf_iterator<char>(file), {});
  return file && !contents->empty();
}

// Code that the library loaded although the file could not be read here has no recipe.
template <class R>
R unread(R r, Maker m) {
  if (static_cast<int>(r) == 0)
    rt::mark_unsaved(m.library, m.function,
                     "the file that it has loaded could not be read by CropDL as well");
  return r;
}

int64_t load_module_again(rt::Again& from) {
  const char* code = from.array<char>();
  LoadOptions jit = read_options(from);
  CUmodule module = nullptr;
  const CUresult r = CROPDL_DRIVER(cuModuleLoadDataEx)(&module, code, jit.count(),
                                                       jit.names_as<CUjit_option>(), jit.values.data());
  from.made(rt::word_of(module));
  return r;
}

// --- Libraries: the runtime's and the driver's functions have the same arguments, of other types.
static_assert(std::is_same_v<CUlibrary, cudaLibrary_t>);

template <class Result, class Code, class Jit, class Own>
using Load = Result(CUlibrary*, const Code*, Jit*, void**, unsigned, Own*, void**, unsigned);

template <class Result, class Jit, class Own>
Result load_library(RealFunction<Load<Result, void, Jit, Own>> load, CUlibrary* library, const void* code,
                    Jit* options, void** values, unsigned n, Own* own, void** own_values, unsigned own_n) {
  rt::Call call;
  const CodeOrder in_order;
  CUlibrary real = nullptr;
  if (!library) return static_cast<Result>(CUDA_ERROR_INVALID_VALUE);
  const LoadOptions jit = jit_options(options, values, n), its = library_options(own, own_values, own_n);
  const auto r = load(&real, code, options, values, n, own, own_values, own_n);
  if (static_cast<int>(r) != CUDA_SUCCESS) return r;
  bring_library(real);
  *library = loaded(real, kind::cudaLibrary, load, code, jit, its);
  return r;
}

// The function of the driver or of the runtime, as its result's type says, that loads code from memory.
auto data_loader(CUresult) { return CROPDL_DRIVER(cuLibraryLoadData); }
auto data_loader(cudaError_t) { return CROPDL_CUDART(cudaLibraryLoadData); }

template <class Result, class Jit, class Own>
Result load_library_file(RealFunction<Load<Result, char, Jit, Own>> load, CUlibrary* library,
                         const char* file, Jit* options, void** values, unsigned n, Own* own,
                         void** own_values, unsigned own_n) {
  rt::Call call;
  const CodeOrder in_order;
  std::string code;
  if (!library || !read_file(file, &code))
    return unread(load(library, file, options, values, n, own, own_values, own_n), load);
  CUlibrary real = nullptr;
  const LoadOptions jit = jit_options(options, values, n), its = library_options(own, own_values, own_n);
  LoadOptions given = its;
  const Result r = data_loader(Result{})(&real, code.c_str(), options, values, n, given.names_as<Own>(),
                                         given.values.data(), given.count());
  if (static_cast<int>(r) != CUDA_SUCCESS) return r;
  bring_library(real);
  *library = loaded(real, kind::cudaLibrary, load, code.c_str(), jit, its);
  return r;
}

template <class Result, class Jit, class Own>
int64_t load_library_again(rt::Again& from, Load<Result, void, Jit, Own>* load) {
  const char* code = from.array<char>();
  LoadOptions jit = read_options(from), its = read_options(from);
  CUlibrary library = nullptr;
  const auto r = static_cast<int64_t>(load(&library, code, jit.names_as<Jit>(), jit.values.data(),
                                           jit.count(), its.names_as<Own>(), its.values.data(), its.count()));
  from.made(rt::word_of(library));
  return r == CUDA_SUCCESS ? bring_library(library, from.ended()) : r;
}

// Arrays filled with handles of a library's kernels or a module's functions, each found again by its name.
template <class F, class H, class Of>
auto enumerate_code(RealFunction<F> list, H* all, unsigned n, Of of) {
  constexpr bool kLibrary = std::is_same_v<Of, CUlibrary>;
  rt::Call call;
  for (unsigned i = 0; all && i < n; ++i) all[i] = nullptr;
  const auto r = list(all, n, rt::real(of, kLibrary ? kind::cudaLibrary : kind::cudaModule));
  for (unsigned i = 0; static_cast<int>(r) == CUDA_SUCCESS && all && i < n; ++i) {
    const char* name = nullptr;
    if (!all[i]) continue;
    if constexpr (kLibrary)
      CROPDL_DRIVER(cuKernelGetName)(&name, all[i]);
    else
      CROPDL_DRIVER(cuFuncGetName)(&name, all[i]);
    rt::RecipeWriter recipe;
    recipe.handle(rt::word_of(of));
    recipe.text(name);
    const uint64_t word =
        rt::known_word(rt::word_of(all[i]), kLibrary ? kind::cudaKernel : kind::cudaFunction, kDriver,
                       kLibrary ? driver::kFn_cuLibraryGetKernel : driver::kFn_cuModuleGetFunction,
                       name ? &recipe : nullptr);
    rt::ends_with(word, rt::word_of(of));
    all[i] = rt::handle_of<H>(word);
  }
  return r;
}

}  // namespace

extern "C" {

CROPDL_CALLS(load_module)
CROPDL_CALLS(load_library)
CROPDL_CALLS(load_library_file)
CROPDL_CALLS(enumerate_code)

CUresult lower_cuModuleLoad(CUmodule* module, const char* file) {
  rt::Call call;
  const CodeOrder in_order;
  const Maker m = CROPDL_DRIVER_MAKER(cuModuleLoad);
  std::string code;
  if (!module || !read_file(file, &code)) return unread(CROPDL_DRIVER(cuModuleLoad)(module, file), m);
  return load_module_as(m, CROPDL_DRIVER_FUNCTION(cuModuleLoadData), module, code.c_str(), {});
}
int64_t again_cuModuleLoad(rt::Again& from) { return load_module_again(from); }
int64_t again_cuModuleLoadData(rt::Again& from) { return load_module_again(from); }
int64_t again_cuModuleLoadDataEx(rt::Again& from) { return load_module_again(from); }
int64_t again_cuModuleLoadFatBinary(rt::Again& from) { return load_module_again(from); }

int64_t again_cuLibraryLoadData(rt::Again& from) {
  return load_library_again(from, CROPDL_DRIVER(cuLibraryLoadData));
}
int64_t again_cuLibraryLoadFromFile(rt::Again& from) { return again_cuLibraryLoadData(from); }
int64_t again_cudaLibraryLoadData(rt::Again& from) {
  return load_library_again(from, CROPDL_CUDART(cudaLibraryLoadData));
}
int64_t again_cudaLibraryLoadFromFile(rt::Again& from) { return again_cudaLibraryLoadData(from); }

}  // extern "C"
