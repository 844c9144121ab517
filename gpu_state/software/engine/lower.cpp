#include "gpu_state/software/engine/lower.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "gpu_state/software/ptx/link.h"

namespace cropdl::engine {

namespace {

constexpr uint64_t kMostRegisters = 1 << 20;  // per function: a text must not exhaust memory

// Bytes per lane of a register; 0: a predicate.
uint32_t lane_bytes_of(ptx::Type type) {
  if (type == ptx::Type::kPred) return 0;
  size_t bytes = ptx::size_of(type);
  return bytes == 1 ? 2 : static_cast<uint32_t>(bytes);
}

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

// Flattens operands: vectors become elements, and a predicate written after d follows it.
void flatten(const ptx::Operand& operand, std::vector<const ptx::Operand*>* into) {
  if (const auto* vector = std::get_if<ptx::Vector>(&operand.value)) {
    for (const ptx::Operand& element : vector->elements) flatten(element, into);
  } else {
    into->push_back(&operand);
  }
  if (operand.beside) flatten(*operand.beside, into);
}

}  // namespace

std::optional<NamedType> named_type(std::string_view name) {
  static const std::unordered_map<std::string_view, NamedType> kTypes = {
      {"pred", {0, false, false, false, true, Number::kBits}},
      {"b8", {1, false, false, true, false, Number::kBits}},
      {"b16", {2, false, false, true, false, Number::kBits}},
      {"b32", {4, false, false, true, false, Number::kBits}},
      {"b64", {8, false, false, true, false, Number::kBits}},
      {"b128", {16, false, false, true, false, Number::kBits}},
      {"u8", {1, false, false, false, false, Number::kUnsigned}},
      {"u16", {2, false, false, false, false, Number::kUnsigned}},
      {"u32", {4, false, false, false, false, Number::kUnsigned}},
      {"u64", {8, false, false, false, false, Number::kUnsigned}},
      {"s8", {1, true, false, false, false, Number::kSigned}},
      {"s16", {2, true, false, false, false, Number::kSigned}},
      {"s32", {4, true, false, false, false, Number::kSigned}},
      {"s64", {8, true, false, false, false, Number::kSigned}},
      {"f16", {2, false, false, false, false, Number::kHalf}},
      {"bf16", {2, false, false, false, false, Number::kBrain}},
      {"f16x2", {4, false, false, false, false, Number::kHalf2}},
      {"bf16x2", {4, false, false, false, false, Number::kBrain2}},
      {"f32", {4, false, true, false, false, Number::kFloat}},
      {"f64", {8, false, true, false, false, Number::kFloat}},
  };
  auto found = kTypes.find(name);
  if (found == kTypes.end()) return std::nullopt;
  return found->second;
}

Error Lowering::error(const std::string& why) const {
  return Error{formatted("{} in {} (line {} of the PTX): {}", now_ ? now_->opcode : "?", function_.name,
                         now_ ? now_->line : 0, why)};
}

bool Lowering::has(std::string_view word) const {
  return std::find(words_.begin(), words_.end(), word) != words_.end();
}

uint32_t Lowering::new_register(uint32_t lane_bytes, const std::string& name) {
  Virtual made;
  made.name = name;
  made.lane_bytes = lane_bytes;
  made.bytes = lane_bytes ? lane_bytes * kLanes : 4;
  draft_.registers.push_back(std::move(made));
  return static_cast<uint32_t>(draft_.registers.size() - 1);
}

std::optional<uint32_t> Lowering::find_register(const std::string& name) const {
  auto found = registers_.find(name);
  if (found == registers_.end()) return std::nullopt;
  return found->second;
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

// The bits of a literal in a register of that width. A float literal has its own width and is converted to
// the register's, as PTX does with decimal ones.
std::optional<uint64_t> Lowering::literal(const ptx::Operand& operand, uint32_t lane_bytes,
                                          bool is_float) const {
  if (const auto* integer = std::get_if<ptx::Integer>(&operand.value)) {
    if (is_float) return std::nullopt;
    if (lane_bytes == 0) return integer->bits ? 1 : 0;
    return integer->bits;
  }
  if (const auto* number = std::get_if<ptx::Float>(&operand.value)) {
    if (!number->is_double) {
      if (lane_bytes == 4) return number->bits;
      if (lane_bytes == 8) {
        float narrow;
        auto bits = static_cast<uint32_t>(number->bits);
        std::memcpy(&narrow, &bits, 4);
        double wide = narrow;
        uint64_t all;
        std::memcpy(&all, &wide, 8);
        return all;
      }
      return std::nullopt;
    }
    if (lane_bytes == 8) return number->bits;
    if (lane_bytes == 4) {
      double wide;
      std::memcpy(&wide, &number->bits, 8);
      auto narrow = static_cast<float>(wide);
      uint32_t bits;
      std::memcpy(&bits, &narrow, 4);
      return bits;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> Lowering::symbol_address(const std::string& name) const {
  if (auto found = entry_parameters_.find(name); found != entry_parameters_.end()) return found->second;
  if (auto found = around_.shared(name)) return found;
  if (auto found = around_.global(name)) return found;
  return std::nullopt;
}

Ref Lowering::fetch_special(int which, uint32_t lane_bytes) {
  Ref ref{Ref::What::kRegister, new_register(lane_bytes)};
  Draft& draft = emit(read_special, lane_bytes);
  draft.instruction.immediate = which;
  write(draft, 0, ref);
  return ref;
}

Ref Lowering::fetch_local(uint64_t offset) {
  Ref ref{Ref::What::kRegister, new_register(8)};
  Draft& draft = emit(read_local_address, 8);
  draft.instruction.immediate = static_cast<int64_t>(offset);
  write(draft, 0, ref);
  return ref;
}

std::optional<Ref> Lowering::source(const ptx::Operand& operand, uint32_t lane_bytes, bool is_float,
                                    bool wider) {
  if (const std::string* name = register_name(operand)) {
    if (auto found = find_register(*name)) {
      uint32_t bytes = draft_.registers[*found].lane_bytes;
      if (bytes == lane_bytes || (wider && lane_bytes && bytes > lane_bytes))
        return Ref{Ref::What::kRegister, *found};
      return std::nullopt;
    }
    if (auto special = find_special(*name)) {
      if (special->bytes == lane_bytes ||
          (special->bytes && lane_bytes && special->bytes <= 8 && lane_bytes <= 8))
        return fetch_special(special->which, lane_bytes);
      return std::nullopt;
    }
    if (*name == "WARP_SZ") return constant(lane_bytes, kLanes);
    return std::nullopt;
  }
  if (const auto* symbol = std::get_if<ptx::Symbol>(&operand.value)) {
    if (symbol->name == "WARP_SZ") return constant(lane_bytes, kLanes);
    if (lane_bytes != 4 && lane_bytes != 8) return std::nullopt;
    auto offset = static_cast<uint64_t>(symbol->offset);
    if (auto local = local_.find(symbol->name); local != local_.end()) {
      if (lane_bytes == 8) return fetch_local(local->second + offset);
      Ref ref{Ref::What::kRegister, new_register(4)};
      Draft& draft = emit(read_local_address, 4);
      draft.instruction.immediate = static_cast<int64_t>(local->second + offset);
      write(draft, 0, ref);
      return ref;
    }
    if (auto address = symbol_address(symbol->name)) {
      if (lane_bytes == 4 && (*address + offset) >> 32) return std::nullopt;  // the offset does not fit
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
  if (!found) return std::nullopt;
  uint32_t bytes = draft_.registers[*found].lane_bytes;
  if (bytes == lane_bytes || (wider && lane_bytes && bytes > lane_bytes))
    return Ref{Ref::What::kRegister, *found};
  return std::nullopt;
}

Draft& Lowering::emit(Instruction::Execute execute, uint32_t extra) {
  Draft& draft = draft_.code.emplace_back();
  draft.instruction.execute = execute;
  draft.instruction.extra = extra;
  draft.source = now_;
  if (now_ && !now_->guard.empty()) {
    if (auto guard = find_register(now_->guard)) {
      draft.guard = {Ref::What::kRegister, *guard};
      draft.instruction.flags |= Instruction::kGuarded;
      if (now_->guard_negated) draft.instruction.flags |= Instruction::kGuardNegated;
    }
  }
  return draft;
}

Draft& Lowering::emit_control(Control control) {
  Draft& draft = emit(nullptr, static_cast<uint32_t>(control) << kControlShift);
  draft.instruction.flags |= Instruction::kControl;
  return draft;
}

void Lowering::write(Draft& draft, size_t at, Ref ref) {
  if (draft.operands.size() <= at) draft.operands.resize(at + 1);
  draft.operands[at] = ref;
  if (ref.what == Ref::What::kRegister) draft.writes.push_back(ref.number);
}

void Lowering::read(Draft& draft, size_t at, Ref ref) {
  if (draft.operands.size() <= at) draft.operands.resize(at + 1);
  draft.operands[at] = ref;
  if (ref.what == Ref::What::kRegister) draft.reads.push_back(ref.number);
}

// The table row that matches the opcode and the numbers and widths of the operands.
Lowering::Done Lowering::data() {
  auto found = rows_by_opcode().find(canonical(now_->opcode));
  if (found == rows_by_opcode().end()) return std::nullopt;
  std::vector<const ptx::Operand*> text;
  for (const ptx::Operand& operand : now_->operands) flatten(operand, &text);
  for (const Row* row : found->second) {
    auto spoken = [](const std::vector<Kind>& kinds) {
      return static_cast<size_t>(
          std::count_if(kinds.begin(), kinds.end(), [](Kind k) { return k != Kind::kCarry; }));
    };
    if (spoken(row->destinations) + spoken(row->sources) != text.size()) continue;
    auto fits = [&](const ptx::Operand& operand, Kind kind, bool is_destination) {
      const std::string* name = register_name(operand);
      if (name && *name != "_") {
        if (auto number = find_register(*name)) {
          uint32_t bytes = draft_.registers[*number].lane_bytes;
          return kind == Kind::kPred ? bytes == 0 : bytes == lane_bytes_of(kind);
        }
        auto special = find_special(*name);
        if (!is_destination && special)
          return kind == Kind::kPred ? special->bytes == 0
                                     : special->bytes == lane_bytes_of(kind) || lane_bytes_of(kind) >= 2;
        return !is_destination && *name == "WARP_SZ";
      }
      if (is_destination) return name != nullptr;
      return true;
    };
    size_t at = 0;
    bool good = true;
    for (Kind kind : row->destinations)
      if (kind != Kind::kCarry) good &= fits(*text[at++], kind, true);
    for (Kind kind : row->sources)
      if (kind != Kind::kCarry) good &= fits(*text[at++], kind, false);
    if (!good) continue;

    // Sources first: fetching them may need additional instructions.
    size_t first = spoken(row->destinations);
    std::vector<Ref> sources;
    uint32_t flags = 0;
    at = first;
    for (size_t i = 0; i < row->sources.size(); ++i) {
      Kind kind = row->sources[i];
      if (kind == Kind::kCarry) {
        if (!carry_) carry_ = new_register(0);
        sources.push_back({Ref::What::kRegister, *carry_});
        continue;
      }
      const ptx::Operand& operand = *text[at++];
      auto ref = source(operand, lane_bytes_of(kind), is_float(kind));
      if (!ref) return error(formatted("its operand {} cannot be read", at));
      if (operand.negated) {
        if (kind != Kind::kPred) return error("only a predicate can be negated");
        flags |= 1u << (row->destinations.size() + i);
      }
      sources.push_back(*ref);
    }
    bool together = base_ == "mma" || base_ == "wmma";
    Draft& draft = together ? emit_control(Control::kCollective) : emit(row->execute);
    draft.instruction.execute = row->execute;
    if (together) {
      draft.instruction.flags |= static_cast<uint32_t>(draft_.collectives.size()) << kCollectiveShift;
      DraftCollective& collective = draft_.collectives.emplace_back();
      collective.use.kind = Collective::kData;
      collective.use.everybody = true;
    }
    draft.instruction.flags |= flags;
    at = 0;
    size_t place = 0;
    for (Kind kind : row->destinations) {
      if (kind == Kind::kCarry) {
        if (!carry_) carry_ = new_register(0);
        write(draft, place++, {Ref::What::kRegister, *carry_});
        continue;
      }
      auto ref = destination(*text[at++], lane_bytes_of(kind));
      if (!ref) return error(formatted("its operand {} cannot be written", at));
      write(draft, place++, *ref);
    }
    for (const Ref& ref : sources) read(draft, place++, ref);
    return Status{};
  }
  return error("no form of it takes operands of these numbers and widths");
}

Status Lowering::instruction(const ptx::Instruction& one) {
  now_ = &one;
  words_.clear();
  std::string_view rest = one.opcode;
  for (bool first = true; !rest.empty(); first = false) {
    size_t dot = rest.find('.');
    std::string_view word = rest.substr(0, dot);
    rest = dot == rest.npos ? std::string_view() : rest.substr(dot + 1);
    if (first)
      base_ = word;
    else
      words_.push_back(word);
  }
  if (!one.guard.empty()) {
    auto guard = find_register(one.guard);
    if (!guard || draft_.registers[*guard].lane_bytes)
      return error(formatted("its guard {} is no predicate", one.guard));
  }
  if (int least = least_target(); least > target_)
    return error(
        formatted("it is of sm_{} and later, and the text is for {}", least, around_.module->target));
  for (auto kind : {&Lowering::control, &Lowering::warp, &Lowering::matrix, &Lowering::memory,
                    &Lowering::asynchronous, &Lowering::addresses, &Lowering::data})
    if (Done done = (this->*kind)()) return *done;
  return error("the software device does not execute this instruction");
}

Status Lowering::run() {
  routine_.name = function_.name;
  routine_.is_entry = around_.is_entry;
  routine_.module = around_.module;
  target_ = ptx::number_of_target(around_.module->target);
  uint64_t declared = 0;
  for (const ptx::RegisterRange& range : function_.registers)
    declared += static_cast<uint64_t>(std::max(range.count, 1));
  if (declared > kMostRegisters)
    return Error{
        formatted("{} declares {} registers, of at most {}", function_.name, declared, kMostRegisters)};
  for (const ptx::RegisterRange& range : function_.registers)
    for (int i = 0; i < std::max(range.count, 1); ++i) {
      std::string name = range.count ? range.name + std::to_string(i) : range.name;
      registers_[name] = new_register(lane_bytes_of(range.type), name);
    }
  auto add_parameter = [&](const ptx::Variable& variable, bool stays) {
    uint32_t number = new_register(0, variable.name);
    Virtual& made = draft_.registers[number];
    made.is_parameter = true;
    made.stays = stays;
    made.bytes = static_cast<uint32_t>((variable.size() + 3) / 4 * 4 * kLanes);
    parameters_[variable.name] = {number, variable.size()};
    return number;
  };
  if (around_.is_entry) {
    for (size_t i = 0; i < function_.parameters.size(); ++i)
      entry_parameters_[function_.parameters[i].name] = (*around_.parameters)[i].first;
  } else {
    for (const ptx::Variable& one : function_.parameters) {
      if (one.space == ptx::Space::kReg) return error(formatted("{} is a parameter in a register", one.name));
      draft_.parameters.push_back(add_parameter(one, true));
      routine_.parameters.push_back({0, static_cast<uint32_t>(one.size())});
    }
    for (const ptx::Variable& one : function_.returned) {
      if (one.space == ptx::Space::kReg) return error(formatted("{} is returned in a register", one.name));
      draft_.returned.push_back(add_parameter(one, true));
      routine_.returned.push_back({0, static_cast<uint32_t>(one.size())});
    }
  }
  uint64_t local = 0;
  for (const ptx::Variable& one : function_.variables) {
    if (one.space == ptx::Space::kParam) {
      add_parameter(one, false);
    } else if (one.space == ptx::Space::kLocal) {
      uint64_t align = std::max<uint64_t>(one.align, 1);
      routine_.local_align = std::max(routine_.local_align, static_cast<uint32_t>(align));
      local = (local + align - 1) / align * align;
      local_[one.name] = local;
      local += one.size();
    }
  }
  if (local > kMostLocal)
    return Error{
        formatted("{} has {} bytes of .local variables, of at most {}", function_.name, local, kMostLocal)};
  routine_.local_bytes = static_cast<uint32_t>(local);
  for (const auto& item : function_.body) {
    if (const auto* label = std::get_if<ptx::Label>(&item)) {
      draft_.labels[label->name] = static_cast<uint32_t>(draft_.code.size());
    } else if (Status status = instruction(std::get<ptx::Instruction>(item)); !status) {
      return status;
    }
  }
  now_ = nullptr;
  if (draft_.collectives.size() > kMostCollectives)
    return Error{formatted("{} has {} instructions that lanes do together, of at most {}", function_.name,
                           draft_.collectives.size(), kMostCollectives)};
  emit_control(Control::kReturn).falls_through =
      false;  // a body may end without one, and a label may come last
  return place(draft_, &routine_);
}

}  // namespace cropdl::engine
