// Instructions that need a later target than the text's: NVIDIA's assembler refuses them, and so does a
// device that compiles the text (PTX ISA, "Target ISA Notes" of each instruction; as in ptxas of CUDA 13.0).
// Instructions that every target since sm_70 has are not listed.
#include <algorithm>
#include <map>

#include "gpu_state/software/engine/lower.h"

namespace cropdl::engine {

namespace {

using Words = std::vector<std::string_view>;

struct Need {
  int target;
  Words all;  // all of these must be among the instruction's words
  Words any;  // and, if not empty, one of these
};

const Words kBrains = {"bf16", "bf16x2"}, kPairs = {"s16x2", "u16x2"}, kBytes = {"e4m3", "e5m2"};

// By the instruction's first word; "": any instruction.
const std::multimap<std::string_view, Need>& needs() {
  static const std::multimap<std::string_view, Need> kNeeds = {
      {"", {80, {}, {"L2::cache_hint", "L2::256B"}}},
      {"", {90, {}, {"cluster", "shared::cluster"}}},
      {"ldmatrix", {75, {}, {}}},
      {"movmatrix", {75, {}, {}}},
      {"tanh", {75, {}, {}}},
      {"ex2", {75, {}, {"f16", "f16x2"}}},
      {"redux", {80, {}, {}}},
      {"cp", {80, {"async"}, {}}},
      {"mbarrier", {80, {}, {}}},
      {"mbarrier", {90, {}, {"expect_tx", "complete_tx", "try_wait", "relaxed"}}},
      {"createpolicy", {80, {}, {}}},
      {"applypriority", {80, {}, {}}},
      {"discard", {80, {}, {}}},
      {"prefetch", {80, {}, {"L2::evict_last", "L2::evict_normal"}}},
      {"elect", {90, {}, {}}},
      {"stmatrix", {90, {}, {}}},
      {"mapa", {90, {}, {}}},
      {"getctarank", {90, {}, {}}},
      {"griddepcontrol", {90, {}, {}}},
      {"setmaxnreg", {90, {}, {}}},
      {"fence", {90, {}, {"async", "async::generic", "mbarrier_init"}}},
      {"atom", {90, {}, {"bf16", "bf16x2", "v2", "v4", "v8", "b128"}}},
      {"red", {90, {}, {"bf16", "bf16x2", "v2", "v4", "v8"}}},
      {"mma", {75, {}, {}}},
      {"mma",
       {80,
        {},
        {"m16n8k16", "m16n8k32", "m16n8k64", "m16n8k128", "m16n8k256", "bf16", "tf32", "f64", "and"}}},
      {"mma", {89, {}, kBytes}},
      {"mma", {90, {"f64"}, {"m16n8k4", "m16n8k8", "m16n8k16"}}},
      {"wmma", {75, {}, {"s8", "u8", "s32"}}},
      {"wmma", {80, {}, {"bf16", "tf32", "f64", "m16n16k8", "m8n8k4"}}},
      {"cvt", {75, {"pack"}, {}}},
      {"cvt", {80, {}, {"bf16", "bf16x2", "f16x2", "tf32", "relu"}}},
      {"cvt", {89, {}, {"e4m3x2", "e5m2x2"}}},
      {"cvt", {90, {"tf32", "rn"}, {}}},
      {"cvt", {90, {"tf32", "rz"}, {}}},
      {"cvt", {100, {"tf32", "satfinite"}, {"rn", "rz"}}},
      {"fma", {80, {}, {"bf16", "bf16x2", "relu"}}},
      {"neg", {80, {}, kBrains}},
      {"abs", {80, {}, kBrains}},
      {"min", {80, {}, {"f16", "f16x2", "bf16", "bf16x2", "NaN"}}},
      {"max", {80, {}, {"f16", "f16x2", "bf16", "bf16x2", "NaN"}}},
      {"min", {86, {"xorsign"}, {}}},
      {"max", {86, {"xorsign"}, {}}},
      {"min", {90, {}, kPairs}},
      {"max", {90, {}, kPairs}},
      {"min", {90, {"relu", "s32"}, {}}},
      {"max", {90, {"relu", "s32"}, {}}},
      {"add", {90, {}, kPairs}},
      {"add", {90, {}, kBrains}},
      {"sub", {90, {}, kBrains}},
      {"mul", {90, {}, kBrains}},
      {"set", {90, {}, kBrains}},
      {"setp", {90, {}, kBrains}},
      {"ex2", {90, {}, kBrains}},
      {"tanh", {90, {}, kBrains}},
  };
  return kNeeds;
}

}  // namespace

int Lowering::least_target_of(const ptx::Operand& operand) const {
  int least = 0;
  if (const auto* vector = std::get_if<ptx::Vector>(&operand.value))
    for (const ptx::Operand& one : vector->elements) least = std::max(least, least_target_of(one));
  const auto* name = std::get_if<ptx::Register>(&operand.value);
  if (const auto* address = std::get_if<ptx::Address>(&operand.value))
    name = std::get_if<ptx::Register>(&address->base);
  if (!name || !name->name.starts_with("%") || find_register(name->name)) return least;
  for (std::string_view clusters : {"%cluster", "%ncluster", "%is_explicit_cluster", "%aggr_smem_size"})
    if (name->name.starts_with(clusters)) return 90;
  return name->name.starts_with("%reserved_smem") ? 80 : least;
}

int Lowering::least_target() const {
  auto there = [&](std::string_view word) { return has(word); };
  int least = 0;
  for (std::string_view name : {std::string_view(), base_}) {
    auto [from, to] = needs().equal_range(name);
    for (auto at = from; at != to; ++at) {
      const Need& need = at->second;
      if (std::all_of(need.all.begin(), need.all.end(), there) &&
          (need.any.empty() || std::any_of(need.any.begin(), need.any.end(), there)))
        least = std::max(least, need.target);
    }
  }
  // Conversions between bf16 and anything except f32.
  if (base_ == "cvt" && has("bf16") && !has("f32")) least = std::max(least, 90);
  if (base_ == "mbarrier" && (has("arrive") || has("arrive_drop")) && count() > 2 && !has("noComplete"))
    least = std::max(least, 90);
  for (const ptx::Operand& operand : now_->operands) least = std::max(least, least_target_of(operand));
  return least;
}

}  // namespace cropdl::engine
