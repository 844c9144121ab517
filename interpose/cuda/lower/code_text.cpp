#include "interpose/cuda/lower/code_text.h"

#include <cctype>
#include <charconv>

namespace cropdl::cuda {
namespace {

constexpr unsigned kLargestFamily = 1 << 16;
constexpr std::string_view kSigns = ";,{}()[]<>=:@!|+-*/&^~?.";

bool is_word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }
bool is_digit(char c) { return isdigit(static_cast<unsigned char>(c)); }

enum class Kind { kEnd, kWord, kNumber, kDotted, kString, kSign, kBad };
struct Token {
  Kind kind = Kind::kEnd;
  std::string_view text;
  bool glued = false;  // directly after a word, like the parts of an instruction
  bool is(std::string_view what) const {
    return text == what && (kind == Kind::kSign || kind == Kind::kDotted);
  }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  const Token& peek() const { return next_; }
  Token take() {
    const Token now = next_;
    next_ = lex();
    return now;
  }
  bool accept(std::string_view what) {
    const bool there = next_.is(what);
    if (there) take();
    return there;
  }

 private:
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  // False: an unterminated comment.
  bool skip_space() {
    for (;;) {
      while (isspace(static_cast<unsigned char>(at(from_)))) ++from_;
      if (at(from_) != '/' || (at(from_ + 1) != '/' && at(from_ + 1) != '*')) return true;
      const std::string_view end = at(from_ + 1) == '/' ? "\n" : "*/";
      const size_t found = text_.find(end, from_ + 2);
      if (found == text_.npos && end.size() == 2) return false;
      from_ = found == text_.npos ? text_.size() : found + end.size();
    }
  }
  Token token(Kind kind, size_t begin) { return {kind, text_.substr(begin, from_ - begin), false}; }

  Token lex() {
    const size_t before = from_;
    if (!skip_space()) return {Kind::kBad, {}, false};
    const size_t begin = from_;
    const char c = at(begin);
    if (begin >= text_.size()) return {};
    if (is_word(c)) {
      const bool number = is_digit(c);
      while (is_word(at(from_)) || (number && at(from_) == '.')) ++from_;
      return token(number ? Kind::kNumber : Kind::kWord, begin);
    }
    if (c == '.' && is_word(at(begin + 1))) {
      const bool glued = begin == before && begin > 0 && is_word(at(begin - 1));
      for (++from_; is_word(at(from_)) || (at(from_) == ':' && at(from_ + 1) == ':');)
        from_ += is_word(at(from_)) ? 1 : 2;
      Token its = token(Kind::kDotted, begin);
      its.glued = glued;
      return its;
    }
    ++from_;
    if (c == '"') {
      while (from_ < text_.size() && at(from_) != '"') from_ += at(from_) == '\\' ? 2 : 1;
      if (from_ >= text_.size()) return {Kind::kBad, {}, false};
      ++from_;
      return token(Kind::kString, begin);
    }
    return token(kSigns.find(c) != kSigns.npos ? Kind::kSign : Kind::kBad, begin);
  }

  std::string_view text_;
  size_t from_ = 0;
  Token next_ = lex();
};

class Reader {
 public:
  Reader(std::string_view text, CodeFacts* facts) : lexer_(text), facts_(facts) {}

  bool read() {
    while (lexer_.peek().kind != Kind::kEnd)
      if (!statement()) return false;
    return true;
  }

 private:
  Token take() {
    const Token token = lexer_.take();
    if (token.kind == Kind::kWord && allocates_on_heap(token.text)) facts_->allocates = true;
    return token;
  }
  // Skips to the closing sign of the bracket just opened.
  bool skip_rest(bool of_function) {
    int depth = 1;
    while (depth > 0) {
      const Token token = take();
      if (token.kind == Kind::kEnd || token.kind == Kind::kBad) return false;
      // A variable inside a function cannot be looked up by name.
      if (of_function && !token.glued && (token.is(".global") || token.is(".const"))) return false;
      if (token.is("{") || token.is("(") || token.is("[")) ++depth;
      if (token.is("}") || token.is(")") || token.is("]")) --depth;
    }
    return true;
  }
  // Skips to one of the signs outside brackets, and leaves it.
  bool skip_to(std::string_view signs) {
    for (;;) {
      const Token& next = lexer_.peek();
      if (next.kind == Kind::kEnd || next.kind == Kind::kBad) return false;
      if (next.kind == Kind::kSign && signs.find(next.text[0]) != signs.npos) return true;
      const Token token = take();
      if ((token.is("{") || token.is("(") || token.is("[")) && !skip_rest(false)) return false;
      if (token.is("}") || token.is(")") || token.is("]")) return false;
    }
  }

