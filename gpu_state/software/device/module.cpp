#include "gpu_state/software/device/module.h"

#include <chrono>
#include <set>
#include <thread>

#include "base/say.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/live.h"
#include "gpu_state/software/device/printed.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

struct Modules {
  Live<CUmod_st> modules;
  Live<CUfunc_st> functions;
  std::mutex mutex;
  std::map<CUmodule, std::shared_ptr<Loaded>> loaded;
};
Modules& known_modules() {
  static auto& modules = *new Modules;
  return modules;
}

void unload_all(CUcontext context) {
  for (const auto& module : known_modules().modules.all())
    if (module->context == context) unload_module(module.get());
}
const bool unloads_modules = when_a_context_ends(Keeper::kModules, unload_all);

constexpr uint64_t kConstantBytes = 65536;  // CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY
constexpr uint32_t kSharedWithoutLeave = 48 << 10;

// ptxas reports an error if there are more.
Status check_constants(const ptx::Module& module) {
  uint64_t bytes = 0;
  for (const ptx::Variable* variable : placed_variables(module))
    if (variable->space == ptx::Space::kConst) bytes += variable->size();
  if (bytes <= kConstantBytes) return {};
  return Error{"{} bytes of .const variables, of at most {}", bytes, kConstantBytes};
}

