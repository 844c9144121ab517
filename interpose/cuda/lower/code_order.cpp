// See code_order.h. Sources: CUDA Programming Guide 13.0, "Lazy Loading" (code is loaded for a context at its
// first use there); crt/host_runtime.h.
#include "interpose/cuda/lower/code_order.h"

#include <atomic>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/registration.h"
#include "interpose/cuda/lower/saved_devices.h"
#include "interpose/handles/heap.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {
namespace {

constexpr uint64_t kFirstUse = 0x6669'7273'7475'7365;  // kind of state: any number that no other has

struct Symbol {
  uint64_t code;  // handle of the fat binary
  bool variable;
};

std::mutex order_mutex;  // held while code is loaded on devices, which may take long and wait for kernels
// What is known of code. Never held during a call of a library.
struct KnownCode {
  std::mutex mutex;
  std::unordered_map<uint64_t, Symbol> symbols;
  uint64_t symbols_of = 0;            // the newest object or record at that time
  std::unordered_set<uint64_t> used;  // all of rt::used_code, and entries displaced there
  std::atomic<uint64_t> times_forgotten{0};
};
KnownCode& known_code() {
  static auto& its = *new KnownCode;
  return its;
}
std::atomic<uint64_t> devices_with_code{0};  // a bit per device that has all code; changed under order_mutex
// In a restart, code is loaded only on the devices that the image names. The hooks below read this.
bool starting = false;

void forget_uses() {
  const std::lock_guard lock(known_code().mutex);
  ++known_code().times_forgotten;
  if (known_code().used.empty()) return;
  known_code().used.clear();
  for (uint64_t& word : rt::used_code) __atomic_store_n(&word, 0, __ATOMIC_RELAXED);
}
// `at`: times_forgotten before the code was loaded on all used devices.
void note_use(uint64_t word, uint64_t at) {
  const std::lock_guard lock(known_code().mutex);
  if (at != known_code().times_forgotten) return;
  known_code().used.insert(word);
  __atomic_store_n(&rt::used_code_at(word), word, __ATOMIC_RELAXED);
}
// Whether the code was in rt::used_code, and another one replaced it there.
bool was_displaced(uint64_t word) {
  const std::lock_guard lock(known_code().mutex);
  if (!known_code().used.contains(word)) return false;
  __atomic_store_n(&rt::used_code_at(word), word, __ATOMIC_RELAXED);
  return true;
}

// Reads the recipes of the registrations. Under known().mutex.
void know_symbols() {
  known_code().symbols.clear();
  const handles::SpinGuard guard(rt::family_lock);
  known_code().symbols_of = rt::tables->newest();
  // The first registration counts, as in the runtime.
  each_registered_symbol([](const RegisteredSymbol& one) {
    if (one.kind != RegisteredSymbol::kManaged)
      known_code().symbols.try_emplace(one.word(), Symbol{one.code, one.kind == RegisteredSymbol::kVariable});
  });
}

std::optional<Symbol> symbol_of(uint64_t address) {
  if (!rt::tables) return std::nullopt;
  const std::lock_guard lock(known_code().mutex);
  auto found = known_code().symbols.find(address);
  if (found == known_code().symbols.end() && known_code().symbols_of != rt::tables->newest()) {
    know_symbols();
    found = known_code().symbols.find(address);
  }
  return found == known_code().symbols.end() ? std::nullopt : std::optional(found->second);
}

// The code has nothing for the device, or is invalid: the same error as at the code's first use.
bool is_of_code(int64_t error) {
  switch (error) {
    case cudaErrorInvalidSymbol:
    case cudaErrorInvalidDeviceFunction:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
    case CUDA_ERROR_NOT_FOUND:
      return true;
    default:
      return false;
  }
}

// On the current device.
cudaError_t bring_symbol(uint64_t address, bool variable) {
  const auto* at = reinterpret_cast<const void*>(address);
  void* there = nullptr;
  cudaFunction_t function = nullptr;
  const cudaError_t r = variable ? CROPDL_CUDART(cudaGetSymbolAddress)(&there, at)
                                 : CROPDL_CUDART(cudaGetFuncBySymbol)(&function, at);
  if (r != cudaSuccess) CROPDL_CUDART(cudaGetLastError)();  // the program's own call reports the error
  return r;
}

// 0, or the first error of a device that is not the code's own.
template <class Bring>
int64_t on_devices(uint64_t mask, Bring bring) {
  int64_t error = 0;
  for (int d = 0; mask >> d != 0; ++d) {
    if ((mask >> d & 1) == 0) continue;
    const OnDevice on(d);
    int64_t its = CUDA_ERROR_INVALID_CONTEXT;
    if (on.fine()) its = bring();
    if (error == 0 && !is_of_code(its)) error = its;
  }
  return error;
}

uint64_t devices_for_code() {
  if (starting) return devices_of_image();
  uint64_t mask = 0;
  for (int d : used_devices()) mask |= uint64_t{1} << d;
  return mask;
}

// On the current device.
CUresult bring(CUlibrary library) {
  CUmodule module = nullptr;
  return CROPDL_DRIVER(cuLibraryGetModule)(&module, library);
}

// When each device began, in the order of all objects; in the persistent heap. Null: none recorded.
uint64_t* beginnings() { return reinterpret_cast<uint64_t*>(rt::family->members[rt::kMemberCode]); }
void note_beginning(uint64_t devices) {
  const handles::SpinGuard guard(rt::family_lock);
  uint64_t& its = rt::family->members[rt::kMemberCode];
  if (!its) its = reinterpret_cast<uint64_t>(handles::heap_allocate(rt::kMaxDevices * sizeof(uint64_t)));
  if (!its) rt::family_failed = true;  // no checkpoints
  for (uint32_t d = 0; its && d < rt::kMaxDevices; ++d)
    if ((devices >> d & 1) != 0) beginnings()[d] = rt::tables->next_serial();
}

// Loads all earlier, still existing code on the devices that have come into use since, in the same order.
void bring_to_new_devices() {
  const uint64_t now = devices_for_code(), added = now & ~devices_with_code;
  if (!added || !rt::tables) {
    devices_with_code = now;
    return;
  }
  struct Came {
    bool library, variable;
    uint64_t what;
  };
  std::vector<Came> all;
  {
    const handles::SpinGuard guard(rt::family_lock);
    for (const handles::Handle h : rt::tables->all_in_order()) {
      const handles::Slot& slot = *rt::tables->slot(h);
      if (handles::kind_of(h) == kind::cudaLibrary && slot.state == handles::kLive)
        all.push_back({true, false, slot.owner[0]});
      if (handles::kind_of(h) != rt::kStateRecord || slot.owner[1] != kFirstUse || !slot.recipe) continue;
      handles::RecipeReader from = rt::arguments_of(slot);
      (void)from.value<uint64_t>();  // the fat binary
      const auto symbol = from.value<uint64_t>();
      if (symbol) all.push_back({false, from.value<uint8_t>() != 0, symbol});
    }
  }
  note_beginning(added);
  on_devices(added, [&] {
    for (const Came& one : all)
      if (one.library)
        bring(reinterpret_cast<CUlibrary>(one.what));
      else
        bring_symbol(one.what, one.variable);
    return 0;
  });
  devices_with_code = now;
}

void keep_first_use(uint64_t code, uint64_t symbol, bool variable) {
  rt::Key key;
  key.value(symbol);
  rt::RecipeWriter recipe;
  recipe.handle(code);
  recipe.value(symbol);
  recipe.value<uint8_t>(variable);
  rt::keep_state(code, kCudart, cudart::kFn___cudaInitModule, kFirstUse, key, recipe, 0, true);
}

// Starts the runtime on the current device, as the following call would.
void begin_on_current_device() {
  if (starting) return;
  const int device = rt::current_device();
  const bool begins = device < 0 ? !driver_begun() : !device_used(device);
  if (begins && CROPDL_CUDART(cudaFree)(nullptr) != cudaSuccess) CROPDL_CUDART(cudaGetLastError)();
}

void code_is_used(uint64_t word) {
  if (was_displaced(word)) return;
  if (!rt::is_virtual(word)) begin_on_current_device();
  const uint64_t forgotten = known_code().times_forgotten;
  const CodeOrder in_order;
  if (!rt::is_virtual(word)) {
    const auto symbol = symbol_of(word);
    bool there = false;
    if (symbol)
      on_devices(devices_with_code, [&] {
        const cudaError_t r = bring_symbol(word, symbol->variable);
        there |= r == cudaSuccess;
        return r;
      });
    if (!there) return;
    keep_first_use(symbol->code, word, symbol->variable);
  }
  note_use(word, forgotten);
}

uint64_t code_of_address(uint64_t address) {
  const auto symbol = symbol_of(address);
  return symbol ? symbol->code : 0;
}

void device_is_chosen() {
  const int device = rt::current_device();
  if (!has_number(device)) return;
  if ((devices_with_code >> device & 1) == 0) forget_uses();
}

struct CodeHooks {
  CodeHooks() {
    rt::device_is_chosen = device_is_chosen;
    rt::code_is_used = code_is_used;
    rt::code_of_address = code_of_address;
  }
} code_hooks;

}  // namespace

