// links: cropdl_patched_code
#include "base/patched_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

using namespace cropdl;

namespace {

// The function's bytes, then no-operations of one byte up to a multiple of 16, then other code.
bool is_empty(std::initializer_list<unsigned char> function) {
  unsigned char code[48];
  std::fill(std::begin(code), std::end(code), 0x90);
  std::copy(function.begin(), function.end(), code);
  std::fill(code + (function.size() + 15) / 16 * 16, std::end(code), 0xe8);
  return is_empty_function(code, kJumpBytes);
}

}  // namespace

TEST(PatchedCode, FindsEmptyFunctionsOfEveryCompilerOption) {
  EXPECT_TRUE(is_empty({0xc3}));
  EXPECT_TRUE(is_empty({0xf3, 0x0f, 0x1e, 0xfa, 0xc3}));
  EXPECT_TRUE(is_empty({0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3}));
  EXPECT_TRUE(is_empty({0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x5d, 0xc3}));
}

TEST(PatchedCode, FunctionsWithOtherCodeAreNotEmpty) {
  EXPECT_FALSE(is_empty({0x31, 0xc0, 0xc3}));                    // xor %eax, %eax
  EXPECT_FALSE(is_empty({0x55, 0x48, 0x89, 0xe5, 0x90, 0xc3}));  // the frame is not taken down
  EXPECT_FALSE(is_empty({0xc3, 0xe8, 0, 0, 0, 0}));              // another function follows without padding
}
