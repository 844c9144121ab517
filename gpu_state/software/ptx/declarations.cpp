#include "gpu_state/software/ptx/declarations.h"

#include <array>
#include <utility>

#include "base/format.h"
#include "gpu_state/software/ptx/constant.h"

namespace cropdl::ptx {

namespace {

constexpr uint64_t kLargest = uint64_t{1} << 46;  // maximum bytes of a variable: no address space has more
constexpr uint64_t kLongest = 1 << 24;            // maximum scalars of an initialiser
constexpr int kMostRegisters = 1 << 22;  // maximum of one range: a damaged text must not exhaust memory

constexpr std::array<std::pair<std::string_view, Type>, 23> kTypes = {{
    {".pred", Type::kPred},       {".b8", Type::kB8},
    {".b16", Type::kB16},         {".b32", Type::kB32},
    {".b64", Type::kB64},         {".b128", Type::kB128},
    {".u8", Type::kU8},           {".u16", Type::kU16},
    {".u32", Type::kU32},         {".u64", Type::kU64},
    {".s8", Type::kS8},           {".s16", Type::kS16},
    {".s32", Type::kS32},         {".s64", Type::kS64},
    {".f16", Type::kF16},         {".f16x2", Type::kF16x2},
    {".bf16", Type::kBF16},       {".f32", Type::kF32},
    {".bf16x2", Type::kBF16x2},   {".f64", Type::kF64},
    {".texref", Type::kTexref},   {".samplerref", Type::kSamplerref},
    {".surfref", Type::kSurfref},
}};
constexpr std::array<std::pair<std::string_view, Space>, 7> kSpaces = {{
    {".reg", Space::kReg},
    {".const", Space::kConst},
    {".global", Space::kGlobal},
    {".local", Space::kLocal},
    {".param", Space::kParam},
    {".shared", Space::kShared},
    {".tex", Space::kTex},
}};

template <class Table, class Value>
bool look_up(const Table& table, std::string_view name, Value* value) {
  for (const auto& [text, its] : table)
    if (text == name) {
      *value = its;
      return true;
    }
  return false;
}

bool is_opaque(Type type) {
  return type == Type::kTexref || type == Type::kSamplerref || type == Type::kSurfref;
}

// Everything before the names: linking, space, alignment, type.
Variable parse_head(Cursor& cursor) {
  Variable head;
  bool points = false;  // space and alignment after .ptr describe the pointed-to memory
  while (cursor.sees(TokenKind::kDotted)) {
    Token token = cursor.take();
    std::string_view word = token.text;
    Space space;
    Type type;
    if (word == ".extern") {
      head.is_extern = true;
    } else if (word == ".visible") {
      head.is_visible = true;
    } else if (word == ".weak") {
      head.is_weak = true;
    } else if (word == ".common") {
      head.is_common = true;
    } else if (word == ".ptr") {
      points = true;
    } else if (word == ".attribute") {
      skip_attribute(cursor, &head.is_managed);
    } else if (word == ".align") {
      uint64_t align = parse_count(cursor, 1, 1 << 20, "an alignment");
      if (align & (align - 1))
        cursor.fail(token.line, formatted("the alignment {} is no power of two", align));
      if (!points) head.align = align;
    } else if (word == ".v2" || word == ".v4" || word == ".v8") {
      head.vector = word[2] - '0';
    } else if (look_up(kSpaces, word, &space)) {
      if (!points) head.space = space;
      // .shared::cta, and the banks of old versions (.const[3]), do not affect the declaration.
      if (space == Space::kConst && cursor.sees("[") && cursor.sees("]", 2)) {
        cursor.fail(token.line, "banks of constant memory (.const[n]) went with PTX 2.2");
      }
    } else if (word == ".shared::cta") {
      if (!points) head.space = Space::kShared;
    } else if (look_up(kTypes, word, &type)) {
      head.type = type;
    } else {
      cursor.fail(token.line, formatted("expected a state space, a type or a name, found '{}'", word));
    }
  }
  return head;
}

class Initialiser {
 public:
  Initialiser(Cursor& cursor, std::vector<uint64_t> dimensions)
      : cursor_(cursor), dimensions_(std::move(dimensions)) {}

  // The first dimension may be 0 (not given): the initialiser determines it.
  std::vector<Initial> parse(uint64_t* first_dimension) {
    if (dimensions_.empty()) {
      values_.push_back(scalar());
    } else {
      uint64_t outer = level(0, 0);
      if (*first_dimension == 0) *first_dimension = outer;
    }
    return std::move(values_);
  }

