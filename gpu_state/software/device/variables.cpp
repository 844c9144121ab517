#include "gpu_state/software/device/variables.h"

#include <bit>
#include <cstring>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/memory_host.h"

namespace cropdl::device {

namespace {

// The scalar's bytes in the element's type; decimal constants of an .f32 variable are doubles in the text.
uint64_t bits_of(const ptx::Float& value, ptx::Type type) {
  if (type == ptx::Type::kF32 && value.is_double)
    return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(value.bits)));
  if (type == ptx::Type::kF64 && !value.is_double)
    return std::bit_cast<uint64_t>(
        static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(value.bits))));
  return value.bits;
}

}  // namespace

std::vector<const ptx::Variable*> placed_variables(const ptx::Module& module) {
  std::vector<const ptx::Variable*> found;
  auto add = [&](const ptx::Variable& variable) {
    if ((variable.space == ptx::Space::kGlobal || variable.space == ptx::Space::kConst) &&
        !variable.is_extern)
      found.push_back(&variable);
  };
  for (const ptx::Variable& variable : module.variables) add(variable);
  for (const ptx::Function& function : module.functions)
    for (const ptx::Variable& variable : function.variables) add(variable);
  return found;
}

CUresult place_managed(const ptx::Module& module, VariablePlaces* places) {
  for (const ptx::Variable* variable : placed_variables(module)) {
    if (!variable->is_managed || places->count(variable->name)) continue;
    VariablePlace place{.size = variable->size(), .is_managed = true};
    if (CUresult error = allocate_managed(place.size, CU_MEM_ATTACH_GLOBAL, nullptr, 0, &place.address, true))
      return error;
    (*places)[variable->name] = place;
  }
  return CUDA_SUCCESS;
}

CUresult place_variables(const ptx::Module& module, CUcontext context, VariablePlaces* places) {
  if (CUresult error = place_managed(module, places)) return error;
  for (const ptx::Variable* variable : placed_variables(module)) {
    if (places->count(variable->name)) continue;
    VariablePlace place{.size = variable->size()};
    if (place.size)
      if (CUresult error =
              context->device->memory().allocate(place.size, &place.address, context, MemoryKind::kModule))
        return error;
    (*places)[variable->name] = place;
  }
  return CUDA_SUCCESS;
}

void give_back(const VariablePlaces& places, CUcontext context) {
  for (const auto& [name, place] : places) {
    if (place.is_borrowed || !place.address) continue;
    if (place.is_managed)
      release_managed(place.address, true);
    else
      context->device->memory().release(place.address, MemoryKind::kModule);
  }
}

Status initialise(const ptx::Variable& variable, CUdeviceptr at,
                  const std::function<std::optional<uint64_t>(const std::string& name)>& address_of) {
  auto* bytes = reinterpret_cast<unsigned char*>(at);
  std::memset(bytes, 0, variable.size());
  size_t width = ptx::size_of(variable.type);
  if (variable.initial.size() * width > variable.size())
    return Error{"line {}: {} has more initial values than elements", variable.line, variable.name};
  for (const ptx::Initial& initial : variable.initial) {
    uint64_t value = 0;
    if (const auto* integer = std::get_if<ptx::Integer>(&initial.value)) {
      value = integer->bits;
      // Integers as initial values of .f32 and .f64 variables are converted to floating point.
      if (variable.type == ptx::Type::kF32 || variable.type == ptx::Type::kF64) {
        double number = integer->is_negative ? static_cast<double>(static_cast<int64_t>(value))
                                             : static_cast<double>(value);
        value = bits_of({std::bit_cast<uint64_t>(number), true}, variable.type);
      }
    } else if (const auto* real = std::get_if<ptx::Float>(&initial.value)) {
      value = bits_of(*real, variable.type);
    } else {
      const auto& symbol = std::get<ptx::Symbol>(initial.value);
      std::optional<uint64_t> address = address_of(symbol.name);
      if (!address)
        return Error{"line {}: {} begins with the address of {}, which is not there", variable.line,
                     variable.name, symbol.name};
      // All address spaces are parts of the generic one here, so generic(symbol) is the address itself.
      value = *address + static_cast<uint64_t>(symbol.offset);
      value = (value & initial.mask) >> std::countr_zero(initial.mask);
    }
    std::memcpy(bytes, &value, std::min<size_t>(width, sizeof value));
    bytes += width;
  }
  return {};
}

}  // namespace cropdl::device
