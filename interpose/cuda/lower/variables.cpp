#include "interpose/cuda/lower/variables.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/format.h"
#include "interpose/cuda/lower/code_image.h"
#include "interpose/cuda/lower/code_order.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/cuda/lower/real_libraries.h"
#include "interpose/cuda/lower/registration.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {
namespace {

std::string unreadable(const std::string& whose) {
  return formatted("{}: the variables of its code cannot be read (it is neither PTX nor a cubin)", whose);
}

// A module, library or registered fat binary.
struct Code {
  uint64_t word, real, serial;
  uint32_t kind;
  std::string function = "";              // that loaded it
  int device = -1;                        // of a module's context
  std::span<const char> bytes = {};       // the recipe's copy; registered code has instead:
  const void* image = nullptr;            // in the program
  std::vector<const void*> kernels = {};  // its stubs in the program
  std::set<std::string> registered = {};  // names of variables
};

bool loads(uint32_t maker) {
  for (uint32_t f :
       {driver::kFn_cuModuleLoad, driver::kFn_cuModuleLoadData, driver::kFn_cuModuleLoadDataEx,
        driver::kFn_cuModuleLoadFatBinary, driver::kFn_cuLibraryLoadData, driver::kFn_cuLibraryLoadFromFile})
    if (maker == rt::maker_of(kDriver, f)) return true;
  return maker == rt::maker_of(kCudart, cudart::kFn_cudaLibraryLoadData) ||
         maker == rt::maker_of(kCudart, cudart::kFn_cudaLibraryLoadFromFile);
}

// Without kernels and variables. Nothing: no code, or its recipe has no copy. Under family_lock.
std::optional<Code> code_of(handles::Handle h) {
  const handles::Slot& slot = *rt::tables->slot(h);
  if (slot.state != handles::kLive || !slot.recipe) return std::nullopt;
  Code code{rt::kTag | h, slot.owner[0], slot.serial, handles::kind_of(h)};
  if (loads(slot.maker)) {
    const auto& recipe = *reinterpret_cast<const handles::Recipe*>(slot.recipe);
    const auto* copy = static_cast<const char*>(recipe.payload()) + sizeof(int64_t);
    int64_t size = 0;
    memcpy(&size, copy, sizeof size);
    code.function = libraries()[slot.maker >> 16]->names[slot.maker & 0xffff];
    code.device = rt::device_of(slot);
    code.bytes = {copy + sizeof size, static_cast<size_t>(std::max<int64_t>(size, 0))};
    return code;
  }
  if (slot.maker != rt::maker_of(kCudart, cudart::kFn___cudaRegisterFatBinary)) return std::nullopt;
  code.image = rt::arguments_of(slot).value<const void*>();
  return code;
}

// All code with a recipe. Code without a copy in its recipe is unknown here, and refuses checkpoints itself.
std::vector<Code> all_code() {
  std::vector<Code> all;
  if (!rt::tables) return all;
  std::map<uint64_t, size_t> registered;
  const handles::SpinGuard guard(rt::family_lock);
  for (const handles::Handle h : rt::tables->all_in_order()) {
    std::optional<Code> code = code_of(h);
    if (!code) continue;
    if (code->image) registered[code->word] = all.size();
    all.push_back(std::move(*code));
  }
  each_registered_symbol([&](const RegisteredSymbol& one) {
    const auto of = registered.find(one.code);
    if (of == registered.end()) return;
    if (one.kind == RegisteredSymbol::kKernel)
      all[of->second].kernels.push_back(one.host);
    else if (one.kind == RegisteredSymbol::kVariable && one.name)
      all[of->second].registered.insert(one.name);
  });
  return all;
}

int architecture_of(int device) {
  return device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) * 10 +
         device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

// Whether the code runs on the software device. NCCL may be ours beside a real driver (--software-nccl).
bool is_software() {
  return std::ranges::any_of(real_libraries(),
                             [](const RealLibrary& l) { return l.software && l.soname == kDriverName; });
}

std::map<std::pair<uint64_t, int>, CodeFacts>& known_facts() {
  static auto& all = *new std::map<std::pair<uint64_t, int>, CodeFacts>;
  return all;
}

// Read once a run: the code of a large program takes a while.
const CodeFacts& facts(const Code& code, int architecture) {
  const auto [at, is_new] = known_facts().try_emplace({code.serial, architecture});
  if (is_new)
    at->second = code.image ? facts_at(code.image, architecture, is_software())
                            : facts_of(code.bytes, architecture, is_software());
  return at->second;
}

// Heaps of devices that may hold what unloaded code has allocated. While there are any, there is no image.
struct LeftHeaps {
  std::mutex mutex;
  uint64_t devices = 0;  // one bit each
  const char* function = "";
  std::vector<const void*> images;  // of code that has ended and stays mapped; not read yet
};
LeftHeaps& left_heaps() {
  static auto& its = *new LeftHeaps;
  return its;
}

std::vector<const void*> take_ended_images() {
  const std::lock_guard lock(left_heaps().mutex);
  return std::exchange(left_heaps().images, {});
}

// The module to query for a variable. `device`: the current one. Null: the code is not on it.
Result<CUmodule> module_of(const Code& code, int device) {
  CUmodule module = nullptr;
  if (code.kind == kind::cudaModule)
    return code.device == device ? reinterpret_cast<CUmodule>(code.real) : nullptr;
  for (const void* kernel : code.kernels) {
    cudaFunction_t function = nullptr;
    rt::use_code(kernel);
    const cudaError_t brought = CROPDL_CUDART(cudaGetFuncBySymbol)(&function, kernel);
    auto error = static_cast<CUresult>(brought);
    if (brought == cudaSuccess)
      error = CROPDL_DRIVER(cuFuncGetModule)(&module, reinterpret_cast<CUfunction>(function));
    else
      CROPDL_CUDART(cudaGetLastError)();
    if (error == CUDA_SUCCESS) return module;
    if (!means_no_code(brought)) return variable_lost("that its code has in a kernel", device, error);
  }
  return module;
}

Status add_variables(const Code& code, int device, std::vector<CodeVariable>* all) {
  std::set<std::string> names;
  for (const std::string& name : facts(code, architecture_of(device)).variables)
    if (!code.registered.contains(name)) names.insert(name);
  if (names.empty()) return {};
  const OnDevice on(device);
  if (!on.fine()) return context_ended(device);
  const bool is_library = code.kind == kind::cudaLibrary;
  const auto module = is_library ? Result<CUmodule>(nullptr) : module_of(code, device);
  if (!module) return module.error();
  if (!*module && !is_library) return {};
  for (const std::string& name : names) {
    CUdeviceptr address = 0;
    size_t size = 0;
    const CUresult r = is_library
                           ? CROPDL_DRIVER(cuLibraryGetGlobal)(
                                 &address, &size, reinterpret_cast<CUlibrary>(code.real), name.c_str())
                           : CROPDL_DRIVER(cuModuleGetGlobal_v2)(&address, &size, *module, name.c_str());
    if (r == CUDA_ERROR_NOT_FOUND) continue;  // no kernel uses it: the translation dropped it
    if (r != CUDA_SUCCESS) return variable_lost(name, device, r);
    if (size != 0)
      all->push_back({formatted("{} ({} #{})", name,
                                code.function.empty() ? "the program's code" : "code by " + code.function,
                                code.word & 0xff'ffff),
                      address, size, device});
  }
  return {};
}

}  // namespace

Error variable_lost(const std::string& name, int device, CUresult why) {
  const char* text = nullptr;
  CROPDL_DRIVER(cuGetErrorName)(why, &text);
  return Error{"CUDA: the variable {} of device {} cannot be found, and so not saved ({})", name, device,
               text ? text : "an unknown error"};
}

Error context_ended(int device) { return Error{"CUDA: device {} has no context any more", device}; }

bool means_no_code(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidSymbol:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidKernelImage:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilationDisabled:
    case cudaErrorSymbolNotFound:
      return true;
    default:
      return false;
  }
}

