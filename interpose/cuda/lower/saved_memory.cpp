#include "interpose/cuda/lower/saved_memory.h"

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/format.h"
#include "base/say.h"
#include "gpu_state/memory/steering.h"
#include "interpose/cuda/lower/contexts.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/taken_variables.h"
#include "interpose/cuda/lower/variables.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {
namespace {

// --- Device variables. The driver places them, so they are saved by name. Those of the program's own code
// are known from its registrations, others from the code (variables.h) and from the program's queries
// (taken_variables.h).

// Whether its code has been loaded and the managed variable has an address.
bool has_place(const RegisteredSymbol& one) {
  unsigned managed = 0;
  return one.managed_address() &&
         CROPDL_DRIVER(cuPointerGetAttribute)(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                              one.managed_address()) == CUDA_SUCCESS &&
         managed != 0;
}

std::string name_of(const RegisteredSymbol& one) {
  return variable_name(one.name ? one.name : "", one.word());
}

Result<std::vector<memory::Variable>> registered_variables() {
  std::vector<memory::Variable> all;
  DeviceMemory* its = known_device_memory();
  const std::vector<int> devices = used_devices();
  const std::vector<RegisteredSymbol> known = registered_symbols(RegisteredSymbol::kVariable);
  for (int device : devices) {
    if (known.empty()) break;
    const OnDevice on(device);
    if (!on.fine()) return context_ended(device);
    for (const RegisteredSymbol& one : known) {
      memory::Variable found{name_of(one), 0, 0, device};
      rt::use_code(one.host);
      const cudaError_t error = find_symbol(one.host, &found.address, &found.size);
      if (error == cudaSuccess)
        all.push_back(std::move(found));
      else if (!means_no_code(error))
        return variable_lost(found.name, device, static_cast<CUresult>(error));
    }
  }
  const ManagedBySlot managed = managed_by_slot();
  for (const auto& [slot, one] : managed)
    if (!devices.empty() && has_place(one) &&
        !note_taken(slot, TakenVariable::kManaged, one.name ? one.name : "", one.managed_address(),
                    devices.front()))
      return Error{"CUDA: there is no room to note the devices' variables"};
  Status trouble;
  if (its)
    its->state.variables.each([&](TakenVariable* one) {
      if (one->kind == TakenVariable::kSymbol) return;  // registered, too
      if (!is_alive(*one)) return its->state.drop(one);
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
Status addresses_may_come_again(const std::vector<memory::Variable>& variables) {
  if (variables.empty() || memory::first_reservation_is_placed()) return {};
  Status kept;
  known_device_memory()->state.variables.each([&](const TakenVariable* taken) {
    for (const memory::Variable& one : variables)
      if (one.address == taken->address && one.device == taken->device)
        kept = Error{
            "CUDA: the driver put its addresses where it wanted to, and the program has that "
            "of the variable {}, which cannot be had again by a restart",
            one.name};
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

// Finds this process's variables by the names in an image (memory::Contents::load): all that may be asked
// for, by name and device, as a restart looks up each of them once.
auto variables_here() {
  struct Found {
    CUdeviceptr address;
    size_t size;
  };
  std::unordered_map<std::string, const void*> symbols;  // of registered code, on any device
  std::map<std::pair<int, std::string>, Found> others;
  for (const RegisteredSymbol& one : registered_symbols(RegisteredSymbol::kVariable))
    symbols.emplace(name_of(one), one.host);
  if (auto all = variables_of_code())
    for (CodeVariable& v : *all) others.try_emplace({v.device, std::move(v.name)}, Found{v.address, v.size});
  const ManagedBySlot managed = managed_by_slot();
  known_device_memory()->state.variables.each([&](const TakenVariable* one) {
    Found found{};
    if (one->kind != TakenVariable::kSymbol && is_alive(*one) &&
        find_taken(*one, managed, &found.address, &found.size) == CUDA_SUCCESS)
      others.try_emplace({one->device, name_of(*one)}, found);
  });
  return [symbols = std::move(symbols), others = std::move(others)](const std::string& name, int device,
                                                                    uint64_t size) -> CUdeviceptr {
    Found found{};
    if (const auto symbol = symbols.find(name); symbol != symbols.end()) {
      const OnDevice on(device);
      rt::use_code(symbol->second);
      if (!on.fine() || find_symbol(symbol->second, &found.address, &found.size) != cudaSuccess) return 0;
    } else if (const auto known = others.find({device, name}); known != others.end()) {
      found = known->second;
    }
    return found.size == size ? found.address : 0;
  };
}

}  // namespace

Status settle_memory() {
  DeviceMemory* its = known_device_memory();
  if (!its) {
    if (!one_abi::family || used_devices().empty()) return {};
    its = device_memory();  // there may be variables only
  }
  if (its) {
    its->pools.settle();
    if (Status noted = note_unmapped_host_memory(); !noted) return noted;
  }
  auto variables = registered_variables();
  if (!variables) return variables.error();
  if (its) {
    if (Status same = addresses_may_come_again(*variables); !same) return same;
    return its->contents.note_variables(*variables);
  }
  if (variables->empty()) return {};
  return Error{"CUDA: the variable {} of device {} cannot be saved: there is no device memory",
               variables->front().name, variables->front().device};
}

uint64_t memory_region_bytes() {
  DeviceMemory* its = known_device_memory();
  uint64_t bytes = 0;
  if (its)
    for (const restart::Region& region : its->contents.regions()) bytes += restart::bytes_of(region.present);
  return bytes;
}

Status save_memory(restart::ChunkSink& sink) {
  DeviceMemory* its = known_device_memory();
  if (!its) return {};
  if (Status there = its->own.map_contents(one_abi::real_word); !there) return there;
  Status saved = its->contents.save(sink);
  its->own.unmap_contents();
  return saved;
}

Status take_addresses() {
  const auto restored = restored_device_memory();
  if (!restored) return restored.error();
  DeviceMemory* its = *restored;
  if (!its) return {};
  // Holds the contexts: the thread that made the memory may reach its context only later.
  if (Status there = its->managed.restore(hold_primary); !there) return there;
  if (Status there = its->own.reserve_again(); !there) return there;
  return its->arena.restore();
}

Status load_memory(const restart::ImageReader& image, bool variables_may_move) {
  DeviceMemory* its = known_device_memory();
  if (!its) return {};
  if (Status there = register_host_memory_again(); !there) return there;
  if (Status same = compare_taken_variables(); !same) return same;
  if (Status there = its->own.map_again(one_abi::real_word); !there) return there;
  if (Status there = its->own.map_contents(one_abi::real_word); !there) return there;
  Status loaded = its->contents.load(image, variables_here(), variables_may_move);
  its->own.unmap_contents();
  if (!loaded) return loaded;
  if (Status given = its->own.give_access_again(); !given) return given;
  if (Status told = its->advised.tell_again(primary_context); !told) return told;
  return set_pointer_attributes_again();
}

std::string memory_refusal() {
  const DeviceMemory* its = known_device_memory();
  if (!its) return "";
  if (std::string why = its->own.refusal(); !why.empty()) return why;
  if (std::string why = its->managed.refusal(); !why.empty()) return why;
  return host_memory_refusal();
}

}  // namespace cropdl::cuda