 private:
  // Parses one { } at that depth, whose values start at `place`. Returns the number of elements in its
  // dimension.
  uint64_t level(size_t depth, uint64_t place) {
    uint64_t elements = 1;  // scalars in one element of this dimension
    for (size_t i = depth + 1; i < dimensions_.size(); i++) elements *= dimensions_[i];
    uint64_t count = 0, scalars = 0;
    cursor_.expect("{");
    while (!cursor_.failed() && !cursor_.sees("}")) {
      if (cursor_.sees("{") && depth + 1 < dimensions_.size()) {
        check(depth, count);
        level(depth + 1, place + count * elements);
        count++;
      } else {
        // Inner braces are optional: scalars then fill the dimensions in order.
        check(depth, (count * elements + scalars) / elements);
        put(place + count * elements + scalars, scalar());
        if (++scalars == elements) count++, scalars = 0;
      }
      if (!cursor_.accept(",")) break;
    }
    cursor_.expect("}");
    return count + (scalars ? 1 : 0);
  }

  void check(size_t depth, uint64_t index) {
    if (dimensions_[depth] && index >= dimensions_[depth])
      cursor_.fail(cursor_.line(),
                   formatted("this initialiser has more than {} elements", dimensions_[depth]));
  }

  void put(uint64_t place, Initial value) {
    if (cursor_.failed()) return;
    if (place > kLongest) return cursor_.fail(cursor_.line(), "this initialiser is too long");
    while (values_.size() < place) values_.push_back({Integer{0, false}});
    values_.push_back(std::move(value));
  }

  Initial scalar() {
    Initial initial;
    if (cursor_.sees(TokenKind::kNumber) && cursor_.sees("(", 1)) {  // 0xFF00(symbol)
      Constant mask = parse_constant(cursor_);
      if (auto* bits = std::get_if<Integer>(&mask)) initial.mask = bits->bits;
      cursor_.expect("(");
      address(&initial);
      cursor_.expect(")");
    } else if (cursor_.sees(TokenKind::kWord) && !cursor_.sees("WARP_SZ")) {
      address(&initial);
    } else {
      Constant value = parse_constant(cursor_);
      if (auto* bits = std::get_if<Integer>(&value)) initial.value = *bits;
      if (auto* bits = std::get_if<Float>(&value)) initial.value = *bits;
    }
    return initial;
  }

  // symbol+8, generic(symbol)+8, generic(symbol+8)
  void address(Initial* initial) {
    Symbol symbol;
    if (cursor_.sees("generic") && cursor_.sees("(", 1)) {
      cursor_.take();
      cursor_.take();
      initial->generic = true;
      symbol.name = cursor_.expect(TokenKind::kWord, "a variable or function").text;
      symbol.offset = parse_offset(cursor_);
      cursor_.expect(")");
    } else {
      symbol.name = cursor_.expect(TokenKind::kWord, "a variable or function").text;
    }
    symbol.offset += parse_offset(cursor_);
    initial->value = symbol;
  }