CUresult fill_variables(Loaded& loaded) {
  auto address_of = [&](const std::string& name) -> std::optional<uint64_t> {
    auto at = loaded.variables.find(name);
    if (at != loaded.variables.end()) return at->second.address;
    if (uint64_t address = loaded.code->function_address(name)) return address;
    return std::nullopt;
  };
  for (const ptx::Variable* variable : placed_variables(*loaded.text)) {
    const VariablePlace& place = loaded.variables.at(variable->name);
    // the library has written it, and programs may have changed it
    if (place.is_borrowed || !place.size) continue;
    if (Status status = initialise(*variable, place.address, address_of); !status) {
      say("software GPU: a module cannot be loaded: " + status.error().message);
      return CUDA_ERROR_INVALID_PTX;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

Loaded::~Loaded() { give_back(variables, context); }

std::shared_ptr<CUmod_st> find_module(CUmodule handle) { return known_modules().modules.find(handle); }
std::shared_ptr<CUfunc_st> find_function(CUfunction handle) { return known_modules().functions.find(handle); }

CUresult load_module(CUcontext context, const Image& image, CUmodule* handle) {
  if (int error = settings::injected("module"))
    return error > 0 ? static_cast<CUresult>(error) : CUDA_ERROR_OUT_OF_MEMORY;
  auto begin = std::chrono::steady_clock::now();
  CUresult result = load_module(context, image, nullptr, handle);
  if (double times = settings::slowdown("module"); times > 1)
    std::this_thread::sleep_for((std::chrono::steady_clock::now() - begin) * (times - 1));
  return result;
}

CUresult load_module(CUcontext context, const Image& image, CUlib_st* library, CUmodule* handle) {
  show_printed(context);  // one of the moments at which kernels' output is shown: printed.h
  if (Status status = check_constants(*image.text); !status) {
    say("software GPU: a module cannot be loaded: " + status.error().message);
    return CUDA_ERROR_INVALID_PTX;
  }
  auto loaded = std::make_shared<Loaded>();
  loaded->context = context;
  loaded->text = image.text;
  if (library) {
    loaded->variables = library->managed;
    for (auto& [name, place] : loaded->variables) place.is_borrowed = true;
  }
  if (CUresult error = place_variables(*image.text, context, &loaded->variables)) return error;
  // The code requests addresses while it lowers, possibly much later; it is destroyed before the places.
  loaded->code = std::make_unique<engine::Code>(
      image.text,
      [variables = loaded->variables](const std::string& name) -> uint64_t {
        auto at = variables.find(name);
        return at == variables.end() ? 0 : at->second.address;
      },
      context->device->ordinal);
  if (CUresult error = fill_variables(*loaded)) return error;

  auto module = std::make_shared<CUmod_st>();
  module->context = context;
  module->library = library;
  module->loaded = loaded;
  for (const ptx::Function& function : image.text->functions) {
    if (!function.is_kernel || !function.has_body) continue;
    auto made = std::make_shared<CUfunc_st>();
    made->name = function.name;
    made->context = context;
    made->module = module.get();
    made->loaded = loaded;
    if (library) made->kernel = library->kernels[module->functions.size()].second;  // they have the same text
    module->functions.emplace_back(function.name, known_modules().functions.add(std::move(made)));
  }
  for (const auto& [name, function] : module->functions) module->by_name.emplace(name, function);
  std::lock_guard lock(known_modules().mutex);
  known_modules().loaded[module.get()] = std::move(loaded);
  *handle = known_modules().modules.add(std::move(module));
  return CUDA_SUCCESS;
}

CUresult unload_module(CUmodule handle) {
  std::shared_ptr<CUmod_st> module = find_module(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  CUresult waited = module->context->alive.load() ? wait_for_all(module->context) : CUDA_SUCCESS;
  if (waited == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) return waited;
  // another thread destroyed it first
  if (!known_modules().modules.take(handle)) return CUDA_ERROR_INVALID_HANDLE;
  for (auto& [name, function] : module->functions) known_modules().functions.take(function);
  std::shared_ptr<Loaded> loaded;  // destroyed after the unlock
  std::lock_guard lock(known_modules().mutex);
  auto at = known_modules().loaded.find(handle);
  loaded = std::move(at->second);
  known_modules().loaded.erase(at);
  return CUDA_SUCCESS;
}

CUresult function_of(const CUmod_st& module, std::string_view name, CUfunction* function) {
  auto at = module.by_name.find(name);
  if (at == module.by_name.end()) return CUDA_ERROR_NOT_FOUND;
  *function = at->second;
  return CUDA_SUCCESS;
}

CUresult variable_of(const CUmod_st& module, const std::string& name, VariablePlace* place) {
  std::shared_ptr<Loaded> loaded = module.loaded.lock();
  if (!loaded) return CUDA_ERROR_INVALID_HANDLE;
  auto at = loaded->variables.find(name);
  if (at == loaded->variables.end()) return CUDA_ERROR_NOT_FOUND;
  *place = at->second;
  return CUDA_SUCCESS;
}

CUresult resolve(CUfunction handle, CUcontext context, std::shared_ptr<CUfunc_st>* function) {
  *function = find_function(handle);
  if (!*function) {
    std::shared_ptr<CUkern_st> kernel = find_kernel(reinterpret_cast<CUkernel>(handle));
    if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
    CUfunction own = nullptr;
    if (CUresult error = function_of(*kernel, context, &own)) return error;
    *function = find_function(own);
  }
  return *function && (*function)->context == context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult code_of(const CUfunc_st& function, std::shared_ptr<const engine::Kernel>* kernel) {
  std::shared_ptr<Loaded> loaded = function.loaded.lock();
  return loaded ? look_up(*loaded->code, function.name, kernel) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult look_up(engine::Code& code, const std::string& name, std::shared_ptr<const engine::Kernel>* kernel) {
  auto found = code.kernel(name);
  if (found) {
    *kernel = *found;
    return CUDA_SUCCESS;
  }
  static auto& said = *new std::set<std::string>;
  std::lock_guard lock(known_modules().mutex);
  if (said.insert(found.error().message).second) say("software GPU: " + found.error().message);
  return CUDA_ERROR_NOT_SUPPORTED;
}

uint32_t max_dynamic_shared(const CUfunc_st& function, const engine::Kernel& kernel) {
  int set = function.settings.max_dynamic_shared.load();
  if (set < 0 && function.kernel)
    if (std::shared_ptr<CUkern_st> of = find_kernel(function.kernel)) {
      std::lock_guard lock(of->mutex);
      auto at = of->settings.find(function.context->device->ordinal);
      if (at != of->settings.end()) set = at->second.max_dynamic_shared.load();
    }
  if (set >= 0) return static_cast<uint32_t>(set);
  uint64_t fixed = engine::facts(kernel).static_shared;
  return fixed < kSharedWithoutLeave ? kSharedWithoutLeave - static_cast<uint32_t>(fixed) : 0;
}

CUresult launchable(CUfunction handle, CUcontext context, Launchable* found) {
  std::shared_ptr<CUfunc_st> function;
  if (CUresult error = resolve(handle, context, &function)) return error;
  if (CUresult error = code_of(*function, &found->kernel)) return error;
  found->function = function.get();
  found->max_dynamic_shared = max_dynamic_shared(*function, *found->kernel);
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
