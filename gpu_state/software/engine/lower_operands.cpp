// Operands of an instruction: registers, literals, special registers and addresses.
#include <bit>

#include "gpu_state/software/engine/lower.h"

namespace cropdl::engine {

std::vector<const ptx::Operand*> elements_of(const ptx::Operand& operand) {
  std::vector<const ptx::Operand*> all;
  if (const auto* vector = std::get_if<ptx::Vector>(&operand.value))
    for (const auto& one : vector->elements) all.push_back(&one);
  else
    all.push_back(&operand);
  return all;
}

const std::string* Lowering::register_name(const ptx::Operand& operand) const {
  const auto* name = std::get_if<ptx::Register>(&operand.value);
  return name ? &name->name : nullptr;
}

Ref Lowering::constant(uint32_t lane_bytes, uint64_t low, uint64_t high) {
  if (lane_bytes < 8) low &= (uint64_t{1} << (lane_bytes ? lane_bytes * 8 : 1)) - 1;
  auto number = static_cast<uint32_t>(draft_.constants.size());
  auto [found, is_new] = draft_.constants.emplace(std::array<uint64_t, 3>{lane_bytes, low, high}, number);
  return {Ref::What::kConstant, found->second};
}

// The bits of a literal in a register of that width. A float literal has its own width; in a register of
// another it is converted, as PTX does with decimal ones.
std::optional<uint64_t> Lowering::literal(const ptx::Operand& operand, uint32_t lane_bytes,
                                          bool is_float) const {
  if (const auto* integer = std::get_if<ptx::Integer>(&operand.value)) {
    if (is_float) return std::nullopt;
    if (lane_bytes == 0) return integer->bits ? 1 : 0;
    return integer->bits;
  }
  const auto* number = std::get_if<ptx::Float>(&operand.value);
  if (!number || (lane_bytes != 4 && lane_bytes != 8)) return std::nullopt;
  if (number->is_double == (lane_bytes == 8)) return number->bits;
  if (number->is_double)
    return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(number->bits)));
  return std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(number->bits))});
}

std::optional<uint64_t> Lowering::symbol_address(const std::string& name) const {
  if (auto found = entry_parameters_.find(name); found != entry_parameters_.end()) return found->second;
  if (auto found = around_.shared(name)) return found;
  if (auto found = around_.global(name)) return found;
  return std::nullopt;
}

Ref Lowering::fetch(Instruction::Execute execute, int64_t immediate, uint32_t lane_bytes) {
  Ref ref{Ref::What::kRegister, new_register(lane_bytes)};
  Draft& draft = emit(execute, lane_bytes);
  draft.instruction.immediate = immediate;
  write(draft, 0, ref);
  return ref;
}

Ref Lowering::fetch_local(uint64_t offset, uint32_t lane_bytes) {
  return fetch(read_local_address, static_cast<int64_t>(offset), lane_bytes);
}

std::optional<Ref> Lowering::wide_enough(uint32_t number, uint32_t lane_bytes, bool wider) const {
  uint32_t bytes = draft_.registers[number].lane_bytes;
  if (bytes == lane_bytes || (wider && lane_bytes && bytes > lane_bytes))
    return Ref{Ref::What::kRegister, number};
  return std::nullopt;
}

std::optional<Ref> Lowering::source(const ptx::Operand& operand, uint32_t lane_bytes, bool is_float,
                                    bool wider) {
  if (const std::string* name = register_name(operand)) {
    if (auto found = find_register(*name)) return wide_enough(*found, lane_bytes, wider);
    if (auto special = find_special(*name)) {
      if (special->bytes == lane_bytes ||
          (special->bytes && lane_bytes && special->bytes <= 8 && lane_bytes <= 8))
        return fetch(read_special, special->which, lane_bytes);
      return std::nullopt;
    }
    if (*name == "WARP_SZ") return constant(lane_bytes, kLanes);
    return std::nullopt;
  }
  if (const auto* symbol = std::get_if<ptx::Symbol>(&operand.value)) {
    if (symbol->name == "WARP_SZ") return constant(lane_bytes, kLanes);
    if (lane_bytes != 4 && lane_bytes != 8) return std::nullopt;
    auto offset = static_cast<uint64_t>(symbol->offset);
    if (auto local = local_.find(symbol->name); local != local_.end())
      return fetch_local(local->second + offset, lane_bytes);
    if (auto address = symbol_address(symbol->name)) {
      if (lane_bytes == 4 && (*address + offset) >> 32) return std::nullopt;  // only part of it would fit
      return constant(lane_bytes, *address + offset);
    }
    if (auto address = lane_bytes == 8 ? around_.function(symbol->name) : std::nullopt)
      return constant(lane_bytes, *address);
    return std::nullopt;
  }
  if (auto bits = literal(operand, lane_bytes, is_float))
    return constant(lane_bytes, *bits,
                    lane_bytes == 16 && static_cast<int64_t>(*bits) < 0 ? ~uint64_t{0} : 0);
  return std::nullopt;
}

std::optional<Ref> Lowering::destination(const ptx::Operand& operand, uint32_t lane_bytes, bool wider) {
  const std::string* name = register_name(operand);
  if (!name) return std::nullopt;
  if (*name == "_") return Ref{Ref::What::kRegister, new_register(lane_bytes)};
  auto found = find_register(*name);
  return found ? wide_enough(*found, lane_bytes, wider) : std::nullopt;
}

}  // namespace cropdl::engine
