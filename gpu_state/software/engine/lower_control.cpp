// Branches, calls, exits, barriers, and operations among lanes of a warp (PTX ISA, "Control Flow
// Instructions", "Parallel Synchronization and Communication Instructions").
#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "gpu_state/software/engine/lower.h"

namespace cropdl::engine {

Lowering::Done Lowering::control() {
  if (base_ == "call") return call(*now_);
  static const std::map<std::string_view, std::set<std::string_view>> kWords = {
      {"bra", {"uni"}}, {"brx", {"idx", "uni"}}, {"ret", {"uni"}},       {"exit", {}},
      {"trap", {}},     {"brkpt", {}},           {"nanosleep", {"u32"}}, {"activemask", {"b32"}}};
  auto allowed = kWords.find(base_);
  if (allowed == kWords.end()) return std::nullopt;
  for (std::string_view word : words_)
    if (!allowed->second.count(word)) return std::nullopt;
  if (base_ == "bra") {
    const auto* target = count() == 1 ? std::get_if<ptx::Symbol>(&operand(0).value) : nullptr;
    if (!target) return bad_operands();
    Draft& draft = emit_control(Control::kBranch);
    draft.label = target->name;
    draft.falls_through = draft.guard.what != Ref::What::kNone;
    return Status{};
  }
  if (base_ == "brx") {
    const auto* name = count() == 2 ? std::get_if<ptx::Symbol>(&operand(1).value) : nullptr;
    auto index = count() ? source(operand(0), 4) : std::nullopt;
    if (!name || !index || !has("idx")) return bad_operands();
    for (const ptx::BranchTargets& targets : function_.branch_targets) {
      if (targets.label != name->name) continue;
      Draft& draft = emit_control(Control::kBranchTable);
      draft.labels = targets.targets;
      draft.falls_through = draft.guard.what != Ref::What::kNone;
      read(draft, 0, *index);
      return Status{};
    }
    return error(formatted("there are no branch targets {}", name->name));
  }
  if (base_ == "ret" || base_ == "exit") {
    if (count()) return bad_operands();
    Draft& draft = emit_control(base_ == "ret" ? Control::kReturn : Control::kExit);
    draft.falls_through = draft.guard.what != Ref::What::kNone;
    return Status{};
  }
  if (base_ == "trap" || base_ == "brkpt") {
    if (count()) return bad_operands();
    emit_control(base_ == "trap" ? Control::kTrap : Control::kBreakpoint);
    return Status{};
  }
  if (base_ == "nanosleep") {
    if (count() != 1 || !source(operand(0), 4)) return bad_operands();
    emit_control(Control::kSleep);
    return Status{};
  }
  auto to = count() == 1 ? destination(operand(0), 4) : std::nullopt;
  if (!to) return bad_operands();
  write(emit_control(Control::kActiveMask), 0, *to);
  return Status{};
}

// Arguments and results are .param variables of the body; the call copies them.
Status Lowering::call(const ptx::Instruction& one) {
  if (!takes({" ?uni"})) return error("a call is .uni or nothing");
  if (!one.call) return bad_operands();
  DraftCall made;
  auto parameters = [&](const std::vector<std::string>& names, std::vector<uint32_t>* numbers,
                        std::vector<Parameter>* sizes) {
    for (const std::string& name : names) {
      auto found = parameters_.find(name);
      if (found == parameters_.end()) return false;
      numbers->push_back(found->second.first);
      sizes->push_back({0, static_cast<uint32_t>(found->second.second)});
    }
    return true;
  };
  if (!parameters(one.call->arguments, &made.arguments, &made.site.arguments) ||
      !parameters(one.call->returned, &made.returned, &made.site.returned))
    return error("it passes what is no .param variable");
  auto pointer = find_register(one.call->target);
  if (pointer) {
    if (draft_.registers[*pointer].lane_bytes != 8) return error("a function's address has 64 bits");
    made.site.target = CallSite::Target::kRegister;
    made.address = *pointer;
    through_pointers_ = true;
  } else {
    const std::string& name = one.call->target;
    const ptx::Function* callee = around_.callee(name);
    if (!callee || !callee->has_body) {
      struct System {
        std::string_view name;
        CallSite::Target target;
        size_t arguments;
      };
      static const System kSystem[] = {{"vprintf", CallSite::Target::kPrint, 2},
                                       {"malloc", CallSite::Target::kAllocate, 1},
                                       {"free", CallSite::Target::kRelease, 1},
                                       {"__assertfail", CallSite::Target::kAssert, 5}};
      bool known = false;
      for (const System& system : kSystem) {
        if (system.name != name) continue;
        if (made.arguments.size() != system.arguments ||
            (system.target == CallSite::Target::kAllocate && made.returned.size() != 1))
          return bad_operands();
        made.site.target = system.target;
        known = true;
      }
      if (!known)
        return error(formatted(
            "it calls {}, which has no body in this module and which the software device does not provide",
            name));
    } else {
      made.callee = name;
    }
  }
  Draft& draft = emit_control(Control::kCall);
  draft.instruction.immediate = static_cast<int64_t>(draft_.calls.size());
  for (uint32_t number : made.arguments) draft.reads.push_back(number);
  for (uint32_t number : made.returned) draft.writes.push_back(number);
  if (pointer) draft.reads.push_back(*pointer);
  draft_.calls.push_back(std::move(made));
  return {};
}

Lowering::Done Lowering::block_barrier() {
  if (!takes({"sync", "arrive", "red popc u32", "red and|or pred", "cta.sync", "cta.arrive",
              "cta.red popc u32", "cta.red and|or pred"}) &&
      (base_ == "bar" || !takes({"sync aligned", "arrive aligned", "red popc u32 aligned",
                                 "red and|or pred aligned", "cta.sync aligned", "cta.arrive aligned",
                                 "cta.red popc u32 aligned", "cta.red and|or pred aligned"})))
    return std::nullopt;
  BarrierUse use;
  const bool reduces = has("red"), to_predicate = has("pred");
  use.kind = has("arrive") ? Barrier::kArrive
             : has("popc") ? Barrier::kPopc
             : has("and")  ? Barrier::kAnd
             : has("or")   ? Barrier::kOr
                           : Barrier::kSync;
  size_t at = 0;
  std::optional<Ref> to, number, threads, predicate;
  uint32_t flags = 0;
  if (reduces && !(to = count() ? destination(operand(at++), to_predicate ? 0 : 4) : std::nullopt))
    return bad_operands();
  if (at >= count() || !(number = source(operand(at++), 4))) return bad_operands();
  if (reduces) {
    if (count() < 3) return bad_operands();
    const ptx::Operand& last = operand(count() - 1);
    if (!(predicate = source(last, 0))) return bad_operands();
    if (last.negated) flags |= 1u << 3;
  }
  size_t left = count() - at - (reduces ? 1 : 0);
  if (left > 1) return bad_operands();
  if (left == 1 && !(threads = source(operand(at), 4))) return bad_operands();
  if (use.kind == Barrier::kArrive && !threads) return bad_operands();
  use.counted = threads.has_value();
  Draft& draft = emit_control(Control::kBarrier);
  draft.instruction.flags |= flags;
  draft.instruction.immediate = static_cast<int64_t>(draft_.barriers.size());
  draft.operands.resize(4);
  if (to) write(draft, 0, *to);
  read(draft, 1, *number);
  if (threads) read(draft, 2, *threads);
  if (predicate) read(draft, 3, *predicate);
  draft_.barriers.push_back(use);
  return Status{};
}

// The operands of an operation among lanes: destinations, sources, and the mask of the lanes.
struct Lowering::CollectiveForm {
  CollectiveUse use;
  size_t destinations = 1, sources = 0;
  uint32_t from_bytes = 4;
  bool beside_allowed = false, to_predicate = false, from_predicate = false;
};

std::optional<Lowering::CollectiveForm> Lowering::collective_form() const {
  CollectiveForm form;
  auto in = [&](std::initializer_list<std::string_view> allowed) {
    for (std::string_view word : words_)
      if (std::find(allowed.begin(), allowed.end(), word) == allowed.end()) return false;
    return has("sync");
  };
  if (base_ == "bar" || base_ == "barrier") {
    if (now_->opcode != "bar.warp.sync") return std::nullopt;
    form.use.kind = Collective::kWarpBarrier;
    form.destinations = 0;
  } else if (base_ == "shfl") {
    if (!in({"sync", "up", "down", "bfly", "idx", "b32"}) || words_.size() != 3) return std::nullopt;
    form.use.kind = Collective::kShuffle;
    form.use.mode = has("up") ? 0 : has("down") ? 1 : has("bfly") ? 2 : 3;
    form.sources = 3;
    form.beside_allowed = true;
  } else if (base_ == "vote") {
    if (!in({"sync", "all", "any", "uni", "ballot", "pred", "b32"}) || words_.size() != 3)
      return std::nullopt;
    form.use.kind = has("all")   ? Collective::kVoteAll
                    : has("any") ? Collective::kVoteAny
                    : has("uni") ? Collective::kVoteUniform
                                 : Collective::kBallot;
    if (has("b32") != (form.use.kind == Collective::kBallot)) return std::nullopt;
    form.sources = 1;
    form.from_predicate = true;
    form.to_predicate = form.use.kind != Collective::kBallot;
  } else if (base_ == "match") {
    if (!in({"sync", "any", "all", "b32", "b64"}) || words_.size() != 3) return std::nullopt;
    form.use.kind = has("any") ? Collective::kMatchAny : Collective::kMatchAll;
    form.use.wide = has("b64");
    form.from_bytes = form.use.wide ? 8 : 4;
    form.sources = 1;
    form.beside_allowed = form.use.kind == Collective::kMatchAll;
  } else if (base_ == "redux") {
    if (!in({"sync", "add", "min", "max", "and", "or", "xor", "u32", "s32", "b32"}) || words_.size() != 3)
      return std::nullopt;
    form.use.kind = Collective::kReduce;
    bool is_signed = has("s32"), bits = has("b32");
    if (bits != (has("and") || has("or") || has("xor"))) return std::nullopt;
    Fold fold = has("add")   ? Fold::kAdd
                : has("min") ? (is_signed ? Fold::kMinSigned : Fold::kMinUnsigned)
                : has("max") ? (is_signed ? Fold::kMaxSigned : Fold::kMaxUnsigned)
                : has("and") ? Fold::kAnd
                : has("or")  ? Fold::kOr
                             : Fold::kXor;
    form.use.mode = static_cast<uint8_t>(fold);
    form.sources = 1;
  } else if (base_ == "elect") {
    if (now_->opcode != "elect.sync") return std::nullopt;
    form.use.kind = Collective::kElect;
    form.beside_allowed = true;
  } else if (base_ == "movmatrix") {
    if (now_->opcode != "movmatrix.sync.aligned.m8n8.trans.b16") return std::nullopt;
    form.use.kind = Collective::kMoveMatrix;
    form.use.everybody = true;
    form.sources = 1;
  } else {
    return std::nullopt;
  }
  return form;
}

Lowering::Done Lowering::collective() {
  const auto found = collective_form();
  if (!found) return std::nullopt;
  const CollectiveForm& form = *found;
  const size_t mask_at = form.destinations + form.sources;
  if (count() != mask_at + (form.use.everybody ? 0 : 1)) return bad_operands();
  std::optional<Ref> to, beside, mask;
  std::vector<Ref> values;
  uint32_t flags = 0;
  for (size_t i = 0; i < form.sources; ++i) {
    auto ref = source(operand(form.destinations + i), form.from_predicate ? 0 : i ? 4 : form.from_bytes);
    if (!ref) return bad_operands();
    if (operand(form.destinations + i).negated) flags |= 1u << (2 + i);
    values.push_back(*ref);
  }
  if (!form.use.everybody && !(mask = source(operand(mask_at), 4))) return bad_operands();
  if (form.destinations) {
    if (!form.to_predicate && !(to = destination(operand(0), 4))) return bad_operands();
    if (form.to_predicate && !(beside = destination(operand(0), 0))) return bad_operands();
    if (operand(0).beside) {
      if (!form.beside_allowed || !(beside = destination(*operand(0).beside, 0))) return bad_operands();
    }
  }
  Draft& draft = emit_control(Control::kCollective);
  draft.instruction.flags |= flags | static_cast<uint32_t>(draft_.collectives.size()) << kCollectiveShift;
  draft.operands.resize(2);
  if (to) write(draft, 0, *to);
  if (beside) write(draft, 1, *beside);
  for (size_t i = 0; i < values.size(); ++i) read(draft, 2 + i, values[i]);
  DraftCollective& collective = draft_.collectives.emplace_back();
  collective.use = form.use;
  if (mask) {
    collective.mask = *mask;
    if (mask->what == Ref::What::kRegister) draft.reads.push_back(mask->number);
  }
  return Status{};
}

Lowering::Done Lowering::warp() {
  return (base_ == "bar" || base_ == "barrier") && !has("warp") ? block_barrier() : collective();
}

}  // namespace cropdl::engine
