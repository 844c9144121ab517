// See taken_variables.h. Sources: CUDA Runtime API 13.0, "Memory Management"; Driver API 13.0, "Module
// Management", "Library Management"; crt/host_runtime.h.
#include "interpose/cuda/lower/taken_variables.h"

#include <cstring>
#include <set>

#include "base/format.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/kept.h"

namespace cropdl::cuda {
namespace {

const char* text_at(uint64_t address) { return reinterpret_cast<const char*>(address); }

Maker maker_of(TakenVariable::Kind kind) {
  if (kind == TakenVariable::kSymbol) return CROPDL_CUDART_MAKER(cudaGetSymbolAddress);
  return kind == TakenVariable::kOfModule ? CROPDL_DRIVER_MAKER(cuModuleGetGlobal_v2)
                                          : CROPDL_DRIVER_MAKER(cuLibraryGetGlobal);
}

// Records that the program has got this address.
void note_told(uint64_t symbol, TakenVariable::Kind kind, const char* name, CUdeviceptr address) {
  int device = 0;
  if (CROPDL_DRIVER(cuCtxGetDevice)(&device) == CUDA_SUCCESS &&
      note_taken(symbol, kind, name, address, device))
    return;
  const Maker m = maker_of(kind);
  rt::mark_unsaved(m.library, m.function, "there is no room to note the address of a variable");
}

template <class F, class Address, class H>
auto get_global(RealFunction<F> find, Address* address, size_t* size, H of, const char* name) {
  rt::Call call;
  const bool is_module = std::is_same_v<H, CUmodule>;
  const auto error =
      find(address, size, rt::real(of, is_module ? kind::cudaModule : kind::cudaLibrary), name);
  if (static_cast<int>(error) == 0 && address)
    note_told(rt::word_of(of), is_module ? TakenVariable::kOfModule : TakenVariable::kOfLibrary, name,
              rt::word_of(*address));
  return error;
}

template <class F, class Address>
auto get_managed(RealFunction<F> find, Address* address, size_t* size, CUlibrary library, const char* name) {
  rt::Call call;
  const auto error = find(address, size, rt::real(library, kind::cudaLibrary), name);
  if (static_cast<int>(error) == 0)
    rt::mark_unsaved(find.library, find.function, "the library has managed variables (__managed__)");
  return error;
}

// The host variables that this code has registered, and the slots of its managed variables.
std::set<uint64_t> symbols_of(uint64_t code) {
  std::set<uint64_t> all;
  handles::SpinGuard guard(rt::family_lock);
  each_registered_symbol([&](const RegisteredSymbol& one) {
    if (one.code == code && one.kind != RegisteredSymbol::kKernel) all.insert(one.word());
  });
  return all;
}

}  // namespace

cudaError_t find_symbol(const void* symbol, CUdeviceptr* address, size_t* size) {
  void* at = nullptr;
  cudaError_t error = CROPDL_CUDART(cudaGetSymbolAddress)(&at, symbol);
  if (error == cudaSuccess) error = CROPDL_CUDART(cudaGetSymbolSize)(size, symbol);
  // The thread's last error belongs to the program.
  if (error != cudaSuccess) CROPDL_CUDART(cudaGetLastError)();
  *address = reinterpret_cast<CUdeviceptr>(at);
  return error;
}

std::string variable_name(const char* name, uint64_t symbol) { return formatted("{} ({:#x})", name, symbol); }

std::string name_of(const TakenVariable& one) {
  return variable_name(one.name ? text_at(one.name) : "a variable", one.symbol);
}

bool is_alive(const TakenVariable& one) {
  return one.kind == TakenVariable::kSymbol || one.kind == TakenVariable::kManaged ||
         (rt::tables && rt::tables->live(static_cast<handles::Handle>(one.symbol)));
}

ManagedBySlot managed_by_slot() {
  ManagedBySlot all;
  for (const RegisteredSymbol& one : registered_symbols(RegisteredSymbol::kManaged))
    all.emplace(one.word(), one);
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
      *address = its->second.managed_address();
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
  const char* kept = name ? heap_text(name) : nullptr;
  TakenVariable* made = !name || kept ? its->state.variables.make() : nullptr;
  if (!made) return false;
  made->symbol = symbol;
  made->kind = kind;
  made->name = reinterpret_cast<uint64_t>(kept);
  made->address = address;
  made->device = device;
  return true;
}

void forget_variables_of(uint64_t registered_code) {
  DeviceMemory* its = known_device_memory();
  if (!its || !rt::is_virtual(registered_code)) return;
  const std::set<uint64_t> symbols = symbols_of(registered_code);
  std::lock_guard lock(its->blocks.lock());
  its->state.variables.each([&](TakenVariable* one) {
    if (symbols.contains(one->symbol)) its->state.drop(one);
  });
}

void forget_variables_of_unloaded_code() {
  DeviceMemory* its = known_device_memory();
  if (!its) return;
  std::lock_guard lock(its->blocks.lock());
  its->state.variables.each([&](TakenVariable* one) {
    if (!is_alive(*one)) its->state.drop(one);
  });
}

Status compare_taken_variables() {
  const ManagedBySlot managed = managed_by_slot();
  const TakenVariable* other = nullptr;
  known_device_memory()->state.variables.each([&](const TakenVariable* one) {
    CUdeviceptr address = 0;
    size_t size = 0;
    if (is_alive(*one) &&
        (find_taken(*one, managed, &address, &size) != CUDA_SUCCESS || address != one->address))
      other = one;
  });
  if (!other) return {};
  std::string name = name_of(*other);
  for (const RegisteredSymbol& one : registered_symbols(RegisteredSymbol::kVariable))
    if (!other->name && one.word() == other->symbol)
      name = variable_name(one.name ? one.name : "", one.word());
  return Error{
      "cannot restart: the program has the address of its device variable {}, which lies elsewhere "
      "in this process (cudaGetSymbolAddress, cuModuleGetGlobal)",
      name};
}

}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

cudaError_t lower_cudaGetSymbolAddress(void** address, const void* symbol) {
  rt::Call call;
  rt::use_code(symbol);
  const cudaError_t error = CROPDL_CUDART(cudaGetSymbolAddress)(address, symbol);
  if (error == cudaSuccess && address)
    note_told(reinterpret_cast<uint64_t>(symbol), TakenVariable::kSymbol, nullptr,
              reinterpret_cast<CUdeviceptr>(*address));
  return error;
}
cudaError_t lower_cudaGetSymbolSize(size_t* size, const void* symbol) {
  rt::Call call;
  rt::use_code(symbol);
  return CROPDL_CUDART(cudaGetSymbolSize)(size, symbol);
}

CROPDL_CALLS(get_global)
CROPDL_CALLS(get_managed)

}  // extern "C"
