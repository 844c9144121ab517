// Splits PTX text into tokens, which point into the text. Any thread. Source: PTX ISA 9.0, "Syntax".
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace cropdl::ptx {

enum class TokenKind : uint8_t {
  kEnd,
  kWord,    // an identifier, % and $ included: add, %rd1, $L__BB0_2, _
  kDotted,  // with its dot: .global, .f32, .L2::128B, .1d
  kNumber,  // as written: 17, 0x1FU, 0f3F800000, 1.5e3
  kString,  // without its quotes
  kSign     // punctuation: one of { } ( ) [ ] ; , : @ ! | + - * / % ~ & ^ = ? < > << >> <= >= == != && ||
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  int line = 0;
};

// The last token is kEnd. The text may end in zero bytes, as in images.
Result<std::vector<Token>> tokens_of(std::string_view text);

}  // namespace cropdl::ptx
