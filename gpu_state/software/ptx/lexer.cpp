#include "gpu_state/software/ptx/lexer.h"

#include <array>

#include "base/format.h"

namespace cropdl::ptx {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool follows(char c) { return is_digit(c) || is_letter(c) || c == '_' || c == '$'; }

constexpr std::array<std::string_view, 8> kDoubleSigns = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};
constexpr std::string_view kSigns = "{}()[];,:@!|+-*/%~&^=?<>";

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    std::vector<Token> tokens;
    tokens.reserve(text_.size() / 5);
    while (true) {
      if (!skip_blanks()) return Error{"PTX line {}: this comment does not end", line_};
      if (at_ >= text_.size()) break;
      TokenKind kind = TokenKind::kSign;
      size_t size = measure(&kind);
      if (size == 0)
        return Error{"PTX line {}: expected a word, a number or punctuation, found {}", line_,
                     for_people(text_[at_])};
      std::string_view word = text_.substr(at_, size);
      if (kind == TokenKind::kString) word = word.substr(1, word.size() - 2);
      tokens.push_back({kind, word, line_});
      at_ += size;
    }
    tokens.push_back({TokenKind::kEnd, "", line_});
    return tokens;
  }

 private:
  static std::string for_people(char c) {
    if (c > ' ' && c < 0x7f) return formatted("'{}'", c);
    return formatted("the byte 0x{:02x}", static_cast<unsigned char>(c));
  }
  char look(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  bool skip_blanks() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == '\n') line_++;
      if (c == ' ' || (c >= '\t' && c <= '\r')) {
        at_++;
      } else if (c == '/' && look(1) == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '/' && look(1) == '*') {
        size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) return false;
        for (; at_ < end + 2; at_++) line_ += text_[at_] == '\n';
      } else {
        break;
      }
    }
    return true;
  }

  // The size of the token at this position; 0: no token.
  size_t measure(TokenKind* kind) const {
    char c = look(0);
    if (is_digit(c)) {
      *kind = TokenKind::kNumber;
      return number();
    }
    if (c == '.' && follows(look(1))) {
      *kind = TokenKind::kDotted;
      return dotted();
    }
    // A % not followed by a letter is an operator.
    if (is_letter(c) || c == '_' || c == '$' || (c == '%' && follows(look(1)))) {
      *kind = TokenKind::kWord;
      size_t size = 1;
      while (follows(look(size))) size++;
      return size;
    }
    if (c == '"') {
      *kind = TokenKind::kString;
      size_t size = 1;
      while (at_ + size < text_.size() && look(size) != '"' && look(size) != '\n')
        size += look(size) == '\\' ? 2 : 1;
      return look(size) == '"' ? size + 1 : 0;
    }
    for (std::string_view sign : kDoubleSigns)
      if (c == sign[0] && look(1) == sign[1]) return 2;
    return c && kSigns.find(c) != std::string_view::npos ? 1 : 0;
  }

  size_t dotted() const {
    size_t size = 1;
    while (follows(look(size)) || (look(size) == ':' && look(size + 1) == ':' && follows(look(size + 2))))
      size += look(size) == ':' ? 2 : 1;
    return size;
  }

  size_t number() const {
    size_t size = 1;
    while (follows(look(size))) size++;
    // Decimal floats such as 1.5 and 2.5e-3; 0x… and 0f… have no decimal point.
    bool decimal = true;
    for (size_t i = 0; i < size; i++) decimal &= is_digit(look(i));
    if (decimal && look(size) == '.') {
      size++;
      while (is_digit(look(size))) size++;
      if ((look(size) | 0x20) == 'e') size++, decimal = false;
      while (is_digit(look(size))) size++;
    }
    char last = look(size - 1);
    bool hexadecimal = look(0) == '0' && (is_letter(look(1)));
    if (!hexadecimal && (last | 0x20) == 'e' && (look(size) == '+' || look(size) == '-') &&
        is_digit(look(size + 1))) {
      size++;
      while (is_digit(look(size))) size++;
    }
    return size;
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<std::vector<Token>> tokens_of(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return Lexer(text).run();
}

}  // namespace cropdl::ptx
