// Modules and libraries of kernels that the program loads itself. The recipe has a copy of the code at the
// load, and the options that are plain values. (The program's own load fills buffers for the compiler's
// messages.) Source: CUDA Driver API 13.0, "Module Management", "Library Management", "CUjit_option". LH, LH
// FS base, any thread.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "interpose/gen/driver/undeclared.h"
//
#include "interpose/cuda/lower/code_image.h"
#include "interpose/cuda/lower/code_order.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/one_abi/kinds.h"

namespace rt = cropdl::one_abi;
namespace kind = rt::kind;
namespace driver = cropdl::seam::driver;
namespace cudart = cropdl::seam::cudart;

namespace cropdl::cuda {
namespace {

struct Options {
  std::vector<int32_t> names;
  std::vector<void*> values;
  bool values_only = true;  // false: an option points at what a restart does not have
};

Options jit_options(const void* names, void* const* values, unsigned n) {
  Options o;
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

// Tables of the program keep their addresses. CU_LIBRARY_BINARY_IS_PRESERVED is dropped, since a restart
// loads the recipe's copy.
Options library_options(const void* names, void* const* values, unsigned n) {
  Options o;
  const auto* all = static_cast<const int32_t*>(names);
  for (unsigned i = 0; all && i < n; ++i) {
    if (all[i] == CU_LIBRARY_BINARY_IS_PRESERVED) continue;
    o.names.push_back(all[i]);
    o.values.push_back(values ? values[i] : nullptr);
  }
  return o;
}

void write(rt::RecipeWriter& recipe, const Options& o) {
  recipe.array(o.names.data(), static_cast<int64_t>(o.names.size()));
  recipe.array(o.values.data(), static_cast<int64_t>(o.values.size()));
  recipe.value(static_cast<uint32_t>(o.names.size()));
}
struct ReadOptions {
  const int32_t* names;
  void* const* values;
  uint32_t n;
  explicit ReadOptions(rt::Again& from)
      : names(from.array<int32_t>()), values(from.array<void*>()), n(from.value<uint32_t>()) {}
  template <class T>
  T* as() const {
    return n ? reinterpret_cast<T*>(const_cast<int32_t*>(names)) : nullptr;
  }
  void** of() const { return n ? const_cast<void**>(values) : nullptr; }
};

// The handle of a module or library loaded from that code. If the code's end is unknown or options point
// elsewhere, it has no recipe, and refuses checkpoints while it exists.
uint64_t loaded(uint64_t real, uint32_t kind, const rt::RealLibrary& library, uint32_t function,
                const void* image, const Options& jit, const Options& its) {
  const std::span<const char> code = code_at(image);
  if (code.empty() || !jit.values_only) return rt::made_word(real, kind, library, function, nullptr);
  rt::RecipeWriter recipe;
  recipe.array(code.data(), static_cast<int64_t>(code.size()));
  write(recipe, jit);
  write(recipe, its);
  return rt::made_word(real, kind, library, function, &recipe);
}

// `real`: by reference, since the call that sets it is an argument, too.
CUresult module_loaded(CUresult r, const CUmodule& real, CUmodule* module, uint32_t function,
                       const void* image, const Options& jit) {
  if (r == CUDA_SUCCESS)
    *module = rt::handle_of<CUmodule>(
        loaded(rt::word_of(real), kind::cudaModule, kDriver, function, image, jit, {}));
  return r;
}

// Reads the file here, so that the recipe has what is loaded. False: the library's own function reports the
// error.
bool read_file(const char* name, std::string* contents) {
  if (!name) return false;
  std::ifstream file(name, std::ios::binary);
  contents->assign(std::istreambuf_iterator<char>(file), {});
  return file && !contents->empty();
}

// Code that the library loaded although the file could not be read here has no recipe.
template <class R>
R unread(R r, const rt::RealLibrary& library, uint32_t function) {
  if (static_cast<int>(r) == 0)
    rt::mark_unsaved(library, function, "the file that it has loaded could not be read by CropDL as well");
  return r;
}

int64_t load_module_again(rt::Again& from) {
  const char* code = from.array<char>();
  const ReadOptions jit(from);
  CUmodule module = nullptr;
  const CUresult r =
      CROPDL_DRIVER(cuModuleLoadDataEx)(&module, code, jit.n, jit.as<CUjit_option>(), jit.of());
  from.made(rt::word_of(module));
  return r;
}

// --- Arrays filled with handles of kernels, each found again by its name.
template <class H>
H named(H real, uint64_t of, uint32_t its_kind, uint32_t function, const char* name) {
  rt::RecipeWriter recipe;
  recipe.handle(of);
  recipe.text(name);
  const uint64_t word =
      rt::known_word(rt::word_of(real), its_kind, kDriver, function, name ? &recipe : nullptr);
  rt::ends_with(word, of);
  return rt::handle_of<H>(word);
}

void name_kernels(CUkernel* kernels, unsigned n, uint64_t library) {
  for (unsigned i = 0; kernels && i < n; ++i) {
    const char* name = nullptr;
    if (!kernels[i]) continue;
    CROPDL_DRIVER(cuKernelGetName)(&name, kernels[i]);
    kernels[i] = named(kernels[i], library, kind::cudaKernel, driver::kFn_cuLibraryGetKernel, name);
  }
}

}  // namespace
}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

CUresult lower_cuModuleLoadData(CUmodule* module, const void* image) {
  rt::Call call;
  const CodeOrder in_order;
  CUmodule real = nullptr;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return module_loaded(CROPDL_DRIVER(cuModuleLoadData)(&real, image), real, module,
                       driver::kFn_cuModuleLoadData, image, {});
}
CUresult lower_cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  rt::Call call;
  const CodeOrder in_order;
  CUmodule real = nullptr;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  return module_loaded(CROPDL_DRIVER(cuModuleLoadFatBinary)(&real, image), real, module,
                       driver::kFn_cuModuleLoadFatBinary, image, {});
}
CUresult lower_cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned n, CUjit_option* options,
                                  void** values) {
  rt::Call call;
  const CodeOrder in_order;
  CUmodule real = nullptr;
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  const Options jit = jit_options(options, values, n);
  return module_loaded(CROPDL_DRIVER(cuModuleLoadDataEx)(&real, image, n, options, values), real, module,
                       driver::kFn_cuModuleLoadDataEx, image, jit);
}
CUresult lower_cuModuleLoad(CUmodule* module, const char* file) {
  rt::Call call;
  const CodeOrder in_order;
  CUmodule real = nullptr;
  std::string code;
  if (!module || !read_file(file, &code))
    return unread(CROPDL_DRIVER(cuModuleLoad)(module, file), kDriver, driver::kFn_cuModuleLoad);
  return module_loaded(CROPDL_DRIVER(cuModuleLoadData)(&real, code.c_str()), real, module,
                       driver::kFn_cuModuleLoad, code.c_str(), {});
}
int64_t again_cuModuleLoad(rt::Again& from) { return load_module_again(from); }
int64_t again_cuModuleLoadData(rt::Again& from) { return load_module_again(from); }
int64_t again_cuModuleLoadDataEx(rt::Again& from) { return load_module_again(from); }
int64_t again_cuModuleLoadFatBinary(rt::Again& from) { return load_module_again(from); }