  Cursor& cursor_;
  std::vector<uint64_t> dimensions_;
  std::vector<Initial> values_;
};

// .samplerref s = { addr_mode_0 = wrap, … }: skipped, since instructions that use textures are refused.
void skip_braces(Cursor& cursor) {
  cursor.expect("{");
  while (!cursor.at_end() && !cursor.sees("}")) cursor.take();
  cursor.expect("}");
}

// A name and its dimensions and initialiser.
Declared parse_declarator(Cursor& cursor, const Variable& head, bool may_initialise) {
  Declared declared{head, -1};
  Variable& variable = declared.variable;
  Token name = cursor.expect(TokenKind::kWord, "a name");
  variable.line = name.line;
  variable.name = name.text;
  if (cursor.accept("<")) {
    declared.range = static_cast<int>(parse_range_count(cursor, kMostRegisters));
    cursor.expect(">");
  }
  std::vector<uint64_t> dimensions;
  while (cursor.accept("[")) {
    variable.is_array = true;
    bool open = cursor.sees("]");
    if (open && !dimensions.empty()) cursor.expected("a size: only the first may be left out");
    uint64_t least = dimensions.empty() ? 0 : 1;
    dimensions.push_back(open ? 0 : parse_count(cursor, least, kLargest, "an array's size"));
    cursor.expect("]");
  }
  uint64_t unused = 0;
  uint64_t* first = dimensions.empty() ? &unused : &dimensions[0];
  if (may_initialise && cursor.accept("=")) {
    std::vector<uint64_t> levels = dimensions;
    if (variable.vector > 1) levels.push_back(variable.vector);
    if (is_opaque(variable.type))
      skip_braces(cursor);
    else
      variable.initial = Initialiser(cursor, std::move(levels)).parse(first);
  }
  uint64_t bytes = std::max<uint64_t>(size_of(variable.type), 1) * variable.vector;
  variable.count = 1;
  for (uint64_t dimension : dimensions) {
    if (dimension && variable.count > kLargest / bytes / dimension) {
      cursor.fail(name.line, formatted("the array {} is too large for any memory", variable.name));
      break;
    }
    variable.count *= dimension;
  }
  if (variable.align == 0) variable.align = bytes;
  return declared;
}

}  // namespace

size_t size_of(Type type) {
  switch (type) {
    case Type::kNone:
    case Type::kPred:
      return 0;
    case Type::kB8:
    case Type::kU8:
    case Type::kS8:
      return 1;
    case Type::kB16:
    case Type::kU16:
    case Type::kS16:
    case Type::kF16:
    case Type::kBF16:
      return 2;
    case Type::kB32:
    case Type::kU32:
    case Type::kS32:
    case Type::kF32:
    case Type::kF16x2:
    case Type::kBF16x2:
      return 4;
    case Type::kB128:
      return 16;
    case Type::kB64:
    case Type::kU64:
    case Type::kS64:
    case Type::kF64:
    case Type::kTexref:
    case Type::kSamplerref:
    case Type::kSurfref:
      return 8;
  }
  return 0;
}

void skip_attribute(Cursor& cursor, bool* is_managed) {
  cursor.expect("(");
  do {
    Token token = cursor.take();
    if (token.text == ".managed") {
      *is_managed = true;
    } else if (token.text == ".unified") {  // (id, id)
      cursor.expect("(");
      parse_constant(cursor);
      cursor.expect(",");
      parse_constant(cursor);
      cursor.expect(")");
    } else {
      cursor.fail(token.line, formatted("expected .managed or .unified, found '{}'", token.text));
    }
  } while (cursor.accept(","));
  cursor.expect(")");
}

bool declaration_follows(const Cursor& cursor) {
  Space space;
  if (!cursor.sees(TokenKind::kDotted)) return false;
  if (look_up(kSpaces, cursor.peek().text, &space)) return true;
  for (std::string_view word : {".extern", ".visible", ".weak", ".common", ".shared::cta"})
    if (cursor.sees(word)) return true;
  return false;
}

std::vector<Declared> parse_declaration(Cursor& cursor) {
  int line = cursor.line();
  Variable head = parse_head(cursor);
  if (head.space == Space::kNone) cursor.fail(line, "expected a state space in this declaration");
  if (head.type == Type::kNone) cursor.fail(line, "expected a type in this declaration");
  std::vector<Declared> all;
  do {
    Declared one = parse_declarator(cursor, head, true);
    if (one.range >= 0 && head.space != Space::kReg) {
      // Unlike for registers, a range of variables is shorthand for separate variables.
      if (one.range > 4096) cursor.fail(line, "expected at most 4096 variables of one name");
      for (int i = 0; i < one.range && !cursor.failed(); i++) {
        Declared member{one.variable, -1};
        member.variable.name += std::to_string(i);
        all.push_back(std::move(member));
      }
    } else {
      all.push_back(std::move(one));
    }
  } while (cursor.accept(","));
  cursor.expect(";");
  return all;
}

Variable parse_parameter(Cursor& cursor) {
  int line = cursor.line();
  Variable head = parse_head(cursor);
  if (head.space != Space::kParam && head.space != Space::kReg)
    cursor.fail(line, "expected .param or .reg: a parameter");
  if (head.type == Type::kNone) cursor.fail(line, "expected a type of this parameter");
  Declared declared = parse_declarator(cursor, head, false);
  if (declared.range >= 0) cursor.fail(line, "a parameter cannot be a family of registers");
  return declared.variable;
}

bool skip_debugging(Cursor& cursor) {
  constexpr std::string_view kNumber = "a number";
  if (cursor.accept(".loc")) {  // file line column [, function_name label [+ n]] [, inlined_at f l c]
    for (int i = 0; i < 3; i++) cursor.expect(TokenKind::kNumber, kNumber);
    while (cursor.accept(",")) {
      if (cursor.accept("function_name")) {
        cursor.expect(TokenKind::kWord, "a label");
        parse_offset(cursor);
      } else {
        cursor.expect("inlined_at");
        for (int i = 0; i < 3; i++) cursor.expect(TokenKind::kNumber, kNumber);
      }
    }
    return true;
  }
  if (cursor.accept(".file")) {  // number "name" [, time, size]
    cursor.expect(TokenKind::kNumber, kNumber);
    cursor.expect(TokenKind::kString, "a file's name in quotes");
    while (cursor.accept(",")) cursor.expect(TokenKind::kNumber, kNumber);
    return true;
  }
  if (cursor.accept(".section")) {
    while (!cursor.at_end() && !cursor.sees("{")) cursor.take();
    cursor.expect("{");
    for (int depth = 1; depth > 0 && !cursor.at_end();) {
      Token token = cursor.take();
      depth += token.text == "{" ? 1 : token.text == "}" ? -1 : 0;
    }
    return true;
  }
  return false;
}

}  // namespace cropdl::ptx
