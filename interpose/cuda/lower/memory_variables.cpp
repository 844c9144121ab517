// Variables of devices: the driver places them, so they are saved by their names. Those of the program's own
// code are all known by what it registered, others by reading the code (variables.h), and what the program
// asked for. An address that it was told must be the same after a restart: it may be anywhere by then.
// Sources: CUDA Runtime API 13.0, "Memory Management"; Driver API 13.0, "Module Management", "Library
// Management"; crt/host_runtime.h. LH, LH FS base; a thread of the program, MAIN or START.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>

#include "base/format.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/registration.h"
#include "interpose/cuda/lower/variables.h"
#include "interpose/handles/heap.h"
#include "interpose/handles/recipe.h"
#include "interpose/one_abi/kinds.h"
#include "interpose/one_abi/state.h"

namespace rt = cropdl::one_abi;
namespace cudart = cropdl::seam::cudart;
namespace driver = cropdl::seam::driver;
using namespace cropdl;
using namespace cropdl::cuda;

namespace {

struct Registered {
  const void* symbol;  // the host's variable
  std::string name;
};

// A managed variable lies where the driver puts it; the program's own code has its address in a slot, which
// the runtime fills when the code is loaded.
struct RegisteredManaged {
  uint64_t code;  // its handle
  void** slot;
  std::string name;
  size_t size;
};
constexpr uint64_t kManagedVariable = 0x6d76'6172;

std::vector<RegisteredManaged> registered_managed() {
  std::vector<RegisteredManaged> all;
  if (!rt::tables) return all;
  handles::SpinGuard guard(rt::family_lock);
  for (const handles::Handle h : rt::tables->all_in_order()) {
    const handles::Slot& slot = *rt::tables->slot(h);
    if (slot.state != handles::kLive || !slot.recipe ||
        slot.maker != rt::maker_of(kCudart, cudart::kFn___cudaRegisterManagedVar))
      continue;
    handles::RecipeReader from = rt::arguments_of(slot);
    RegisteredManaged one;
    one.code = from.value<uint64_t>();
    one.slot = from.value<void**>();
    (void)from.value<char*>();
    const auto* name = from.value<const char*>();
    (void)from.value<int>();
    one.size = from.value<size_t>();
    one.name = name ? name : "";
    all.push_back(std::move(one));
  }
  return all;
}

// Its code has been loaded, and it has a place.
bool has_place(const RegisteredManaged& one) {
  unsigned managed = 0;
  return *one.slot &&
         CROPDL_DRIVER(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                              reinterpret_cast<CUdeviceptr>(*one.slot)) == CUDA_SUCCESS &&
         managed != 0;
}

// What the program's code registered, as its recipes say.
std::vector<Registered> registered() {
  std::vector<Registered> all;
  if (!rt::tables) return all;
  handles::SpinGuard guard(rt::family_lock);
  each_registered_symbol([&](const RegisteredSymbol& one) {
    if (one.variable) all.push_back({one.host, one.name ? one.name : ""});
  });
  return all;
}

// The same in every run: the host's variable is the program's, and so is what it is called.
std::string name_of(const Registered& one) {
  char text[32];
  snprintf(text, sizeof text, " (0x%" PRIx64 ")", reinterpret_cast<uint64_t>(one.symbol));
  return one.name + text;
}

// That device is the calling thread's to the runtime as long as it lives: that of the context that is
// current. Its own choice stays, for to choose one anew would make that one's context.
using RuntimeOn = OnDevice;

bool find_registered(const Registered& one, int device, memory::Variable* found) {
  void* address = nullptr;
  size_t size = 0;
  rt::use_code(one.symbol);
  if (CROPDL_CUDART(cudaGetSymbolAddress)(&address, one.symbol) != cudaSuccess ||
      CROPDL_CUDART(cudaGetSymbolSize)(&size, one.symbol) != cudaSuccess) {
    CROPDL_CUDART(cudaGetLastError)();  // no code for this device has it: so no kernel has used it
    return false;
  }
  *found = {name_of(one), reinterpret_cast<CUdeviceptr>(address), size, device};
  return true;
}

// --- Of modules and libraries that the program loaded: noted when it asks.
const char* text_at(uint64_t address) { return reinterpret_cast<const char*>(address); }

bool find_taken(const TakenVariable& one, CUdeviceptr* address, size_t* size) {
  const OnDevice on(one.device);
  const uint64_t real = rt::real_word(one.symbol);
  switch (one.kind) {
    case TakenVariable::kSymbol: {
      const RuntimeOn runtime(one.device);
      void* at = nullptr;
      const auto* symbol = reinterpret_cast<const void*>(one.symbol);
      if (!runtime.fine() || CROPDL_CUDART(cudaGetSymbolAddress)(&at, symbol) != cudaSuccess ||
          CROPDL_CUDART(cudaGetSymbolSize)(size, symbol) != cudaSuccess)
        return false;
      *address = reinterpret_cast<CUdeviceptr>(at);
      return true;
    }
    case TakenVariable::kManaged:
      for (const RegisteredManaged& its : registered_managed()) {
        if (reinterpret_cast<uint64_t>(its.slot) != one.symbol) continue;
        const RuntimeOn runtime(one.device);
        CROPDL_CUDART(__cudaInitModule)(rt::handle_of<void**>(rt::real_word(its.code)));
        *address = reinterpret_cast<CUdeviceptr>(*its.slot);
        *size = its.size;
        return true;
      }
      return false;
    case TakenVariable::kOfModule:
      return CROPDL_DRIVER(cuModuleGetGlobal_v2)(address, size, rt::handle_of<CUmodule>(real),
                                                 text_at(one.name)) == CUDA_SUCCESS;
    default:
      return CROPDL_DRIVER(cuLibraryGetGlobal)(address, size, rt::handle_of<CUlibrary>(real),
                                               text_at(one.name)) == CUDA_SUCCESS;
  }
}

bool is_alive(const TakenVariable& one) {
  return one.kind == TakenVariable::kSymbol || one.kind == TakenVariable::kManaged ||
         (rt::tables && rt::tables->live(static_cast<handles::Handle>(one.symbol)));
}

std::string name_of(const TakenVariable& one) {
  char text[32];
  snprintf(text, sizeof text, " (0x%" PRIx64 ")", one.symbol);
  return (one.name ? std::string(text_at(one.name)) : std::string("a variable")) + text;
}

void note_taken(uint64_t symbol, TakenVariable::Kind kind, const char* name, CUdeviceptr address) {
  int device = 0;
  DeviceMemory* its = device_memory();
  if (!its || (kind != TakenVariable::kManaged && CROPDL_DRIVER(cuCtxGetDevice)(&device) != CUDA_SUCCESS))
    return;
  std::lock_guard lock(its->blocks.lock());
  bool known = false;
  its->state.variables.each([&](TakenVariable* one) {
    if (one->kind != kind || one->symbol != symbol || one->device != device ||
        (name && strcmp(text_at(one->name), name) != 0))
      return;
    one->address = address;
    known = true;
  });
  if (known) return;
  TakenVariable* made = its->state.variables.make();
  char* kept = name ? static_cast<char*>(handles::heap_allocate(strlen(name) + 1)) : nullptr;
  if (!made || (name && !kept)) return;
  if (name) strcpy(kept, name);
  made->symbol = symbol;
  made->kind = kind;
  made->name = reinterpret_cast<uint64_t>(kept);
  made->address = address;
  made->device = device;
}

CUresult taken(CUresult error, CUdeviceptr* address, uint64_t of, TakenVariable::Kind kind,
               const char* name) {
  if (error == CUDA_SUCCESS && address) note_taken(of, kind, name, *address);
  return error;
}

// The host's variables that this code has registered, and the slots of its managed ones.
std::set<uint64_t> symbols_of(uint64_t code) {
  std::set<uint64_t> all;
  for (const RegisteredManaged& one : registered_managed())
    if (one.code == code) all.insert(reinterpret_cast<uint64_t>(one.slot));
  handles::SpinGuard guard(rt::family_lock);
  each_registered_symbol([&](const RegisteredSymbol& one) {
    if (one.code == code && one.variable) all.insert(reinterpret_cast<uint64_t>(one.host));
  });
  return all;
}

}  // namespace

