// Libraries and their kernels (module.h).
#include "base/say.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/live.h"
#include "gpu_state/software/device/module.h"
#include "gpu_state/software/device/variables.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

struct Libraries {
  Live<CUlib_st> libraries;
  Live<CUkern_st> kernels;
};
Libraries& known_libraries() {
  static auto& libraries = *new Libraries;
  return libraries;
}

// Runs before the modules' function, which unloads all modules of the context, whoever owns them.
void forget_modules(CUcontext context) {
  for (const auto& library : known_libraries().libraries.all()) {
    std::lock_guard lock(library->mutex);
    library->modules.erase(context);
  }
}
const bool forgets_modules = when_a_context_ends(Keeper::kLibraries, forget_modules);

// Managed variables have one address in all contexts, so their initial values cannot contain context-specific
// addresses.
Status fill_managed(const CUlib_st& library) {
  for (const ptx::Variable* variable : placed_variables(*library.text))
    if (auto at = library.managed.find(variable->name); at != library.managed.end())
      if (Status status =
              initialise(*variable, at->second.address,
                         [](const std::string&) -> std::optional<uint64_t> { return std::nullopt; });
          !status)
        return status;
  return {};
}

}  // namespace

std::shared_ptr<CUlib_st> find_library(CUlibrary handle) { return known_libraries().libraries.find(handle); }
std::shared_ptr<CUkern_st> find_kernel(CUkernel handle) { return known_libraries().kernels.find(handle); }

CUresult load_library(const Image& image, CUlibrary* handle) {
  if (int error = settings::injected("module"))
    return error > 0 ? static_cast<CUresult>(error) : CUDA_ERROR_OUT_OF_MEMORY;
  auto library = std::make_shared<CUlib_st>();
  library->text = image.text;
  CUresult error = place_managed(*image.text, &library->managed);
  if (!error)
    if (Status status = fill_managed(*library); !status) {
      say("software GPU: a library cannot be loaded: " + status.error().message);
      error = CUDA_ERROR_NOT_SUPPORTED;
    }
  if (error) {
    give_back(library->managed, nullptr);
    return error;
  }
  for (const ptx::Function& function : image.text->functions) {
    if (!function.is_kernel || !function.has_body) continue;
    auto kernel =
        std::make_shared<CUkern_st>();  // one for each kernel of the text; load_module() relies on it
    kernel->name = function.name;
    kernel->library = library.get();
    library->kernels.emplace_back(function.name, known_libraries().kernels.add(std::move(kernel)));
  }
  *handle = known_libraries().libraries.add(std::move(library));
  return CUDA_SUCCESS;
}

CUresult unload_library(CUlibrary handle) {
  std::shared_ptr<CUlib_st> library = find_library(handle);
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  std::map<CUcontext, CUmodule> modules;
  {
    std::lock_guard lock(library->mutex);
    modules.swap(library->modules);
  }
  for (auto& [context, module] : modules)
    if (unload_module(module) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
      std::lock_guard lock(library->mutex);
      library->modules.merge(modules);
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  if (!known_libraries().libraries.take(handle)) return CUDA_ERROR_INVALID_HANDLE;
  for (auto& [name, kernel] : library->kernels) known_libraries().kernels.take(kernel);
  give_back(library->managed, nullptr);
  return CUDA_SUCCESS;
}

CUresult module_of(const std::shared_ptr<CUlib_st>& library, CUcontext context, CUmodule* module) {
  std::lock_guard lock(library->mutex);
  auto at = library->modules.find(context);
  if (at != library->modules.end()) {
    *module = at->second;
    return CUDA_SUCCESS;
  }
  if (CUresult error = load_module(context, Image{library->text}, library.get(), module)) return error;
  library->modules[context] = *module;
  return CUDA_SUCCESS;
}

CUresult code_of(const CUkern_st& kernel, std::shared_ptr<const engine::Kernel>* code) {
  std::shared_ptr<CUlib_st> library = find_library(kernel.library);
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(library->mutex);
  if (!library->contextless)
    library->contextless =
        std::make_unique<engine::Code>(library->text, [](const std::string&) -> uint64_t { return 4096; });
  return look_up(*library->contextless, kernel.name, code);
}

CUresult function_of(const CUkern_st& kernel, CUcontext context, CUfunction* function) {
  std::shared_ptr<CUlib_st> library = find_library(kernel.library);
  if (!library) return CUDA_ERROR_INVALID_HANDLE;
  CUmodule handle = nullptr;
  if (CUresult error = module_of(library, context, &handle)) return error;
  std::shared_ptr<CUmod_st> module = find_module(handle);
  return module ? function_of(*module, kernel.name, function) : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace cropdl::device