CUresult lower_cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values,
                                 unsigned n, CUlibraryOption* own, void** own_values, unsigned own_n) {
  rt::Call call;
  const CodeOrder in_order;
  CUlibrary real = nullptr;
  if (!library) return CUDA_ERROR_INVALID_VALUE;
  const Options jit = jit_options(options, values, n), its = library_options(own, own_values, own_n);
  const CUresult r =
      CROPDL_DRIVER(cuLibraryLoadData)(&real, code, options, values, n, own, own_values, own_n);
  if (r == CUDA_SUCCESS) bring_library(real);
  if (r == CUDA_SUCCESS)
    *library = rt::handle_of<CUlibrary>(
        loaded(rt::word_of(real), kind::cudaLibrary, kDriver, driver::kFn_cuLibraryLoadData, code, jit, its));
  return r;
}
CUresult lower_cuLibraryLoadFromFile(CUlibrary* library, const char* file, CUjit_option* options,
                                     void** values, unsigned n, CUlibraryOption* own, void** own_values,
                                     unsigned own_n) {
  rt::Call call;
  const CodeOrder in_order;
  std::string code;
  if (!library || !read_file(file, &code))
    return unread(
        CROPDL_DRIVER(cuLibraryLoadFromFile)(library, file, options, values, n, own, own_values, own_n),
        kDriver, driver::kFn_cuLibraryLoadFromFile);
  CUlibrary real = nullptr;
  const Options jit = jit_options(options, values, n), its = library_options(own, own_values, own_n);
  auto names = its.names;
  auto given = its.values;
  const CUresult r = CROPDL_DRIVER(cuLibraryLoadData)(&real, code.c_str(), options, values, n,
                                                      reinterpret_cast<CUlibraryOption*>(names.data()),
                                                      given.data(), static_cast<unsigned>(names.size()));
  if (r == CUDA_SUCCESS) bring_library(real);
  if (r == CUDA_SUCCESS)
    *library = rt::handle_of<CUlibrary>(loaded(rt::word_of(real), kind::cudaLibrary, kDriver,
                                               driver::kFn_cuLibraryLoadFromFile, code.c_str(), jit, its));
  return r;
}
int64_t again_cuLibraryLoadData(rt::Again& from) {
  const char* code = from.array<char>();
  const ReadOptions jit(from), its(from);
  CUlibrary library = nullptr;
  const CUresult r = CROPDL_DRIVER(cuLibraryLoadData)(&library, code, jit.as<CUjit_option>(), jit.of(), jit.n,
                                                      its.as<CUlibraryOption>(), its.of(), its.n);
  from.made(rt::word_of(library));
  return r == CUDA_SUCCESS ? bring_library(library, from.ended()) : static_cast<int64_t>(r);
}
int64_t again_cuLibraryLoadFromFile(rt::Again& from) { return again_cuLibraryLoadData(from); }

