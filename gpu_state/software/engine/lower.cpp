#include "gpu_state/software/engine/lower.h"

#include <algorithm>

#include "base/format.h"
#include "gpu_state/software/ptx/link.h"

namespace cropdl::engine {

namespace {

constexpr uint64_t kMostRegisters = 1 << 20;  // of a function: no text is to take all memory

// Lanes' bytes of a register; 0: a predicate.
uint32_t lane_bytes_of(ptx::Type type) {
  if (type == ptx::Type::kPred) return 0;
  size_t bytes = ptx::size_of(type);
  return bytes == 1 ? 2 : static_cast<uint32_t>(bytes);
}

}  // namespace

Error Lowering::error(const std::string& why) const {
  return Error{"{} in {} (line {} of the PTX): {}", now_ ? now_->opcode : "?", function_.name,
               now_ ? now_->line : 0, why};
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
    return Error{"{} declares {} registers, of at most {}", function_.name, declared, kMostRegisters};
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
    return Error{"{} has {} bytes of .local variables, of at most {}", function_.name, local, kMostLocal};
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
    return Error{"{} has {} instructions that lanes do together, of at most {}", function_.name,
                 draft_.collectives.size(), kMostCollectives};
  emit_control(Control::kReturn).falls_through =
      false;  // a body may end without one, and a label may stand last
  return place(draft_, &routine_);
}

}  // namespace cropdl::engine
