#include "gpu_state/software/ptx/constant.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "base/format.h"

namespace cropdl::ptx {

namespace {

constexpr int kDeepest = 200;  // maximum nesting of parentheses, to bound the stack

struct Value {
  bool is_float = false, is_signed = true;
  uint64_t bits = 0;     // if it is an integer
  double number = 0;     // if it is a float
  int single_bits = -1;  // 1: written as 0f…, whose bits are kept
  uint32_t single = 0;

  bool is_true() const { return is_float ? number != 0 : bits != 0; }
  double as_double() const {
    if (is_float) return number;
    return is_signed ? static_cast<double>(static_cast<int64_t>(bits)) : static_cast<double>(bits);
  }
};

Value integer(uint64_t bits, bool is_signed = true) { return {.is_signed = is_signed, .bits = bits}; }
Value number(double value) { return {.is_float = true, .number = value}; }

class Expression {
 public:
  explicit Expression(Cursor& cursor) : cursor_(cursor) {}

  Value conditional() {
    Value condition = binary(0);
    if (!cursor_.accept("?")) return condition;
    Deeper deeper(this);
    Value yes = conditional();
    cursor_.expect(":");
    Value no = conditional();
    return condition.is_true() ? yes : no;
  }

  // Parses operators that bind at least as strongly as that level.
  Value binary(int level) {
    Value left = unary();
    while (true) {
      int its = level_of(cursor_.peek());
      if (its < level || its < 0) return left;
      Token sign = cursor_.take();
      Value right = binary(its + 1);
      left = applied(sign, left, right);
    }
  }

  static constexpr int kAdditive = 8, kMultiplicative = 9;

 private:
  struct Deeper {
    explicit Deeper(Expression* of) : of(of) {
      if (++of->depth_ > kDeepest) of->cursor_.fail(of->cursor_.line(), "this constant is nested too deeply");
    }
    ~Deeper() { of->depth_--; }
    Expression* of;
  };

  static int level_of(const Token& token) {
    if (token.kind != TokenKind::kSign) return -1;
    constexpr std::string_view kLevels[][4] = {
        {"||"},       {"&&"},     {"|"},          {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="},
        {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"}};
    int level = 0;
    for (const auto& signs : kLevels) {
      for (std::string_view sign : signs)
        if (!sign.empty() && token.text == sign) return level;
      level++;
    }
    return -1;
  }

  Value unary() {
    Deeper deeper(this);
    if (cursor_.accept("+")) return unary();
    if (cursor_.accept("-")) {
      Value value = unary();
      value.bits = -value.bits;
      value.number = -value.number;
      value.single ^= 0x80000000u;
      return value;
    }
    if (cursor_.accept("!")) return integer(!unary().is_true());
    if (cursor_.sees("~")) {
      int line = cursor_.take().line;
      Value value = unary();
      if (value.is_float) cursor_.fail(line, "~ of a floating-point constant");
      value.bits = ~value.bits;
      return value;
    }
    return primary();
  }

  Value primary() {
    if (cursor_.accept("(")) {
      if ((cursor_.sees(".s64") || cursor_.sees(".u64")) && cursor_.sees(")", 1)) {
        bool is_signed = cursor_.take().text == ".s64";
        cursor_.take();
        Value value = unary();
        if (value.is_float) {
          double least = is_signed ? -0x1p63 : 0, most = is_signed ? 0x1p63 : 0x1p64;
          if (!(value.number >= least && value.number < most)) {
            cursor_.fail(cursor_.line(), "this constant is too large for its type");
            return {};
          }
          return integer(is_signed ? static_cast<uint64_t>(static_cast<int64_t>(value.number))
                                   : static_cast<uint64_t>(value.number),
                         is_signed);
        }
        return integer(value.bits, is_signed);
      }
      Value value = conditional();
      cursor_.expect(")");
      return value;
    }
    if (cursor_.accept("WARP_SZ")) return integer(32);
    // The lexer makes .5 one token, like modifiers.
    if (cursor_.sees(TokenKind::kDotted) &&
        cursor_.peek().text.find_first_not_of(".0123456789") == std::string_view::npos)
      return decimal_float(cursor_.take());
    Token token = cursor_.expect(TokenKind::kNumber, "a constant");
    return cursor_.failed() ? Value{} : literal(token);
  }

  Value decimal_float(const Token& token) {
    double value = 0;
    auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error != std::errc() || end != token.text.data() + token.text.size()) bad(token);
    return number(value);
  }

  void bad(const Token& token) {
    cursor_.fail(token.line, formatted("expected a constant of at most 64 bits, found '{}'", token.text));
  }

  Value literal(const Token& token) {
    std::string_view text = token.text;
    char kind = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
    if (kind == 'f' || kind == 'd') {
      size_t digits = kind == 'f' ? 8 : 16;
      uint64_t bits = 0;
      if (text.size() != digits + 2 || !digits_of(text.substr(2), 16, &bits)) {
        bad(token);
        return {};
      }
      if (kind == 'd') return number(std::bit_cast<double>(bits));
      auto single = static_cast<uint32_t>(bits);
      return {.is_float = true, .number = std::bit_cast<float>(single), .single_bits = 1, .single = single};
    }
    if (text.find('.') != std::string_view::npos || (kind != 'x' && text.find_first_of("eE") != text.npos))
      return decimal_float(token);
    bool is_unsigned = (text.back() | 0x20) == 'u';
    if (is_unsigned) text.remove_suffix(1);
    int base = 10;
    if (kind == 'x' || kind == 'b') {
      base = kind == 'x' ? 16 : 2;
      text.remove_prefix(2);
    } else if (text.size() > 1 && text[0] == '0') {
      base = 8;
    }
    uint64_t bits = 0;
    if (!digits_of(text, base, &bits)) bad(token);
    return integer(bits, !is_unsigned && bits <= static_cast<uint64_t>(INT64_MAX));
  }

  static bool digits_of(std::string_view text, int base, uint64_t* bits) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *bits, base);
    return !text.empty() && error == std::errc() && end == text.data() + text.size();
  }

