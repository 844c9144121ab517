#include "gpu_state/software/ptx/cursor.h"

#include "base/format.h"

namespace cropdl::ptx {

void Cursor::expect(std::string_view text) {
  if (!accept(text)) expected(formatted("'{}'", text));
}

Token Cursor::expect(TokenKind kind, std::string_view what) {
  if (!sees(kind)) expected(what);
  return take();
}

void Cursor::expected(std::string_view what) {
  if (failed_) return;
  const Token& token = peek();
  std::string found =
      token.kind == TokenKind::kEnd ? "the end of the text" : formatted("'{}'", token.text.substr(0, 60));
  fail(token.line, formatted("expected {}, found {}", what, found));
}

void Cursor::fail(int line, const std::string& why) {
  if (failed_) return;
  failed_ = true;
  error_ = formatted("PTX line {}: {}", line, why);
}

}  // namespace cropdl::ptx