void cropdl::cuda::drop(MemoryState& state, TakenVariable* one) {
  handles::heap_free(reinterpret_cast<void*>(one->name));
  state.variables.drop(one);
}

void cropdl::cuda::forget_variables_of(uint64_t registered_code) {
  DeviceMemory* its = known_device_memory();
  if (!its || !rt::is_virtual(registered_code)) return;
  const std::set<uint64_t> symbols = symbols_of(registered_code);
  std::lock_guard lock(its->blocks.lock());
  its->state.variables.each([&](TakenVariable* one) {
    if (symbols.contains(one->symbol)) drop(its->state, one);
  });
}

void cropdl::cuda::forget_variables_of_unloaded_code() {
  DeviceMemory* its = known_device_memory();
  if (!its) return;
  std::lock_guard lock(its->blocks.lock());
  its->state.variables.each([&](TakenVariable* one) {
    if (!is_alive(*one)) drop(its->state, one);
  });
}

std::vector<memory::Variable> cropdl::cuda::registered_variables() {
  std::vector<memory::Variable> all;
  const std::vector<Registered> known = registered();
  for (int device = 0; !known.empty() && device < std::min(device_count(), memory::kDevices); ++device) {
    if (!device_used(device)) continue;
    const RuntimeOn on(device);
    memory::Variable found;
    for (const Registered& one : known)
      if (on.fine() && find_registered(one, device, &found)) all.push_back(found);
  }
  for (const RegisteredManaged& one : registered_managed())
    if (has_place(one))
      note_taken(reinterpret_cast<uint64_t>(one.slot), TakenVariable::kManaged, one.name.c_str(),
                 reinterpret_cast<CUdeviceptr>(*one.slot));
  if (DeviceMemory* its = known_device_memory())
    its->state.variables.each([&](TakenVariable* one) {
      if (one->kind == TakenVariable::kSymbol) return;  // registered, too
      CUdeviceptr address = 0;
      size_t size = 0;
      if (!is_alive(*one))
        drop(its->state, one);
      else if (find_taken(*one, &address, &size))
        all.push_back({name_of(*one), address, size, one->device});
    });
  for (const CodeVariable& v : variables_of_code()) {
    const bool known = std::any_of(all.begin(), all.end(), [&](const memory::Variable& other) {
      return other.address == v.address && other.device == v.device;
    });
    if (!known) all.push_back({v.name, v.address, v.size, v.device});
  }
  return all;
}