  // A directive without a terminator: ends where the next one begins.
  bool short_directive() {
    while (lexer_.peek().kind == Kind::kWord || lexer_.peek().kind == Kind::kNumber ||
           lexer_.peek().kind == Kind::kString || lexer_.peek().is(",") || lexer_.peek().is("+"))
      take();
    return true;
  }

  bool function() {
    for (;;) {
      if (lexer_.accept(";")) return true;
      if (lexer_.accept("{")) return skip_rest(true);
      if (lexer_.accept("(")) {
        if (!skip_rest(false)) return false;
        continue;
      }
      const Token token = take();
      if (token.is(".pragma") && (!skip_to(";") || !lexer_.accept(";"))) return false;
      if (token.kind == Kind::kEnd || token.kind == Kind::kBad || token.is("}") || token.is(")"))
        return false;
    }
  }

  bool statement() {
    const Token first = lexer_.peek();
    if (lexer_.accept(";")) return true;
    if (first.kind != Kind::kDotted) return false;
    for (const std::string_view one : {".version", ".target", ".address_size", ".file", ".loc"})
      if (lexer_.accept(one)) return short_directive();
    for (const std::string_view one : {".pragma", ".alias"})
      if (lexer_.accept(one)) return skip_to(";") && lexer_.accept(";");
    if (lexer_.accept(".section")) return skip_to("{") && lexer_.accept("{") && skip_rest(false);
    return declaration();
  }

  // A function, or variables: `.visible .global .attribute(.managed) .align 4 .b8 a[16] = {...}, b<2>;`
  bool declaration() {
    bool is_variable = false, is_memory = false, is_extern = false;
    while (lexer_.peek().kind == Kind::kDotted) {
      const Token word = take();
      if (word.is(".func") || word.is(".entry")) return function();
      if (word.is(".extern")) is_extern = true;
      if (word.is(".global") || word.is(".const")) is_memory = true;
      if (word.is(".global") || word.is(".const") || word.is(".shared") || word.is(".shared::cta") ||
          word.is(".local") || word.is(".param") || word.is(".reg") || word.is(".tex"))
        is_variable = true;
      // Names of textures and the like, which are not memory.
      if (word.is(".texref") || word.is(".samplerref") || word.is(".surfref")) is_memory = false;
      if (word.is(".align") && take().kind != Kind::kNumber) return false;
      if ((lexer_.accept("(") || lexer_.accept("[")) && !skip_rest(false)) return false;
    }
    if (!is_variable) return false;
    do
      if (!variable(is_memory && !is_extern)) return false;
    while (lexer_.accept(","));
    return lexer_.accept(";");
  }

  bool variable(bool wanted) {
    const Token name = take();
    if (name.kind != Kind::kWord) return false;
    unsigned family = 0;
    if (lexer_.accept("<")) {
      const std::string_view text = take().text;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), family);
      if (error != std::errc() || end != text.data() + text.size() || family > kLargestFamily ||
          !lexer_.accept(">"))
        return false;
      for (unsigned i = 0; i < family; ++i) add(std::string(name.text) + std::to_string(i), wanted);
    } else {
      add(std::string(name.text), wanted);
    }
    return skip_to(",;");
  }
  // The compiler's constant texts begin with a dollar sign.
  void add(std::string name, bool wanted) {
    if (wanted && name[0] != '$') facts_->variables.insert(std::move(name));
  }

  Lexer lexer_;
  CodeFacts* facts_;
};

}  // namespace

bool read_text(std::string_view text, CodeFacts* facts) {
  return Reader(text.substr(0, text.find('\0')), facts).read();
}

}  // namespace cropdl::cuda
