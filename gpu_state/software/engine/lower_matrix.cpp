// ldmatrix, stmatrix, wmma.load, wmma.store, wmma.mma (PTX ISA, "Warp-level matrix instructions"). Not built:
// 4-bit and 1-bit elements, and matrices that no sm up to 90 has.
#include <algorithm>

#include "base/format.h"
#include "gpu_state/software/engine/lower.h"
#include "gpu_state/software/engine/matrix.h"

namespace cropdl::engine {

namespace {

using Element = MatrixUse::Element;

std::optional<Element> element_of(std::string_view word) {
  if (word == "f16") return Element::kHalf;
  if (word == "bf16") return Element::kBrain;
  if (word == "tf32") return Element::kTensorFloat;
  if (word == "f32") return Element::kFloat;
  if (word == "f64") return Element::kDouble;
  if (word == "s8") return Element::kSigned8;
  if (word == "u8") return Element::kUnsigned8;
  if (word == "s32") return Element::kSigned32;
  return std::nullopt;
}

struct Shape {
  std::string_view name;
  uint32_t m, n, k;
};
constexpr Shape kShapes[] = {{"m16n16k16", 16, 16, 16},
                             {"m32n8k16", 32, 8, 16},
                             {"m8n32k16", 8, 32, 16},
                             {"m16n16k8", 16, 16, 8},
                             {"m8n8k4", 8, 8, 4}};

bool fits(Element a, std::string_view shape) {
  if (a == Element::kTensorFloat) return shape == "m16n16k8";
  if (a == Element::kDouble) return shape == "m8n8k4";
  return shape == "m16n16k16" || shape == "m32n8k16" || shape == "m8n32k16";
}

// Registers of a fragment ("Matrix Fragments for WMMA"); in f16's a and b, each element has room at least
// twice.
uint32_t registers_of(Element element, uint32_t elements, bool is_factor) {
  if (is_factor && element == Element::kHalf) return 8;
  return elements * bytes_of(element) / kLanes / (element == Element::kDouble ? 8 : 4);
}

}  // namespace

// A matrix instruction being lowered. The operands are its registers, without those of the address.
struct Lowering::MatrixForm {
  MatrixUse use;
  Area area = Area::kGeneric;
  std::vector<Ref> sources, destinations;
  std::optional<size_t> address_at;  // operand
  std::optional<Ref> stride;
};

// What the words of a wmma instruction say beside MatrixForm.
struct Lowering::MatrixWords {
  std::vector<MatrixUse::Element> elements;
  std::string_view shape;
  std::optional<char> which;  // of the matrices a, b, c and d
};

// Adds the registers of an operand. False: they are not `count` registers or values of that width.
bool Lowering::take(MatrixForm& form, const ptx::Operand& operand, uint32_t count, uint32_t bytes,
                    bool write) {
  auto all = elements_of(operand);
  if (all.size() != count) return false;
  for (const ptx::Operand* one : all) {
    auto ref = write ? destination(*one, bytes) : source(*one, bytes);
    if (!ref) return false;
    (write ? form.destinations : form.sources).push_back(*ref);
  }
  return true;
}

Lowering::Done Lowering::matrix_rows(MatrixForm& form) {
  const bool load_rows = base_ == "ldmatrix";
  MatrixUse& use = form.use;
  for (std::string_view word : words_) {
    if (word == "x1" || word == "x2" || word == "x4")
      use.count_a = static_cast<uint32_t>(word[1] - '0');
    else if (word == "trans")
      use.transposed = true;
    else if (word == "shared" || word == "shared::cta")
      form.area = Area::kShared;
    else if (word != "sync" && word != "aligned" && word != "m8n8" && word != "b16")
      return std::nullopt;
  }
  if (!use.count_a || !has("m8n8") || !has("b16") || count() != 2) return std::nullopt;
  use.what = load_rows ? MatrixUse::What::kLoadRows : MatrixUse::What::kStoreRows;
  if (!take(form, operand(load_rows ? 0 : 1), use.count_a, 4, load_rows)) return bad_operands();
  form.address_at = load_rows ? 1 : 0;
  return Status{};
}

std::optional<Lowering::MatrixWords> Lowering::matrix_words(MatrixForm& form) const {
  MatrixWords words;
  MatrixUse& use = form.use;
  for (size_t i = 0; i < words_.size(); ++i) {
    std::string_view word = words_[i];
    auto found = std::find_if(std::begin(kShapes), std::end(kShapes),
                              [&](const Shape& one) { return one.name == word; });
    if (found != std::end(kShapes)) {
      words.shape = word;
      use.m = found->m, use.n = found->n, use.k = found->k;
    } else if (auto element = element_of(word)) {
      words.elements.push_back(*element);
    } else if (word == "a" || word == "b" || word == "c" || word == "d") {
      words.which = word[0];
    } else if (word == "shared" || word == "shared::cta") {
      form.area = Area::kShared;
    } else if (word == "global") {
      form.area = Area::kGlobal;
    } else if (word == "col" || word == "row") {
      use.column_major = word == "col";
    } else if (word == "satfinite") {
      use.saturate = true;
    } else if (word != "sync" && word != "aligned" && word != "load" && word != "store" && word != "mma" &&
               word != "rn") {
      return std::nullopt;
    }
  }
  if (words.shape.empty() || words.elements.empty()) return std::nullopt;
  return words;
}

Lowering::Done Lowering::matrix_product(MatrixForm& form, const MatrixWords& words) {
  MatrixUse& use = form.use;
  use.what = MatrixUse::What::kMultiply;
  if (words.elements.size() == 2) {  // types of d and c; the factors are f16
    use.d = words.elements[0], use.c = words.elements[1], use.a = use.b = Element::kHalf;
  } else if (words.elements.size() == 4) {
    use.d = words.elements[0], use.a = words.elements[1], use.b = words.elements[2],
    use.c = words.elements[3];
  } else {
    return std::nullopt;
  }
  if (use.a != use.b || !fits(use.a, words.shape) || count() != 4) return std::nullopt;
  bool integer = use.a == Element::kSigned8 || use.a == Element::kUnsigned8;
  bool right = integer                     ? use.c == Element::kSigned32 && use.d == Element::kSigned32
               : use.a == Element::kDouble ? use.c == Element::kDouble && use.d == Element::kDouble
               : use.a == Element::kHalf   ? (use.c == Element::kHalf || use.c == Element::kFloat) &&
                                               (use.d == Element::kHalf || use.d == Element::kFloat)
                                         : use.c == Element::kFloat && use.d == Element::kFloat;
  if (!right || (use.saturate && !integer)) return std::nullopt;
  use.count_d = registers_of(use.d, use.m * use.n, false);
  use.count_a = registers_of(use.a, use.m * use.k, true);
  use.count_b = registers_of(use.b, use.k * use.n, true);
  use.count_c = registers_of(use.c, use.m * use.n, false);
  uint32_t bytes = use.a == Element::kDouble ? 8 : 4;
  if (!take(form, operand(0), use.count_d, bytes, true) ||
      !take(form, operand(1), use.count_a, bytes, false) ||
      !take(form, operand(2), use.count_b, bytes, false) ||
      !take(form, operand(3), use.count_c, bytes, false))
    return bad_operands();
  return Status{};
}

// wmma.load and wmma.store.
Lowering::Done Lowering::matrix_fragment(MatrixForm& form, const MatrixWords& words) {
  MatrixUse& use = form.use;
  const bool store = has("store");
  if (!store && !has("load")) return std::nullopt;
  if (words.elements.size() != 1 || !words.which || store != (*words.which == 'd')) return std::nullopt;
  use.what = store ? MatrixUse::What::kStore : MatrixUse::What::kLoad;
  use.a = words.elements[0];
  bool is_factor = *words.which == 'a' || *words.which == 'b';
  if (is_factor && !fits(use.a, words.shape)) return std::nullopt;
  use.rows = *words.which == 'b' ? use.k : use.m;
  use.columns = *words.which == 'a' ? use.k : use.n;
  use.count_a = registers_of(use.a, use.rows * use.columns, is_factor);
  if (count() < 2 || count() > 3) return bad_operands();
  if (!take(form, operand(store ? 1 : 0), use.count_a, use.a == Element::kDouble ? 8 : 4, !store))
    return bad_operands();
  form.address_at = store ? 0 : 1;
  if (count() == 3) {
    if (!(form.stride = source(operand(2), 4))) return bad_operands();
    use.has_stride = true;
  }
  return Status{};
}

Lowering::Done Lowering::matrix() {
  const bool rows = base_ == "ldmatrix" || base_ == "stmatrix";
  if (!rows && base_ != "wmma") return std::nullopt;
  MatrixForm form;
  MatrixUse& use = form.use;
  const auto words = rows ? std::nullopt : matrix_words(form);
  if (!rows && !words) return std::nullopt;
  Done done = rows         ? matrix_rows(form)
              : has("mma") ? matrix_product(form, *words)
                           : matrix_fragment(form, *words);
  if (!done || !*done) return done;
  Draft& draft = emit_control(Control::kCollective);
  draft.instruction.execute = matrix_execute;
  draft.instruction.flags |= static_cast<uint32_t>(draft_.collectives.size()) << kCollectiveShift;
  DraftCollective& collective = draft_.collectives.emplace_back();
  collective.use.kind = Collective::kData;
  collective.use.everybody = true;
  size_t place = 0;
  if (form.address_at) {
    Draft where;
    if (!address(where, operand(*form.address_at), &form.area)) return bad_operands();
    use.offset = where.instruction.immediate;
    use.narrow = where.instruction.extra & kNarrowAddress;
    use.no_base = where.instruction.extra & kNoBase;
    for (const Ref& ref : form.destinations) write(draft, place++, ref);
    for (const Ref& ref : form.sources) read(draft, place++, ref);
    if (!use.no_base) read(draft, place, where.operands[kAddress]);
    ++place;
    if (form.stride) read(draft, place, *form.stride);
    ++place;
  } else {
    for (const Ref& ref : form.destinations) write(draft, place++, ref);
    for (const Ref& ref : form.sources) read(draft, place++, ref);
  }
  use.area = static_cast<uint8_t>(form.area);
  if (draft.operands.size() <= Instruction::kOperands)
    draft.operands.resize(Instruction::kOperands + 1);  // all operands are in `many`
  draft.instruction.extra |= static_cast<uint32_t>(draft_.matrices.size());
  draft_.matrices.push_back(use);
  return Status{};
}

}  // namespace cropdl::engine
