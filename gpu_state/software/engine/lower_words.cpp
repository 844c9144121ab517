// The modifiers that an instruction may have: exactly those that NVIDIA's assembler accepts, so that no text
// runs as something else (PTX ISA, "Syntax" of each instruction; as in ptxas of CUDA 13.0: the words of the
// name come first, the others in any order).
#include <algorithm>
#include <array>
#include <map>

#include "gpu_state/software/engine/lower.h"

namespace cropdl::engine {

namespace {

// Returns the text before the separator; `rest` becomes the text after it.
std::string_view cut(std::string_view& rest, char separator) {
  size_t at = rest.find(separator);
  std::string_view first = rest.substr(0, at);
  rest = at == rest.npos ? std::string_view() : rest.substr(at + 1);
  return first;
}

bool is_one_of(std::string_view word, std::string_view alternatives) {
  while (!alternatives.empty())
    if (cut(alternatives, '|') == word) return true;
  return false;
}

bool fits(const std::vector<std::string_view>& words, std::string_view form) {
  size_t at = 0;
  for (std::string_view name = cut(form, ' '); !name.empty(); ++at)
    if (at >= words.size() || words[at] != cut(name, '.')) return false;
  struct Slot {
    std::string_view alternatives;
    bool wanted;
  };
  std::array<Slot, 8> slots;
  size_t count = 0;
  while (!form.empty()) {
    std::string_view one = cut(form, ' ');
    bool optional = one.starts_with('?');
    slots[count++] = {one.substr(optional), !optional};
  }
  for (; at < words.size(); ++at) {
    size_t i = 0;
    while (i < count && !is_one_of(words[at], slots[i].alternatives)) ++i;
    if (i == count) return false;
    slots[i] = {};
  }
  return std::none_of(slots.begin(), slots.begin() + count, [](const Slot& slot) { return slot.wanted; });
}

// Kinds of words of ld, ldu, st, atom and red; each instruction has at most one of a kind.
enum Sort {
  kSpace,
  kOrder,
  kScope,
  kCache,
  kMapped,
  kReadOnly,
  kPriority,
  kPrefetch,
  kPolicy,
  kFlush,
  kSorts
};
struct Word {
  Sort sort;
  std::string_view of;  // l(d), s(t), a(tom), r(ed), u: ldu
};

const std::map<std::string_view, Word>& memory_words() {
  static const std::map<std::string_view, Word> kWords = {{"global", {kSpace, "lsaru"}},
                                                          {"shared", {kSpace, "lsar"}},
                                                          {"shared::cta", {kSpace, "lsar"}},
                                                          {"shared::cluster", {kSpace, "lsar"}},
                                                          {"const", {kSpace, "l"}},
                                                          {"local", {kSpace, "ls"}},
                                                          {"param", {kSpace, "ls"}},
                                                          {"param::entry", {kSpace, "l"}},
                                                          {"param::func", {kSpace, "ls"}},
                                                          {"weak", {kOrder, "ls"}},
                                                          {"volatile", {kOrder, "ls"}},
                                                          {"relaxed", {kOrder, "lsar"}},
                                                          {"acquire", {kOrder, "la"}},
                                                          {"release", {kOrder, "sar"}},
                                                          {"acq_rel", {kOrder, "a"}},
                                                          {"cta", {kScope, "lsar"}},
                                                          {"cluster", {kScope, "lsar"}},
                                                          {"gpu", {kScope, "lsar"}},
                                                          {"sys", {kScope, "lsar"}},
                                                          {"ca", {kCache, "l"}},
                                                          {"cg", {kCache, "ls"}},
                                                          {"cs", {kCache, "ls"}},
                                                          {"lu", {kCache, "l"}},
                                                          {"cv", {kCache, "l"}},
                                                          {"wb", {kCache, "s"}},
                                                          {"wt", {kCache, "s"}},
                                                          {"mmio", {kMapped, "ls"}},
                                                          {"nc", {kReadOnly, "l"}},
                                                          {"L1::evict_normal", {kPriority, "ls"}},
                                                          {"L1::evict_unchanged", {kPriority, "ls"}},
                                                          {"L1::evict_first", {kPriority, "ls"}},
                                                          {"L1::evict_last", {kPriority, "ls"}},
                                                          {"L1::no_allocate", {kPriority, "ls"}},
                                                          {"L2::64B", {kPrefetch, "l"}},
                                                          {"L2::128B", {kPrefetch, "l"}},
                                                          {"L2::256B", {kPrefetch, "l"}},
                                                          {"L2::cache_hint", {kPolicy, "lsar"}},
                                                          {"noftz", {kFlush, "ar"}}};
  return kWords;
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

bool Lowering::takes(std::initializer_list<std::string_view> forms) const {
  return std::any_of(forms.begin(), forms.end(), [&](std::string_view form) { return fits(words_, form); });
}

bool Lowering::is_silent(std::string_view word) {
  auto found = memory_words().find(word);
  return found != memory_words().end() && found->second.sort != kSpace;
}

std::string Lowering::memory_words_wrong() const {
  const char of = base_ == "ldu" ? 'u' : base_[0];
  std::array<std::string_view, kSorts> is{};
  for (std::string_view word : words_) {
    auto found = memory_words().find(word);
    if (found == memory_words().end()) continue;
    auto [sort, bases] = found->second;
    if (sort == kSpace && !is[kSpace].empty()) return "it names two state spaces";
    if (sort == kSpace && bases.find(of) == bases.npos && (of == 'a' || of == 'r'))
      return "there are no atomics in that state space";
    if (bases.find(of) == bases.npos) return std::string(base_) + " has no ." + std::string(word);
    if (!is[sort].empty())
      return "." + std::string(is[sort]) + " and ." + std::string(word) + " do not go together";
    is[sort] = word;
  }
  auto there = [&](Sort sort) { return !is[sort].empty(); };
  const bool is_atomic = of == 'a' || of == 'r', is_volatile = is[kOrder] == "volatile";
  const bool is_ordered = there(kOrder) && !is_volatile && is[kOrder] != "weak";
  const bool global = is[kSpace].empty() || is[kSpace] == "global";
  const bool shared = is[kSpace].starts_with("shared");
  if (!is_atomic && is_ordered != there(kScope))
    return is_ordered ? "." + std::string(is[kOrder]) + " without a scope"
                      : "." + std::string(is[kScope]) + " is a scope, and there is no order";
  if ((is_ordered || is_volatile) && !global && !shared) return "there is no order in that state space";
  if ((is_ordered || is_volatile) && there(kCache) && !is_atomic)
    return "." + std::string(is[kCache]) + " and an order do not go together";
  if (there(kMapped) && (is[kOrder] != "relaxed" || is[kScope] != "sys" || !global))
    return ".mmio without .relaxed.sys, or not of global memory";
  if (there(kReadOnly) &&
      (is[kSpace] != "global" || there(kOrder) || is[kCache] == "lu" || is[kCache] == "cv"))
    return ".nc is of global memory, without an order";
  if ((there(kPriority) || there(kPrefetch) || there(kPolicy)) && !global)
    return "caches are asked something of global memory only";
  if (there(kPriority) && there(kCache))
    return "." + std::string(is[kCache]) + " and ." + std::string(is[kPriority]) + " do not go together";
  if (is_volatile && (there(kPriority) || there(kPolicy))) return ".volatile is not cached";
  return {};
}

}  // namespace cropdl::engine