CUdeviceptr cropdl::cuda::find_variable(const std::string& name, int device, uint64_t size) {
  CUdeviceptr address = 0;
  size_t its_size = 0;
  for (const Registered& one : registered()) {
    if (name_of(one) != name) continue;
    const RuntimeOn on(device);
    memory::Variable found;
    if (!on.fine() || !find_registered(one, device, &found)) return 0;
    return found.size == size ? found.address : 0;
  }
  static const auto& of_code = *new std::vector<CodeVariable>(variables_of_code());
  for (const CodeVariable& v : of_code)
    if (v.name == name && v.device == device) return v.size == size ? v.address : 0;
  DeviceMemory* its = known_device_memory();
  its->state.variables.each([&](TakenVariable* one) {
    if (address == 0 && one->device == device && name_of(*one) == name &&
        find_taken(*one, &address, &its_size) && its_size != size)
      address = 0;
  });
  return address;
}

Status cropdl::cuda::compare_taken_variables() {
  DeviceMemory* its = known_device_memory();
  std::string other;
  its->state.variables.each([&](TakenVariable* one) {
    CUdeviceptr address = 0;
    size_t size = 0;
    if (is_alive(*one) && (!find_taken(*one, &address, &size) || address != one->address))
      other = name_of(*one);
  });
  if (other.empty()) return {};
  for (const Registered& one : registered())
    if (name_of(Registered{one.symbol, "a variable"}) == other) other = name_of(one);
  return Error{
      formatted("cannot restart: the program has the address of its device variable {}, which lies elsewhere "
                "in this process (cudaGetSymbolAddress, cuModuleGetGlobal)",
                other)};
}

