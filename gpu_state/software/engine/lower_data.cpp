// Data processing: instructions that are rows of instruction.h.
#include <algorithm>

#include "base/format.h"
#include "gpu_state/software/engine/lower.h"

namespace cropdl::engine {

namespace {

uint32_t lane_bytes_of(Kind kind) {
  switch (kind) {
    case Kind::k16:
    case Kind::kF16:
      return 2;
    case Kind::k32:
    case Kind::kF32:
      return 4;
    case Kind::k64:
    case Kind::kF64:
      return 8;
    case Kind::k128:
      return 16;
    default:
      return 0;
  }
}
bool is_float(Kind kind) { return kind == Kind::kF16 || kind == Kind::kF32 || kind == Kind::kF64; }

const std::unordered_map<std::string, std::vector<const Row*>>& rows_by_opcode() {
  static const auto* kRows = [] {
    auto* made = new std::unordered_map<std::string, std::vector<const Row*>>;
    for (const Row& row : data_rows()) (*made)[canonical(row.opcode)].push_back(&row);
    return made;
  }();
  return *kRows;
}

// The operands one by one: vectors taken apart, what is written beside d behind it.
void flatten(const ptx::Operand& operand, std::vector<const ptx::Operand*>* into) {
  if (const auto* vector = std::get_if<ptx::Vector>(&operand.value)) {
    for (const ptx::Operand& element : vector->elements) flatten(element, into);
  } else {
    into->push_back(&operand);
  }
  if (operand.beside) flatten(*operand.beside, into);
}

// How many of them the text has as operands.
size_t spoken(const std::vector<Kind>& kinds) {
  return static_cast<size_t>(
      std::count_if(kinds.begin(), kinds.end(), [](Kind k) { return k != Kind::kCarry; }));
}

}  // namespace

bool Lowering::can_be(const ptx::Operand& operand, Kind kind, bool is_destination) const {
  const std::string* name = register_name(operand);
  if (!name) return !is_destination;
  if (*name == "_") return true;
  if (auto number = find_register(*name)) {
    uint32_t bytes = draft_.registers[*number].lane_bytes;
    return kind == Kind::kPred ? bytes == 0 : bytes == lane_bytes_of(kind);
  }
  if (is_destination) return false;
  if (auto special = find_special(*name))
    return kind == Kind::kPred ? special->bytes == 0
                               : special->bytes == lane_bytes_of(kind) || lane_bytes_of(kind) >= 2;
  return *name == "WARP_SZ";
}

bool Lowering::is_of(const std::vector<const ptx::Operand*>& text, const Row& row) const {
  if (spoken(row.destinations) + spoken(row.sources) != text.size()) return false;
  size_t at = 0;
  bool good = true;
  for (Kind kind : row.destinations)
    if (kind != Kind::kCarry) good &= can_be(*text[at++], kind, true);
  for (Kind kind : row.sources)
    if (kind != Kind::kCarry) good &= can_be(*text[at++], kind, false);
  return good;
}

Ref Lowering::carry() {
  if (!carry_) carry_ = new_register(0);
  return {Ref::What::kRegister, *carry_};
}

// Sources first: they may have to be fetched by instructions of their own.
Status Lowering::data(const Row& row, const std::vector<const ptx::Operand*>& text) {
  std::vector<Ref> sources;
  uint32_t flags = 0;
  size_t at = spoken(row.destinations);
  for (size_t i = 0; i < row.sources.size(); ++i) {
    Kind kind = row.sources[i];
    if (kind == Kind::kCarry) {
      sources.push_back(carry());
      continue;
    }
    const ptx::Operand& operand = *text[at++];
    auto ref = source(operand, lane_bytes_of(kind), is_float(kind));
    if (!ref) return error(formatted("its operand {} cannot be read", at));
    if (operand.negated) {
      if (kind != Kind::kPred) return error("only a predicate can be negated");
      flags |= 1u << (row.destinations.size() + i);
    }
    sources.push_back(*ref);
  }
  bool together = base_ == "mma" || base_ == "wmma";
  Draft& draft = together ? emit_control(Control::kCollective) : emit(row.execute);
  draft.instruction.execute = row.execute;
  if (together) {
    draft.instruction.flags |= static_cast<uint32_t>(draft_.collectives.size()) << kCollectiveShift;
    DraftCollective& collective = draft_.collectives.emplace_back();
    collective.use.kind = Collective::kData;
    collective.use.everybody = true;
  }
  draft.instruction.flags |= flags;
  at = 0;
  size_t place = 0;
  for (Kind kind : row.destinations) {
    auto ref = kind == Kind::kCarry ? carry() : destination(*text[at++], lane_bytes_of(kind));
    if (!ref) return error(formatted("its operand {} cannot be written", at));
    write(draft, place++, *ref);
  }
  for (const Ref& ref : sources) read(draft, place++, ref);
  return Status{};
}

// The row whose numbers and widths of operands are those of the text.
Lowering::Done Lowering::data() {
  auto found = rows_by_opcode().find(canonical(now_->opcode));
  if (found == rows_by_opcode().end()) return std::nullopt;
  std::vector<const ptx::Operand*> text;
  for (const ptx::Operand& operand : now_->operands) flatten(operand, &text);
  for (const Row* row : found->second)
    if (is_of(text, *row)) return data(*row, text);
  return error("no form of it takes operands of these numbers and widths");
}

}  // namespace cropdl::engine