CodeOrder::CodeOrder() : lock_(order_mutex) {
  if (opened(kDriver)) CROPDL_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode_);
  bring_to_new_devices();
}
CodeOrder::~CodeOrder() {
  if (mode_ != CU_STREAM_CAPTURE_MODE_RELAXED) CROPDL_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode_);
}

int64_t bring_library(CUlibrary real, uint64_t ended) {
  uint64_t devices = devices_for_code();
  for (uint32_t d = 0; rt::family && beginnings() && d < rt::kMaxDevices; ++d)
    if (beginnings()[d] > ended) devices &= ~(uint64_t{1} << d);
  return on_devices(devices, [&] { return bring(real); });
}

void device_code_is_gone(int device) {
  const std::lock_guard lock(order_mutex);
  devices_with_code &= ~(uint64_t{1} << device);
  forget_uses();
  for (const rt::Lingering& one : rt::lingering())  // code loaded from now on is not placed after it
    if (handles::kind_of(one.handle) == kind::cudaModule &&
        rt::device_of(*rt::tables->slot(one.handle)) == device)
      rt::stop_lingering(one.handle);
}

void registered_code_went() {
  {
    const std::lock_guard lock(known_code().mutex);
    known_code().symbols.clear();
    known_code().symbols_of = 0;
  }
  forget_uses();
}