cudaError_t lower_cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption* options,
                                      void** values, unsigned n, cudaLibraryOption* own, void** own_values,
                                      unsigned own_n) {
  rt::Call call;
  const CodeOrder in_order;
  cudaLibrary_t real = nullptr;
  if (!library) return cudaErrorInvalidValue;
  const Options jit = jit_options(options, values, n), its = library_options(own, own_values, own_n);
  const cudaError_t r =
      CROPDL_CUDART(cudaLibraryLoadData)(&real, code, options, values, n, own, own_values, own_n);
  if (r == cudaSuccess) bring_library(reinterpret_cast<CUlibrary>(real));
  if (r == cudaSuccess)
    *library = rt::handle_of<cudaLibrary_t>(loaded(rt::word_of(real), kind::cudaLibrary, kCudart,
                                                   cudart::kFn_cudaLibraryLoadData, code, jit, its));
  return r;
}
cudaError_t lower_cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* file, cudaJitOption* options,
                                          void** values, unsigned n, cudaLibraryOption* own,
                                          void** own_values, unsigned own_n) {
  rt::Call call;
  const CodeOrder in_order;
  std::string code;
  if (!library || !read_file(file, &code))
    return unread(
        CROPDL_CUDART(cudaLibraryLoadFromFile)(library, file, options, values, n, own, own_values, own_n),
        kCudart, cudart::kFn_cudaLibraryLoadFromFile);
  cudaLibrary_t real = nullptr;
  const Options jit = jit_options(options, values, n), its = library_options(own, own_values, own_n);
  auto names = its.names;
  auto given = its.values;
  const cudaError_t r = CROPDL_CUDART(cudaLibraryLoadData)(&real, code.c_str(), options, values, n,
                                                           reinterpret_cast<cudaLibraryOption*>(names.data()),
                                                           given.data(), static_cast<unsigned>(names.size()));
  if (r == cudaSuccess) bring_library(reinterpret_cast<CUlibrary>(real));
  if (r == cudaSuccess)
    *library =
        rt::handle_of<cudaLibrary_t>(loaded(rt::word_of(real), kind::cudaLibrary, kCudart,
                                            cudart::kFn_cudaLibraryLoadFromFile, code.c_str(), jit, its));
  return r;
}
int64_t again_cudaLibraryLoadData(rt::Again& from) {
  const char* code = from.array<char>();
  const ReadOptions jit(from), its(from);
  cudaLibrary_t library = nullptr;
  const cudaError_t r = CROPDL_CUDART(cudaLibraryLoadData)(
      &library, code, jit.as<cudaJitOption>(), jit.of(), jit.n, its.as<cudaLibraryOption>(), its.of(), its.n);
  from.made(rt::word_of(library));
  return r == cudaSuccess ? bring_library(reinterpret_cast<CUlibrary>(library), from.ended())
                          : static_cast<int64_t>(r);
}
int64_t again_cudaLibraryLoadFromFile(rt::Again& from) { return again_cudaLibraryLoadData(from); }

