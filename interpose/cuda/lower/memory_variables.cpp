// Device variables. The driver places them, so they are saved by name. Those of the program's own code are
// known from its registrations, others from the code (variables.h) and from the program's queries. An address
// that the program has got must be the same after a restart: the program may have stored it anywhere.
// Sources: CUDA Runtime API 13.0, "Memory Management"; Driver API 13.0, "Module Management", "Library
// Management"; crt/host_runtime.h. LH, LH FS base; a thread of the program, MAIN or START.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "base/format.h"
#include "base/say.h"
#include "gpu_state/memory/steering.h"
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
  const void* symbol;  // the host variable
  std::string name;
};

// The driver places a managed variable. The program's own code has its address in a slot, which the runtime
// fills when it loads the code.
struct RegisteredManaged {
  uint64_t code;  // handle
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

// Whether its code has been loaded and the variable has an address.
bool has_place(const RegisteredManaged& one) {
  unsigned managed = 0;
  return *one.slot &&
         CROPDL_DRIVER(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                              reinterpret_cast<CUdeviceptr>(*one.slot)) == CUDA_SUCCESS &&
         managed != 0;
}

// Variables that the program's code registered, from the recipes.
std::vector<Registered> registered() {
  std::vector<Registered> all;
  if (!rt::tables) return all;
  handles::SpinGuard guard(rt::family_lock);
  each_registered_symbol([&](const RegisteredSymbol& one) {
    if (one.variable) all.push_back({one.host, one.name ? one.name : ""});
  });
  return all;
}

// The same in every run: the host variable's address and the name belong to the program.
std::string name_of(const Registered& one) {
  return formatted("{} ({:#x})", one.name, reinterpret_cast<uint64_t>(one.symbol));
}

// For the runtime, too, the device is that of the current context (OnDevice).
cudaError_t find_symbol(const void* symbol, CUdeviceptr* address, size_t* size) {
  void* at = nullptr;
  cudaError_t error = CROPDL_CUDART(cudaGetSymbolAddress)(&at, symbol);
  if (error == cudaSuccess) error = CROPDL_CUDART(cudaGetSymbolSize)(size, symbol);
  // The thread's last error belongs to the program.
  if (error != cudaSuccess) CROPDL_CUDART(cudaGetLastError)();
  *address = reinterpret_cast<CUdeviceptr>(at);
  return error;
}

// --- Variables of modules and libraries that the program loaded: recorded when it asks for them.
const char* text_at(uint64_t address) { return reinterpret_cast<const char*>(address); }

using ManagedBySlot = std::map<uint64_t, RegisteredManaged>;

ManagedBySlot managed_by_slot() {
  ManagedBySlot all;
  for (RegisteredManaged& one : registered_managed())
    all.emplace(reinterpret_cast<uint64_t>(one.slot), std::move(one));
  return all;
}

CUresult find_taken(const TakenVariable& one, const ManagedBySlot& managed, CUdeviceptr* address,
                    size_t* size) {
  const OnDevice on(one.device);
  if (!on.fine()) return CUDA_ERROR_INVALID_CONTEXT;
  const uint64_t real = rt::real_word(one.symbol);
  switch (one.kind) {
    case TakenVariable::kSymbol:
      return static_cast<CUresult>(find_symbol(reinterpret_cast<const void*>(one.symbol), address, size));
    case TakenVariable::kManaged: {
      const auto its = managed.find(one.symbol);
      if (its == managed.end()) return CUDA_ERROR_NOT_FOUND;
      CROPDL_CUDART(__cudaInitModule)(rt::handle_of<void**>(rt::real_word(its->second.code)));
      *address = reinterpret_cast<CUdeviceptr>(*its->second.slot);
      *size = its->second.size;
      return CUDA_SUCCESS;
    }
    case TakenVariable::kOfModule:
      return CROPDL_DRIVER(cuModuleGetGlobal_v2)(address, size, rt::handle_of<CUmodule>(real),
                                                 text_at(one.name));
    default:
      return CROPDL_DRIVER(cuLibraryGetGlobal)(address, size, rt::handle_of<CUlibrary>(real),
                                               text_at(one.name));
  }
}

bool is_alive(const TakenVariable& one) {
  return one.kind == TakenVariable::kSymbol || one.kind == TakenVariable::kManaged ||
         (rt::tables && rt::tables->live(static_cast<handles::Handle>(one.symbol)));
}

std::string name_of(const TakenVariable& one) {
  return formatted("{} ({:#x})", one.name ? text_at(one.name) : "a variable", one.symbol);
}

// False: no memory for the record.
bool note_taken(uint64_t symbol, TakenVariable::Kind kind, const char* name, CUdeviceptr address,
                int device) {
  DeviceMemory* its = device_memory();
  if (!its) return false;
  std::lock_guard lock(its->blocks.lock());
  bool known = false;
  its->state.variables.each([&](TakenVariable* one) {
    // A managed variable is one for all devices, and is recorded for the device on which it was first found.
    if (one->kind != kind || one->symbol != symbol ||
        (one->device != device && kind != TakenVariable::kManaged) ||
        (name && strcmp(text_at(one->name), name) != 0))
      return;
    one->address = address;
    known = true;
  });
  if (known) return true;
  char* kept = name ? static_cast<char*>(handles::heap_allocate(strlen(name) + 1)) : nullptr;
  TakenVariable* made = !name || kept ? its->state.variables.make() : nullptr;
  if (!made) return false;
  if (name) strcpy(kept, name);
  made->symbol = symbol;
  made->kind = kind;
  made->name = reinterpret_cast<uint64_t>(kept);
  made->address = address;
  made->device = device;
  return true;
}

// Records that the program has got this address.
void note_told(uint64_t symbol, TakenVariable::Kind kind, const char* name, CUdeviceptr address) {
  int device = 0;
  if (CROPDL_DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS &&
      note_taken(symbol, kind, name, address, device))
    return;
  const char why[] = "there is no room to note the address of a variable";
  if (kind == TakenVariable::kSymbol)
    rt::mark_unsaved(kCudart, cudart::kFn_cudaGetSymbolAddress, why);
  else
    rt::mark_unsaved(
        kDriver,
        kind == TakenVariable::kOfModule ? driver::kFn_cuModuleGetGlobal_v2 : driver::kFn_cuLibraryGetGlobal,
        why);
}

CUresult taken(CUresult error, CUdeviceptr* address, uint64_t of, TakenVariable::Kind kind,
               const char* name) {
  if (error == CUDA_SUCCESS && address) note_told(of, kind, name, *address);
  return error;
}

// The host variables that this code has registered, and the slots of its managed variables.
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

Result<std::vector<memory::Variable>> cropdl::cuda::registered_variables() {
  std::vector<memory::Variable> all;
  DeviceMemory* its = known_device_memory();
  const std::vector<int> devices = used_devices();
  const std::vector<Registered> known = registered();
  for (int device : devices) {
    if (known.empty()) break;
    const OnDevice on(device);
    if (!on.fine()) return context_ended(device);
    for (const Registered& one : known) {
      memory::Variable found{name_of(one), 0, 0, device};
      rt::use_code(one.symbol);
      const cudaError_t error = find_symbol(one.symbol, &found.address, &found.size);
      if (error == cudaSuccess)
        all.push_back(std::move(found));
      else if (!means_no_code(error))
        return variable_lost(found.name, device, static_cast<CUresult>(error));
    }
  }
  const ManagedBySlot managed = managed_by_slot();
  for (const auto& [slot, one] : managed)
    if (!devices.empty() && has_place(one) &&
        !note_taken(slot, TakenVariable::kManaged, one.name.c_str(), reinterpret_cast<CUdeviceptr>(*one.slot),
                    devices.front()))
      return Error{"CUDA: there is no room to note the devices' variables"};
  Status trouble;
  if (its)
    its->state.variables.each([&](TakenVariable* one) {
      if (one->kind == TakenVariable::kSymbol) return;  // also in registered()
      if (!is_alive(*one)) return drop(its->state, one);
      memory::Variable found{name_of(*one), 0, 0, one->device};
      if (const CUresult error = find_taken(*one, managed, &found.address, &found.size))
        trouble = variable_lost(found.name, one->device, error);
      else
        all.push_back(std::move(found));
    });
  if (!trouble) return trouble.error();
  auto of_code = variables_of_code();
  if (!of_code) return of_code.error();
  std::set<std::pair<int, CUdeviceptr>> there;
  for (const memory::Variable& one : all) there.emplace(one.device, one.address);
  for (CodeVariable& v : *of_code)
    if (!there.contains({v.device, v.address}))
      all.push_back({std::move(v.name), v.address, v.size, v.device});
  return all;
}

// Variables are in the driver's first reservation. If that could not be placed, their addresses differ after
// a restart, which works only if the program keeps none of them.
Status cropdl::cuda::addresses_may_come_again(const std::vector<memory::Variable>& variables) {
  if (variables.empty() || memory::first_reservation_is_placed()) return {};
  Status kept;
  known_device_memory()->state.variables.each([&](const TakenVariable* taken) {
    for (const memory::Variable& one : variables)
      if (one.address == taken->address && one.device == taken->device)
        kept =
            Error{formatted("CUDA: the driver put its addresses where it wanted to, and the program has that "
                            "of the variable {}, "
                            "which cannot be had again by a restart",
                            one.name)};
  });
  static bool said = false;
  if (!kept || said) return kept;
  said = true;
  say(formatted(
      "cropdl: the driver put its addresses where it wanted to: a restart will find the variable {} of "
      "device {} elsewhere, and needs --moved-variables=accept",
      variables.front().name, variables.front().device));
  return kept;
}

// All variables that may be asked for, by name and device, as a restart looks up each of them once.
cropdl::cuda::VariablesHere::VariablesHere() {
  for (const Registered& one : registered()) symbols_.emplace(name_of(one), one.symbol);
  if (auto all = variables_of_code())
    for (CodeVariable& v : *all) found_.try_emplace({v.device, std::move(v.name)}, Found{v.address, v.size});
  const ManagedBySlot managed = managed_by_slot();
  known_device_memory()->state.variables.each([&](const TakenVariable* one) {
    Found found{};
    if (one->kind != TakenVariable::kSymbol && is_alive(*one) &&
        find_taken(*one, managed, &found.address, &found.size) == CUDA_SUCCESS)
      found_.try_emplace({one->device, name_of(*one)}, found);
  });
}

CUdeviceptr cropdl::cuda::VariablesHere::find(const std::string& name, int device, uint64_t size) const {
  Found found{};
  const auto symbol = symbols_.find(name);
  if (symbol == symbols_.end()) {
    const auto known = found_.find({device, name});
    if (known != found_.end()) found = known->second;
  } else {
    const OnDevice on(device);
    rt::use_code(symbol->second);
    if (!on.fine() || find_symbol(symbol->second, &found.address, &found.size) != cudaSuccess) return 0;
  }
  return found.size == size ? found.address : 0;
}

Status cropdl::cuda::compare_taken_variables() {
  DeviceMemory* its = known_device_memory();
  const ManagedBySlot managed = managed_by_slot();
  std::string other;
  its->state.variables.each([&](TakenVariable* one) {
    CUdeviceptr address = 0;
    size_t size = 0;
    if (is_alive(*one) &&
        (find_taken(*one, managed, &address, &size) != CUDA_SUCCESS || address != one->address))
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
    note_told(reinterpret_cast<uint64_t>(symbol), TakenVariable::kSymbol, nullptr,
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
  const CUresult r =
      CROPDL_DRIVER(cuLibraryGetManaged)(address, size, rt::real(library, rt::kind::cudaLibrary), name);
  if (r == CUDA_SUCCESS)
    rt::mark_unsaved(kDriver, driver::kFn_cuLibraryGetManaged,
                     "the library has managed variables (__managed__)");
  return r;
}
cudaError_t lower_cudaLibraryGetManaged(void** address, size_t* size, cudaLibrary_t library,
                                        const char* name) {
  rt::Call call;
  const cudaError_t r = of_runtime(static_cast<CUresult>(
      CROPDL_CUDART(cudaLibraryGetManaged)(address, size, rt::real(library, rt::kind::cudaLibrary), name)));
  if (r == cudaSuccess)
    rt::mark_unsaved(kCudart, cudart::kFn_cudaLibraryGetManaged,
                     "the library has managed variables (__managed__)");
  return r;
}

}  // extern "C"