uint64_t first_use_of(uint64_t code) {
  uint64_t first = 0;
  if (!rt::tables) return first;
  const handles::SpinGuard guard(rt::family_lock);
  const handles::Slot* its = rt::slot_of(code);
  for (uint64_t at = its ? its->owner[1] : 0; at;) {
    const handles::Slot& record = *rt::tables->slot(static_cast<handles::Handle>(at));
    if (record.owner[1] == kFirstUse && (first == 0 || record.serial < first)) first = record.serial;
    at = record.owner[0];
  }
  return first;
}

void begin_code_again() {
  starting = true;
  devices_with_code = devices_for_code();
}
void end_code_again() { starting = false; }

}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

char lower___cudaInitModule(void** code) {
  rt::Call call;
  const CodeOrder in_order;
  const char r = CROPDL_CUDART(__cudaInitModule)(rt::real(code, kind::cudaFatBinary));
  keep_first_use(rt::word_of(code), 0, false);
  return r;
}
int64_t again___cudaInitModule(rt::Again& from) {
  const auto code = rt::handle_of<void**>(from.handle());
  const auto symbol = from.value<uint64_t>();
  const bool variable = from.value<uint8_t>() != 0;
  return on_devices(devices_for_code(), [&] {
    if (symbol) return bring_symbol(symbol, variable);
    CROPDL_CUDART(__cudaInitModule)(code);
    return cudaSuccess;
  });
}

}  // extern "C"