Result<std::vector<CodeVariable>> variables_of_code() {
  std::vector<CodeVariable> all;
  const std::vector<int> devices = used_devices();
  for (const Code& code : all_code())
    for (int device : devices)
      if (Status added = add_variables(code, device, &all); !added) return added.error();
  return all;
}

std::vector<uint64_t> code_with_variables() {
  std::vector<uint64_t> all;
  const std::vector<int> devices = used_devices();
  for (const Code& code : all_code()) {
    const bool has = std::any_of(devices.begin(), devices.end(), [&](int device) {
      const CodeFacts& its = facts(code, architecture_of(device));
      return !its.read || !its.variables.empty();
    });
    if (has || !code.registered.empty()) all.push_back(code.word);
  }
  return all;
}

uint64_t heaps_used_by(uint64_t word) {
  std::optional<Code> code;
  if (rt::real_word(word) == word) return 0;  // no object, or one that has ended
  {
    const handles::SpinGuard guard(rt::family_lock);
    code = code_of(static_cast<handles::Handle>(word));
  }
  if (!code || (code->image && first_use_of(word) == 0)) return 0;
  uint64_t devices = 0;
  for (int device : used_devices()) {
    if (code->kind == kind::cudaModule && code->device != device) continue;
    if (facts(*code, architecture_of(device)).allocates) devices |= uint64_t{1} << device;
  }
  auto& known = known_facts();  // not needed any more
  known.erase(known.lower_bound({code->serial, 0}), known.lower_bound({code->serial + 1, 0}));
  return devices;
}

