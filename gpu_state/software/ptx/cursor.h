// The parser's position in the tokens, and its first error. After an error the cursor stays at the end, so
// that every loop over tokens ends and callers need not check each step. One thread.
#pragma once

#include <string>
#include <vector>

#include "gpu_state/software/ptx/lexer.h"

namespace cropdl::ptx {

class Cursor {
 public:
  explicit Cursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(failed_ ? tokens_.size() - 1 : at_ + ahead, tokens_.size() - 1)];
  }
  bool at_end() const { return peek().kind == TokenKind::kEnd; }
  bool sees(std::string_view text, size_t ahead = 0) const {
    const Token& token = peek(ahead);
    return token.text == text && token.kind != TokenKind::kString && token.kind != TokenKind::kEnd;
  }
  bool sees(TokenKind kind, size_t ahead = 0) const { return peek(ahead).kind == kind; }
  Token take() {
    Token token = peek();
    if (!at_end()) at_++;
    return token;
  }
  bool accept(std::string_view text) {
    bool is = sees(text);
    if (is) at_++;
    return is;
  }
  // These fail with "expected WHAT, found …".
  void expect(std::string_view text);
  Token expect(TokenKind kind, std::string_view what);
  void expected(std::string_view what);

  void fail(int line, const std::string& why);
  bool failed() const { return failed_; }
  const std::string& error() const { return error_; }
  int line() const { return peek().line; }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool failed_ = false;
  std::string error_;
};

}  // namespace cropdl::ptx
