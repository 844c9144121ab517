// links: cropdl_result
// Errors carry a line of text for users, never just a number.
#include "base/result.h"

#include <gtest/gtest.h>
#include <cerrno>

#include "base/say.h"

TEST(Result, ContainsTheSystemsError) { EXPECT_EQ(cropdl::errno_text(ENOSPC), "No space left on device"); }

TEST(Result, IsEitherAValueOrAnError) {
  cropdl::Result<int> good = 7, bad = cropdl::Error{"rank 1: no such version"};
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, 7);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message, "rank 1: no such version");
}

TEST(Shown, LeavesTextAsItIs) {
  for (const char* text :
       {"", "plain text, \\ and all", "grün \u20ac \U0001f600", "\u00a0\u07ff\ud7ff\ue000\U0010ffff"})
    EXPECT_EQ(cropdl::shown(text), text);
}

TEST(Shown, EscapesTerminalControlSequences) {
  EXPECT_EQ(cropdl::shown("a\x1b[2J"), "a\\x1b[2J");
  EXPECT_EQ(cropdl::shown(std::string("\0\x01\x1f\x7f", 4)), "\\x00\\x01\\x1f\\x7f");
  EXPECT_EQ(cropdl::shown("\t\r\n"), "\\t\\r\\n");
  EXPECT_EQ(cropdl::shown("\xc2\x80\xc2\x9b\xc2\x9f"), "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f");
}

TEST(Shown, EscapesInvalidUtf8) {
  EXPECT_EQ(cropdl::shown("\x9b"), "\\x9b");
  EXPECT_EQ(cropdl::shown("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(cropdl::shown("\xc3"), "\\xc3");
  EXPECT_EQ(cropdl::shown("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(cropdl::shown("\xe2\x82q"), "\\xe2\\x82q");
  EXPECT_EQ(cropdl::shown("\xc0\x9b"), "\\xc0\\x9b") << "overlong";
  EXPECT_EQ(cropdl::shown("\xe0\x82\x9b"), "\\xe0\\x82\\x9b") << "overlong";
  EXPECT_EQ(cropdl::shown("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(cropdl::shown("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
}