uint64_t heaps_used_by_image(const void* image) {
  uint64_t devices = 0;
  for (int device : used_devices())
    if (facts_at(image, architecture_of(device), is_software()).allocates) devices |= uint64_t{1} << device;
  return devices;
}

void note_heaps(uint64_t devices, Maker m) {
  if (devices == 0) return;
  const std::lock_guard lock(left_heaps().mutex);
  if (left_heaps().devices == 0) left_heaps().function = m.library.names[m.function];
  left_heaps().devices |= devices;
}

void note_ended_image(const void* image) {
  const std::lock_guard lock(left_heaps().mutex);
  left_heaps().images.push_back(image);
}

void heap_has_ended(int device) {
  const std::lock_guard lock(left_heaps().mutex);
  left_heaps().devices &= ~(uint64_t{1} << device);
}

std::string code_refusal() {
  const std::vector<int> devices = used_devices();
  if (devices.empty()) return "";
  for (const void* image : take_ended_images())
    note_heaps(heaps_used_by_image(image), CROPDL_CUDART_MAKER(__cudaUnregisterFatBinary));
  if (const std::lock_guard lock(left_heaps().mutex); left_heaps().devices != 0)
    return left_heaps().function +
           std::string(
               ": kernels of unloaded code call malloc, whose memory outlives the code, and the "
               "device's heap cannot be saved yet");
  for (const Code& code : all_code()) {
    const bool registered = code.image != nullptr;
    // Registered code may have nothing for a device, and has no state on devices where it was never loaded.
    bool read = registered && first_use_of(code.word) == 0;
    for (int device : devices) {
      if (code.kind == kind::cudaModule && code.device != device) continue;
      const CodeFacts& its = facts(code, architecture_of(device));
      if (its.allocates)
        return (registered ? "kernels of the program call malloc"
                           : code.function + ": its kernels call malloc") +
               std::string(", and the device's heap cannot be saved yet");
      if (!its.read && !registered) return unreadable(code.function);
      read |= its.read;
    }
    if (!read && registered) return unreadable("the program");
  }
  return "";
}

}  // namespace cropdl::cuda
