// cp.async (not its bulk and tensor forms) and mbarrier (PTX ISA, "Data Movement and Conversion Instructions:
// Asynchronous copy", "mbarrier").
#include "base/format.h"
#include "gpu_state/software/engine/asynchronous.h"
#include "gpu_state/software/engine/lower.h"

namespace cropdl::engine {

// What an instruction of mbarrier does, and which operands it has.
struct Lowering::PhaseUse {
  Instruction::Execute execute = nullptr;
  bool returns = false, tests = false;  // has a destination: a state, or a predicate
  bool wants_count = false, may_count = false, wide = false;
};

Lowering::Done Lowering::copy_groups() {
  if (takes({"async.commit_group", "async.wait_all"})) {
    if (count()) return bad_operands();
    emit(has("commit_group") ? copy_commit : copy_wait_all);
    return Status{};
  }
  if (takes({"async.wait_group"})) {
    auto open = count() == 1 ? literal(operand(0), 4, false) : std::nullopt;
    if (!open) return bad_operands();
    emit(copy_wait).instruction.immediate = static_cast<int64_t>(*open);
    return Status{};
  }
  if (takes({"async.mbarrier.arrive ?noinc ?shared|shared::cta b64"})) {
    if (count() != 1) return bad_operands();
    Area area = has("shared") || has("shared::cta") ? Area::kShared : Area::kGeneric;
    Draft& draft = emit(has("noinc") ? phase_barrier<Phase::kArriveCopiesNoIncrement>
                                     : phase_barrier<Phase::kArriveCopies>);
    draft.operands.resize(2);
    if (!address(draft, operand(0), &area)) return bad_operands();
    draft.instruction.extra |= static_cast<uint32_t>(area) << kAreaShift;
    return Status{};
  }
  return std::nullopt;
}

Lowering::Done Lowering::copy() {
  if (!takes({"async ca|cg shared|shared::cta global ?L2::cache_hint ?L2::64B|L2::128B|L2::256B"}) ||
      now_->opcode.find(".shared") > now_->opcode.find(".global"))
    return std::nullopt;
  size_t most = has("L2::cache_hint") ? 5 : 4;
  if (count() < 3 || count() > most) return bad_operands();
  auto size = literal(operand(2), 4, false);
  if (!size || (*size != 4 && *size != 8 && *size != 16) || (has("cg") && *size != 16)) return bad_operands();
  std::optional<Ref> bytes;
  bool ignore = false, negated = false;
  if (count() > 3 + (has("L2::cache_hint") ? 1u : 0u)) {
    const ptx::Operand& given = operand(3);
    if (const std::string* name = register_name(given);
        name && find_register(*name) && !draft_.registers[*find_register(*name)].lane_bytes) {
      ignore = true;
      negated = given.negated;
      bytes = source(given, 0);
    } else {
      bytes = source(given, 4);
    }
    if (!bytes) return bad_operands();
  }
  // Two addresses: the helper function handles only one, so they are parsed here.
  Draft to, from;
  Area shared = Area::kShared, global = Area::kGlobal;
  if (!address(to, operand(0), &shared) || !address(from, operand(1), &global)) return bad_operands();
  auto fits = [](int64_t offset) { return offset == static_cast<int32_t>(offset); };
  std::optional<Ref> far;
  if (from.instruction.extra & kNoBase) {  // a variable's address is a constant
    far = constant(8, static_cast<uint64_t>(from.instruction.immediate));
    from.instruction.immediate = 0;
  } else {
    far = from.operands[kAddress];
  }
  if (!fits(to.instruction.immediate) || !fits(from.instruction.immediate)) return bad_operands();
  uint32_t extra = static_cast<uint32_t>(*size);
  if (to.instruction.extra & kNoBase) extra |= kToNoBase;
  if (to.instruction.extra & kNarrowAddress) extra |= kToNarrow;
  if (from.instruction.extra & kNarrowAddress) extra |= kFromNarrow;
  if (ignore) extra |= kIgnoreSource;
  Draft& draft = emit(copy_async, extra);
  draft.instruction.immediate = static_cast<int64_t>(static_cast<uint64_t>(from.instruction.immediate) << 32 |
                                                     static_cast<uint32_t>(to.instruction.immediate));
  draft.operands.resize(3);
  if (!(extra & kToNoBase)) read(draft, 0, to.operands[kAddress]);
  read(draft, 1, *far);
  if (bytes) read(draft, 2, *bytes);
  if (negated) draft.instruction.flags |= 1u << 2;
  return Status{};
}

Lowering::Done Lowering::pending_count() {
  if (!takes({"pending_count b64"})) return std::nullopt;
  auto to = count() == 2 ? destination(operand(0), 4) : std::nullopt;
  auto token = count() == 2 ? source(operand(1), 8) : std::nullopt;
  if (!to || !token) return bad_operands();
  Draft& draft = emit(phase_pending);
  write(draft, 0, *to);
  read(draft, 1, *token);
  return Status{};
}

Lowering::PhaseUse Lowering::phase_use() const {
  const std::string_view what = words_[0];
  PhaseUse use;
  if (what == "init") {
    use.execute = phase_barrier<Phase::kInit>;
    use.wants_count = true;
  } else if (what == "inval") {
    use.execute = phase_barrier<Phase::kInvalidate>;
  } else if (what == "arrive" && has("expect_tx")) {
    use.execute = phase_barrier<Phase::kArriveExpect>;
    use.returns = use.wants_count = true;
  } else if (what == "arrive") {
    use.execute = phase_barrier<Phase::kArrive>;
    use.returns = use.may_count = true;
  } else if (what == "arrive_drop") {
    use.execute = phase_barrier<Phase::kArriveDrop>;
    use.returns = use.may_count = true;
  } else if (what == "expect_tx" || what == "complete_tx") {
    use.execute = what == "expect_tx" ? phase_barrier<Phase::kExpect> : phase_barrier<Phase::kComplete>;
    use.wants_count = true;
  } else {
    use.execute = has("parity") ? phase_barrier<Phase::kTestParity> : phase_barrier<Phase::kTest>;
    use.tests = use.wants_count = true;
    use.wide = !has("parity");
  }
  if (has("noComplete")) {
    use.wants_count = true;
    use.may_count = false;
  }
  return use;
}

bool Lowering::is_phase() const {
  return takes({"init ?shared|shared::cta b64",
                "inval ?shared|shared::cta b64",
                "expect_tx ?shared|shared::cta|shared::cluster b64",
                "expect_tx relaxed cta|cluster ?shared|shared::cta|shared::cluster b64",
                "complete_tx ?shared|shared::cta|shared::cluster b64",
                "complete_tx relaxed cta|cluster ?shared|shared::cta|shared::cluster b64",
                "arrive ?shared|shared::cta|shared::cluster b64",
                "arrive release|relaxed cta|cluster ?shared|shared::cta|shared::cluster b64",
                "arrive.expect_tx ?shared|shared::cta|shared::cluster b64",
                "arrive.expect_tx release|relaxed cta|cluster ?shared|shared::cta|shared::cluster b64",
                "arrive.noComplete ?shared|shared::cta b64",
                "arrive.noComplete release cta ?shared|shared::cta b64",
                "arrive_drop ?shared|shared::cta|shared::cluster b64",
                "arrive_drop release|relaxed cta|cluster ?shared|shared::cta|shared::cluster b64",
                "arrive_drop.noComplete ?shared|shared::cta b64",
                "arrive_drop.noComplete release cta ?shared|shared::cta b64",
                "test_wait ?shared|shared::cta b64",
                "test_wait acquire|relaxed cta|cluster ?shared|shared::cta b64",
                "test_wait.parity ?shared|shared::cta b64",
                "test_wait.parity acquire|relaxed cta|cluster ?shared|shared::cta b64",
                "try_wait ?shared|shared::cta b64",
                "try_wait acquire|relaxed cta|cluster ?shared|shared::cta b64",
                "try_wait.parity ?shared|shared::cta b64",
                "try_wait.parity acquire|relaxed cta|cluster ?shared|shared::cta b64"});
}

Lowering::Done Lowering::phase() {
  if (!is_phase()) return std::nullopt;
  Area area = has("shared") || has("shared::cta") || has("shared::cluster") ? Area::kShared : Area::kGeneric;
  const PhaseUse use = phase_use();
  size_t at = 0;
  std::optional<Ref> to, value;
  if (use.returns || use.tests) {
    if (!count() || !(to = destination(operand(at++), use.tests ? 0 : 8))) return bad_operands();
    const std::string* name = register_name(operand(0));
    if (has("shared::cluster") && *name != "_") return error("it gives no state of another block's mbarrier");
  }
  size_t address_at = at++;
  if (address_at >= count()) return bad_operands();
  if (at < count()) {
    if (!use.wants_count && !use.may_count) return bad_operands();
    if (!(value = source(operand(at++), use.wide ? 8 : 4))) return bad_operands();
  } else if (use.wants_count) {
    return bad_operands();
  }
  // the last of which is the maximum waiting time
  if (at < count() && words_[0] != "try_wait") return bad_operands();
  Draft& draft = emit(use.execute);
  draft.operands.resize(2);
  if (!address(draft, operand(address_at), &area)) return bad_operands();
  draft.instruction.extra |= static_cast<uint32_t>(area) << kAreaShift;
  if (to) write(draft, 0, *to);
  if (value) read(draft, 1, *value);
  if (has("noComplete")) draft.instruction.extra |= kNoComplete;
  return Status{};
}

Lowering::Done Lowering::asynchronous() {
  if (base_ == "cp") {
    const Done done = copy_groups();
    return done ? done : copy();
  }
  if (base_ != "mbarrier" || words_.empty()) return std::nullopt;
  return words_[0] == "pending_count" ? pending_count() : phase();
}

}  // namespace cropdl::engine
