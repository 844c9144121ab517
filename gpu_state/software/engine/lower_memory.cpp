// ld, st, atom and red, and .param variables, which are stored in the frame (PTX ISA, "Data Movement and
// Conversion Instructions", "atom", "red").
#include <map>

#include "base/format.h"
#include "gpu_state/software/engine/lower.h"

namespace cropdl::engine {

namespace {

// A .param variable consists of four-byte words, 32 lanes each. Value k of a vector of values of `bytes`
// bytes starts at `immediate` bytes from the start of the variable.
template <class T, class R, bool kStore>
void parameter_access(Warp& warp, const Instruction& in, uint32_t active) {
  const uint32_t n = in.extra & kCountMask;
  for (uint32_t k = 0; k < n; ++k) {
    const uint64_t offset = static_cast<uint64_t>(in.immediate) + k * sizeof(T);
    std::byte* words =
        reinterpret_cast<std::byte*>(warp.lanes<uint32_t>(in.operands[kAddress])) + offset / 4 * 4 * kLanes;
    R* r = warp.lanes<R>(in.operands[k]);
    for (uint32_t l = 0; l < kLanes; ++l) {
      if (!(active >> l & 1)) continue;
      T value;
      constexpr uint32_t kStep = sizeof(T) < 4 ? sizeof(T) : 4;
      std::byte* bytes = reinterpret_cast<std::byte*>(&value);
      if constexpr (kStore) value = static_cast<T>(r[l]);
      for (uint32_t b = 0; b < sizeof(T); b += kStep) {
        std::byte* word =
            words + size_t{b} / 4 * 4 * kLanes + size_t{l} * 4 + (sizeof(T) < 4 ? offset % 4 : 0);
        if constexpr (kStore)
          __builtin_memcpy(word, bytes + b, kStep);
        else
          __builtin_memcpy(bytes + b, word, kStep);
      }
      if constexpr (!kStore) r[l] = static_cast<R>(value);
    }
  }
}

__extension__ using u128 = unsigned __int128;

template <class T, bool kStore>
Instruction::Execute parameter_by_register(uint32_t wide) {
  if (wide == 2 && sizeof(T) <= 2) return parameter_access<T, uint16_t, kStore>;
  if (wide == 4 && sizeof(T) <= 4) return parameter_access<T, uint32_t, kStore>;
  if (wide == 8 && sizeof(T) <= 8) return parameter_access<T, uint64_t, kStore>;
  if (wide == 16) return parameter_access<T, u128, kStore>;
  return nullptr;
}

template <bool kStore>
Instruction::Execute parameter_execute(const NamedType& type, uint32_t wide) {
  switch (type.bytes) {
    case 1:
      return type.is_signed ? parameter_by_register<int8_t, kStore>(wide)
                            : parameter_by_register<uint8_t, kStore>(wide);
    case 2:
      return type.is_signed ? parameter_by_register<int16_t, kStore>(wide)
                            : parameter_by_register<uint16_t, kStore>(wide);
    case 4:
      return type.is_signed ? parameter_by_register<int32_t, kStore>(wide)
                            : parameter_by_register<uint32_t, kStore>(wide);
    case 8:
      return parameter_by_register<uint64_t, kStore>(wide);
    case 16:
      return parameter_by_register<u128, kStore>(wide);
    default:
      return nullptr;
  }
}

std::optional<Area> area_of(std::string_view word) {
  if (word == "global" || word == "const") return Area::kGlobal;
  if (word == "shared" || word == "shared::cta" || word == "shared::cluster") return Area::kShared;
  if (word == "local") return Area::kLocal;
  if (word == "param" || word == "param::entry" || word == "param::func") return Area::kParameter;
  return std::nullopt;
}

// Bytes of a register that can hold an element of that type.
uint32_t register_bytes(const NamedType& type) { return type.bytes == 1 ? 2 : type.bytes; }

}  // namespace

bool Lowering::address(Draft& draft, const ptx::Operand& operand, Area* area) {
  const auto* text = std::get_if<ptx::Address>(&operand.value);
  if (!text || !text->more.empty()) return false;
  auto offset = static_cast<uint64_t>(text->offset);
  draft.instruction.immediate = static_cast<int64_t>(offset);
  if (const auto* integer = std::get_if<ptx::Integer>(&text->base)) {
    draft.instruction.immediate = static_cast<int64_t>(integer->bits + offset);
    draft.instruction.extra |= kNoBase;
    return true;
  }
  if (const auto* base = std::get_if<ptx::Register>(&text->base)) {
    auto number = find_register(base->name);
    if (!number) return false;
    uint32_t bytes = draft_.registers[*number].lane_bytes;
    if (bytes != 4 && bytes != 8) return false;
    if (bytes == 4) draft.instruction.extra |= kNarrowAddress;
    read(draft, kAddress, {Ref::What::kRegister, *number});
    return true;
  }
  const auto& symbol = std::get<ptx::Symbol>(text->base);
  auto found = symbol_address(symbol.name);
  if (!found) return false;
  uint64_t at = *found + static_cast<uint64_t>(symbol.offset) + offset;
  // A variable's own space is known, even if the instruction says generic.
  if (*area == Area::kGeneric) {
    if (around_.shared(symbol.name))
      *area = Area::kShared;
    else if (entry_parameters_.count(symbol.name))
      *area = Area::kParameter;
    else
      *area = Area::kGlobal;
  }
  draft.instruction.immediate = static_cast<int64_t>(at);
  draft.instruction.extra |= kNoBase;
  return true;
}

// An ld, st, atom or red being lowered.
struct Lowering::MemoryUse {
  bool is_load = false, is_store = false, returns = false, is_atomic = false;
  Area area = Area::kGeneric;
  uint32_t elements = 1, extra = 0;
  NamedType type;
  std::optional<Atomic> what;
  bool policy = false;  // has an operand for the caches
  uint32_t wide = 0;    // bytes of its registers: may be more than the type's
  std::vector<Ref> values, results;
  // Order of the operands: destinations, address, sources, cache policy.
  bool destination_first() const { return is_load || returns; }
  size_t address_at() const { return destination_first() ? 1 : 0; }
};

// False: it is another instruction, or not known.
bool Lowering::take_memory_words(MemoryUse& use) const {
  static const std::map<std::string_view, Atomic> kAtomics = {
      {"add", Atomic::kAdd},       {"min", Atomic::kMinimum},   {"max", Atomic::kMaximum},
      {"inc", Atomic::kIncrement}, {"dec", Atomic::kDecrement}, {"and", Atomic::kAnd},
      {"or", Atomic::kOr},         {"xor", Atomic::kXor},       {"exch", Atomic::kExchange},
      {"cas", Atomic::kCompare}};
  use.is_load = base_ == "ld" || base_ == "ldu";
  use.is_store = base_ == "st";
  use.returns = base_ == "atom";
  use.is_atomic = use.returns || base_ == "red";
  if (!use.is_load && !use.is_store && !use.is_atomic) return false;
  std::optional<NamedType> type;
  for (std::string_view word : words_) {
    if (auto space = area_of(word)) {
      use.area = *space;
    } else if (use.elements == 1 && (word == "v2" || word == "v4" || word == "v8")) {
      use.elements = static_cast<uint32_t>(word[1] - '0');
    } else if (use.is_atomic && !use.what && kAtomics.count(word)) {
      use.what = kAtomics.at(word);
    } else if (auto named = named_type(word); named && !named->is_predicate && !type) {
      type = named;
    } else if (!is_silent(word)) {
      return false;
    }
    if (use.is_load &&
        (word == "volatile" || word == "relaxed" || word == "acquire" || word == "mmio" || word == "cv"))
      use.extra |= kPoll;
    use.policy |= word == "L2::cache_hint";
  }
  if (!type || (use.is_atomic && !use.what)) return false;
  use.type = *type;
  return true;
}

// Whether there are atomic operations of that type and space. nullopt: not known.
Lowering::Done Lowering::atomic_type(const MemoryUse& use) const {
  if (!use.is_atomic) return Status{};
  if (use.elements > 1) {
    if (use.type.number < Number::kFloat || use.type.bytes == 8) return std::nullopt;
    if (use.area == Area::kShared) return error("a vector's atomics are of global memory only");
  }
  const bool small = use.type.number > Number::kFloat;
  if (small != has("noftz"))
    return error(small ? "a sum of that type is .noftz" : ".noftz is of f16 and bf16");
  if (small && use.elements == 1 && use.what != Atomic::kAdd)
    return error("of a single f16 or bf16 there is add only");
  return Status{};
}

// False: its operands are not those of this instruction.
bool Lowering::memory_operands(MemoryUse& use) {
  const size_t sources = use.is_load ? 0 : use.what == Atomic::kCompare ? 2 : 1;
  if (count() != use.address_at() + 1 + sources + (use.policy ? 1 : 0)) return false;
  use.wide = register_bytes(use.type);
  // Registers may be wider than the type; all registers of a vector have the same width.
  auto widest = [&](const std::vector<const ptx::Operand*>& all) {
    for (const ptx::Operand* one : all)
      if (const std::string* name = register_name(*one))
        if (auto number = find_register(*name)) return draft_.registers[*number].lane_bytes;
    return use.wide;
  };
  for (size_t s = 0; s < sources; ++s) {
    auto all = elements_of(operand(use.address_at() + 1 + s));
    if (all.size() != use.elements) return false;
    if (use.is_store) use.wide = std::max(use.wide, widest(all));
    for (const ptx::Operand* one : all) {
      auto ref = source(*one, use.wide, use.type.is_float);
      if (!ref && use.is_store) ref = source(*one, use.wide);
      if (!ref) return false;
      use.values.push_back(*ref);
    }
  }
  if (!use.destination_first()) return true;
  auto all = elements_of(operand(0));
  if (all.size() != use.elements) return false;
  if (use.is_load) use.wide = std::max(use.wide, widest(all));
  for (const ptx::Operand* one : all) {
    auto ref = destination(*one, use.wide);
    if (!ref) return false;
    use.results.push_back(*ref);
  }
  return true;
}

// .param variables of the body or of a device function. nullopt: its address is no such variable.
Lowering::Done Lowering::parameter(const MemoryUse& use) {
  if (use.is_atomic || (use.area != Area::kParameter && use.area != Area::kGeneric)) return std::nullopt;
  const auto* text = std::get_if<ptx::Address>(&operand(use.address_at()).value);
  const auto* symbol = text ? std::get_if<ptx::Symbol>(&text->base) : nullptr;
  auto found = symbol ? parameters_.find(symbol->name) : parameters_.end();
  if (found == parameters_.end()) {
    if (use.area == Area::kParameter && use.is_store)
      return error("there is no such parameter that can be written");
    return std::nullopt;
  }
  auto offset = static_cast<uint64_t>(symbol->offset + text->offset);
  if (offset % use.type.bytes || offset + uint64_t{use.type.bytes} * use.elements > found->second.second)
    return error("it is outside of the parameter, or misaligned");
  auto execute = use.is_load ? parameter_execute<false>(use.type, use.wide)
                             : parameter_execute<true>(use.type, use.wide);
  if (!execute) return bad_operands();
  Draft& draft = emit(execute, use.elements);
  draft.instruction.immediate = static_cast<int64_t>(offset);
  for (size_t k = 0; k < use.elements; ++k)
    use.is_load ? write(draft, k, use.results[k]) : read(draft, k, use.values[k]);
  Ref variable{Ref::What::kRegister, found->second.first};
  use.is_load ? read(draft, kAddress, variable) : write(draft, kAddress, variable);
  return Status{};
}

// nullptr: there is none.
Instruction::Execute Lowering::memory_function(const MemoryUse& use, Area area) {
  if (!use.is_atomic) {
    MemoryForm form;
    form.store = use.is_store;
    form.area = area;
    form.size = static_cast<uint8_t>(use.type.bytes);
    form.wide = static_cast<uint8_t>(use.wide);
    form.is_signed = use.type.is_signed;
    return memory_execute(form);
  }
  AtomicForm form;
  form.what = *use.what;
  form.number = use.type.number;
  if (form.what == Atomic::kAnd || form.what == Atomic::kOr || form.what == Atomic::kXor ||
      form.what == Atomic::kExchange || form.what == Atomic::kCompare) {
    if (use.type.is_float || use.type.number >= Number::kFloat) return nullptr;
    form.number = Number::kBits;
  }
  form.size = static_cast<uint8_t>(use.type.bytes);
  form.returns = use.returns;
  form.area = area;
  return atomic_execute(form);
}

Lowering::Done Lowering::memory() {
  MemoryUse use;
  if (!take_memory_words(use)) return std::nullopt;
  if (std::string why = memory_words_wrong(); !why.empty()) return error(why);
  if (use.elements * use.type.bytes > 16)
    return error("a vector of more than 16 bytes is of sm_100 and later");
  if (Done done = atomic_type(use); !done || !*done) return done;
  if (!memory_operands(use)) return bad_operands();
  if (Done done = parameter(use)) return done;

  // The base is a local variable: its address depends on the frame.
  const ptx::Operand& place_text = operand(use.address_at());
  std::optional<Ref> base;
  if (const auto* text = std::get_if<ptx::Address>(&place_text.value))
    if (const auto* symbol = std::get_if<ptx::Symbol>(&text->base); symbol && is_local(symbol->name))
      base = fetch_local(local_.at(symbol->name) + static_cast<uint64_t>(symbol->offset));
  Area area = use.area;
  Draft& draft = emit(nullptr, use.extra | use.elements);
  if (base) {
    area = Area::kLocal;
    draft.instruction.immediate = std::get<ptx::Address>(place_text.value).offset;
    read(draft, kAddress, *base);
  } else if (!address(draft, place_text, &area)) {
    return error("its address cannot be read");
  }
  draft.instruction.extra |= static_cast<uint32_t>(area) << kAreaShift;
  draft.instruction.execute = memory_function(use, area);
  if (!draft.instruction.execute) {
    draft_.code.pop_back();
    return std::nullopt;
  }
  if (use.returns && use.elements == kMostElements) {
    if (draft.operands.size() > kAddress) read(draft, kManyAddress, draft.operands[kAddress]);
    read(draft, kManyOffset, constant(8, static_cast<uint64_t>(draft.instruction.immediate)));
  }
  size_t place = 0;
  for (const Ref& ref : use.results) write(draft, place++, ref);
  for (const Ref& ref : use.values) read(draft, place++, ref);
  return Status{};
}

}  // namespace cropdl::engine