extern "C" {

cudaError_t lower_cudaGetSymbolAddress(void** address, const void* symbol) {
  rt::Call call;
  rt::use_code(symbol);
  const cudaError_t error = CROPDL_CUDART(cudaGetSymbolAddress)(address, symbol);
  if (error == cudaSuccess && address)
    note_taken(reinterpret_cast<uint64_t>(symbol), TakenVariable::kSymbol, nullptr,
               reinterpret_cast<CUdeviceptr>(*address));
  return of_runtime(static_cast<CUresult>(error));
}
cudaError_t lower_cudaGetSymbolSize(size_t* size, const void* symbol) {
  rt::Call call;
  rt::use_code(symbol);
  return of_runtime(static_cast<CUresult>(CROPDL_CUDART(cudaGetSymbolSize)(size, symbol)));
}

int lower___cudaRegisterManagedVar(void** code, void** slot, char* address, const char* name, int external,
                                   size_t size, int constant, int global) {
  rt::Call call;
  CROPDL_CUDART(__cudaRegisterManagedVar)
  (rt::real(code, rt::kind::cudaFatBinary), slot, address, name, external, size, constant, global);
  rt::RecipeWriter recipe;
  recipe.handle(rt::word_of(code));
  recipe.value(slot);
  recipe.value(address);
  recipe.value(name);
  recipe.value(external);
  recipe.value(size);
  recipe.value(constant);
  recipe.value(global);
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

CUresult lower_cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* size, CUmodule module, const char* name) {
  rt::Call call;
  return taken(
      CROPDL_DRIVER(cuModuleGetGlobal_v2)(address, size, rt::real(module, rt::kind::cudaModule), name),
      address, rt::word_of(module), TakenVariable::kOfModule, name);
}
CUresult lower_cuLibraryGetGlobal(CUdeviceptr* address, size_t* size, CUlibrary library, const char* name) {
  rt::Call call;
  return taken(
      CROPDL_DRIVER(cuLibraryGetGlobal)(address, size, rt::real(library, rt::kind::cudaLibrary), name),
      address, rt::word_of(library), TakenVariable::kOfLibrary, name);
}
cudaError_t lower_cudaLibraryGetGlobal(void** address, size_t* size, cudaLibrary_t library,
                                       const char* name) {
  rt::Call call;
  CUdeviceptr at = 0;
  const auto error = static_cast<CUresult>(
      CROPDL_CUDART(cudaLibraryGetGlobal)(address, size, rt::real(library, rt::kind::cudaLibrary), name));
  if (error == CUDA_SUCCESS && address) at = reinterpret_cast<CUdeviceptr>(*address);
  return of_runtime(
      taken(error, address ? &at : nullptr, rt::word_of(library), TakenVariable::kOfLibrary, name));
}
CUresult lower_cuLibraryGetManaged(CUdeviceptr* address, size_t* size, CUlibrary library, const char* name) {
  rt::Call call;
  rt::mark_unsaved(kDriver, driver::kFn_cuLibraryGetManaged,
                   "the library has managed variables (__managed__)");
  return CROPDL_DRIVER(cuLibraryGetManaged)(address, size, rt::real(library, rt::kind::cudaLibrary), name);
}
cudaError_t lower_cudaLibraryGetManaged(void** address, size_t* size, cudaLibrary_t library,
                                        const char* name) {
  rt::Call call;
  rt::mark_unsaved(kCudart, cudart::kFn_cudaLibraryGetManaged,
                   "the library has managed variables (__managed__)");
  return of_runtime(static_cast<CUresult>(
      CROPDL_CUDART(cudaLibraryGetManaged)(address, size, rt::real(library, rt::kind::cudaLibrary), name)));
}

}  // extern "C"
