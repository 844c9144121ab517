// See code_order.h. Sources: CUDA Programming Guide 13.0, "Lazy Loading" (code is loaded for a context when
// it is first used there); crt/host_runtime.h.
#include "interpose/cuda/lower/code_order.h"

#include <unordered_map>

#include "interpose/gen/driver/undeclared.h"
//
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/registration.h"
#include "interpose/one_abi/kinds.h"
#include "interpose/one_abi/state.h"

namespace rt = cropdl::one_abi;
namespace kind = rt::kind;
namespace cudart = cropdl::seam::cudart;

namespace cropdl::cuda {
namespace {

constexpr uint64_t kFirstUse = 0x6669'7273'7475'7365;  // what is kept; any number that no other is

struct Symbol {
  uint64_t code;  // the fat binary's word
  bool variable;
};

std::mutex& order() {
  static auto& m = *new std::mutex;
  return m;
}
std::unordered_map<uint64_t, Symbol>& symbols() {
  static auto& map = *new std::unordered_map<uint64_t, Symbol>;
  return map;
}
uint64_t symbols_of = 0;     // the newest object or record at that time; under order(), as the rest
uint64_t devices_with_code;  // a bit for each
bool any_use = false;        // in rt::used_code
bool starting = false;       // code is brought to the devices that the image says, and to no other

void forget_uses() {
  if (!any_use) return;
  any_use = false;
  for (uint64_t& word : rt::used_code) __atomic_store_n(&word, 0, __ATOMIC_RELAXED);
}

// As the recipes of its registration say.
void know_symbols() {
  symbols().clear();
  const handles::SpinGuard guard(rt::family_lock);
  symbols_of = rt::tables->newest();
  each_registered_symbol([](const RegisteredSymbol& one) {  // the first counts, as in the runtime
    symbols().try_emplace(reinterpret_cast<uint64_t>(one.host), Symbol{one.code, one.variable});
  });
}

const Symbol* symbol_of(uint64_t address) {
  if (!rt::tables) return nullptr;
  auto found = symbols().find(address);
  if (found == symbols().end() && symbols_of != rt::tables->newest()) {
    know_symbols();
    found = symbols().find(address);
  }
  return found == symbols().end() ? nullptr : &found->second;
}

// On the current device.
bool bring_symbol(uint64_t address, bool variable) {
  const auto* at = reinterpret_cast<const void*>(address);
  void* there = nullptr;
  cudaFunction_t function = nullptr;
  const cudaError_t r = variable ? CROPDL_CUDART(cudaGetSymbolAddress)(&there, at)
                                 : CROPDL_CUDART(cudaGetFuncBySymbol)(&function, at);
  if (r != cudaSuccess) CROPDL_CUDART(cudaGetLastError)();  // the program's call tells
  return r == cudaSuccess;
}

template <class Bring>
void on_devices(uint64_t mask, Bring bring) {
  for (int d = 0; mask >> d != 0; ++d) {
    if ((mask >> d & 1) == 0) continue;
    const OnDevice on(d);
    if (on.fine()) bring();
  }
}

uint64_t devices_for_code() {
  if (starting) return devices_of_image();
  uint64_t mask = 0;
  for (int d : used_devices()) mask |= uint64_t{1} << d;
  return mask;
}

// On the current device.
void bring(CUlibrary library) {
  CUmodule module = nullptr;
  CROPDL_DRIVER(cuLibraryGetModule)(&module, library);
}

// What came before comes to the devices that were not used then, in the same order.
void bring_to_new_devices() {
  const uint64_t now = devices_for_code(), added = now & ~devices_with_code;
  devices_with_code = now;
  if (!added || !rt::tables) return;
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
  on_devices(added, [&] {
    for (const Came& one : all)
      if (one.library)
        bring(reinterpret_cast<CUlibrary>(one.what));
      else
        bring_symbol(one.what, one.variable);
  });
}

void keep_first_use(uint64_t code, uint64_t symbol, bool variable) {
  rt::Key key;
  key.value(symbol);
  rt::RecipeWriter recipe;
  recipe.handle(code);
  recipe.value(symbol);
  recipe.value<uint8_t>(variable);
  rt::keep_first(code, kCudart, cudart::kFn___cudaInitModule, kFirstUse, key, recipe);
}

// The runtime would begin on the current device, in the call that follows.
void begin_on_current_device() {
  if (starting) return;
  const int device = rt::current_device();
  const bool begins = device < 0 ? !driver_begun() : !device_used(device);
  if (begins && CROPDL_CUDART(cudaFree)(nullptr) != cudaSuccess) CROPDL_CUDART(cudaGetLastError)();
}

void code_is_used(uint64_t word) {
  if (!rt::is_virtual(word)) begin_on_current_device();
  const CodeOrder in_order;
  if (!rt::is_virtual(word)) {
    const Symbol* symbol = symbol_of(word);
    bool there = false;
    if (symbol) on_devices(devices_with_code, [&] { there |= bring_symbol(word, symbol->variable); });
    if (!there) return;
    keep_first_use(symbol->code, word, symbol->variable);
  }
  any_use = true;
  __atomic_store_n(&rt::used_code_at(word), word, __ATOMIC_RELAXED);
}

uint64_t code_of_address(uint64_t address) {
  const std::lock_guard lock(order());
  const Symbol* symbol = symbol_of(address);
  return symbol ? symbol->code : 0;
}

void device_is_chosen() {
  const int device = rt::current_device();
  if (device < 0 || device >= static_cast<int>(rt::kMaxDevices)) return;
  const std::lock_guard lock(order());
  if ((devices_with_code >> device & 1) == 0) forget_uses();
}

struct Hooks {
  Hooks() {
    rt::device_is_chosen = device_is_chosen;
    rt::code_is_used = code_is_used;
    rt::code_of_address = code_of_address;
  }
} hooks;

}  // namespace

CodeOrder::CodeOrder() : lock_(order()) {
  if (opened(kDriver)) CROPDL_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode_);
  bring_to_new_devices();
}
CodeOrder::~CodeOrder() {
  if (mode_ != CU_STREAM_CAPTURE_MODE_RELAXED) CROPDL_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode_);
}

void bring_library(CUlibrary real) {
  on_devices(devices_for_code(), [&] { bring(real); });
}

void device_code_is_gone(int device) {
  const std::lock_guard lock(order());
  devices_with_code &= ~(uint64_t{1} << device);
  forget_uses();
}

void registered_code_went() {
  symbols().clear();
  symbols_of = 0;
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
  on_devices(devices_for_code(), [&] {
    if (symbol)
      bring_symbol(symbol, variable);
    else
      CROPDL_CUDART(__cudaInitModule)(code);
  });
  return 0;
}

}  // extern "C"