CUresult lower_cuLibraryEnumerateKernels(CUkernel* kernels, unsigned n, CUlibrary library) {
  rt::Call call;
  for (unsigned i = 0; kernels && i < n; ++i) kernels[i] = nullptr;
  const CUresult r =
      CROPDL_DRIVER(cuLibraryEnumerateKernels)(kernels, n, rt::real(library, kind::cudaLibrary));
  if (r == CUDA_SUCCESS) name_kernels(kernels, n, rt::word_of(library));
  return r;
}
cudaError_t lower_cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned n, cudaLibrary_t library) {
  rt::Call call;
  for (unsigned i = 0; kernels && i < n; ++i) kernels[i] = nullptr;
  const cudaError_t r =
      CROPDL_CUDART(cudaLibraryEnumerateKernels)(kernels, n, rt::real(library, kind::cudaLibrary));
  if (r == cudaSuccess) name_kernels(reinterpret_cast<CUkernel*>(kernels), n, rt::word_of(library));
  return r;
}
CUresult lower_cuModuleEnumerateFunctions(CUfunction* functions, unsigned n, CUmodule module) {
  rt::Call call;
  for (unsigned i = 0; functions && i < n; ++i) functions[i] = nullptr;
  const CUresult r =
      CROPDL_DRIVER(cuModuleEnumerateFunctions)(functions, n, rt::real(module, kind::cudaModule));
  for (unsigned i = 0; r == CUDA_SUCCESS && functions && i < n; ++i) {
    const char* name = nullptr;
    if (!functions[i]) continue;
    CROPDL_DRIVER(cuFuncGetName)(&name, functions[i]);
    functions[i] =
        named(functions[i], rt::word_of(module), kind::cudaFunction, driver::kFn_cuModuleGetFunction, name);
  }
  return r;
}

// The result is from the program's own table (CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE).
CUresult lower_cuLibraryGetUnifiedFunction(void** function, CUlibrary library, const char* symbol) {
  rt::Call call;
  return CROPDL_DRIVER(cuLibraryGetUnifiedFunction)(function, rt::real(library, kind::cudaLibrary), symbol);
}
cudaError_t lower_cudaLibraryGetUnifiedFunction(void** function, cudaLibrary_t library, const char* symbol) {
  rt::Call call;
  return CROPDL_CUDART(cudaLibraryGetUnifiedFunction)(function, rt::real(library, kind::cudaLibrary), symbol);
}

}  // extern "C"