  Value applied(const Token& sign, const Value& a, const Value& b) {
    if (cursor_.failed()) return {};
    std::string_view s = sign.text;
    if (s == "&&") return integer(a.is_true() && b.is_true());
    if (s == "||") return integer(a.is_true() || b.is_true());
    if (a.is_float || b.is_float) return applied_to_floats(sign, a.as_double(), b.as_double());
    uint64_t x = a.bits, y = b.bits;
    bool is_signed = a.is_signed && b.is_signed;
    bool less = is_signed ? static_cast<int64_t>(x) < static_cast<int64_t>(y) : x < y;
    if (s == "+") return integer(x + y, is_signed);
    if (s == "-") return integer(x - y, is_signed);
    if (s == "*") return integer(x * y, is_signed);
    if (s == "&") return integer(x & y, is_signed);
    if (s == "|") return integer(x | y, is_signed);
    if (s == "^") return integer(x ^ y, is_signed);
    if (s == "==") return integer(x == y);
    if (s == "!=") return integer(x != y);
    if (s == "<") return integer(less);
    if (s == ">=") return integer(!less);
    if (s == ">") return integer(!less && x != y);
    if (s == "<=") return integer(less || x == y);
    // A shift has the type of its left operand.
    if (s == "<<") return integer(y < 64 ? x << y : 0, a.is_signed);
    if (s == ">>") {
      if (a.is_signed)
        return integer(static_cast<uint64_t>(static_cast<int64_t>(x) >> std::min<uint64_t>(y, 63)));
      return integer(y < 64 ? x >> y : 0, false);
    }
    if (y == 0) {
      cursor_.fail(sign.line, "a constant is divided by zero");
      return {};
    }
    bool divides = s == "/";
    if (!is_signed) return integer(divides ? x / y : x % y, false);
    if (y == ~uint64_t{0}) return integer(divides ? -x : 0);  // INT64_MIN / -1 would overflow
    auto p = static_cast<int64_t>(x), q = static_cast<int64_t>(y);
    return integer(static_cast<uint64_t>(divides ? p / q : p % q));
  }

  Value applied_to_floats(const Token& sign, double x, double y) {
    std::string_view s = sign.text;
    if (s == "+") return number(x + y);
    if (s == "-") return number(x - y);
    if (s == "*") return number(x * y);
    if (s == "/") return number(x / y);
    if (s == "==") return integer(x == y);
    if (s == "!=") return integer(x != y);
    if (s == "<") return integer(x < y);
    if (s == ">") return integer(x > y);
    if (s == "<=") return integer(x <= y);
    if (s == ">=") return integer(x >= y);
    cursor_.fail(sign.line, formatted("{} of floating-point constants", s));
    return {};
  }

  Cursor& cursor_;
  int depth_ = 0;
};

}  // namespace

bool constant_follows(const Cursor& cursor) {
  if (cursor.sees(TokenKind::kNumber) || cursor.sees("WARP_SZ")) return true;
  if (cursor.sees(TokenKind::kDotted)) {
    char c = cursor.peek().text[1];
    return c >= '0' && c <= '9';
  }
  for (std::string_view sign : {"-", "+", "~", "!", "("})
    if (cursor.sees(sign)) return true;
  return false;
}

Constant parse_constant(Cursor& cursor) {
  Value value = Expression(cursor).conditional();
  if (!value.is_float) return Integer{value.bits, value.is_signed && static_cast<int64_t>(value.bits) < 0};
  if (value.single_bits == 1) return Float{value.single, false};
  return Float{std::bit_cast<uint64_t>(value.number), true};
}

uint64_t parse_count(Cursor& cursor, uint64_t least, uint64_t most, std::string_view what) {
  int line = cursor.line();
  Constant constant = parse_constant(cursor);
  auto* integer = std::get_if<Integer>(&constant);
  if (integer && !integer->is_negative && integer->bits >= least && integer->bits <= most)
    return integer->bits;
  cursor.fail(line, formatted("expected {} from {} to {}", what, least, most));
  return least;
}

uint64_t parse_range_count(Cursor& cursor, uint64_t most) {
  int line = cursor.line();
  Value value = Expression(cursor).binary(Expression::kAdditive);
  if (!value.is_float && value.bits <= most) return value.bits;
  cursor.fail(line, formatted("expected a number of registers up to {}", most));
  return 0;
}

int64_t parse_offset(Cursor& cursor) {
  uint64_t offset = 0;
  while (cursor.sees("+") || cursor.sees("-")) {
    Token sign = cursor.take();
    Value value = Expression(cursor).binary(Expression::kMultiplicative);
    if (value.is_float) cursor.fail(sign.line, "expected an integer as an offset");
    offset = sign.text == "+" ? offset + value.bits : offset - value.bits;
  }
  return static_cast<int64_t>(offset);
}

}  // namespace cropdl::ptx
