// links: cropdl_base
// Jumps in the seccomp filter go as far as they need to.
#include "interpose/host/filter_program.h"

#include <gtest/gtest.h>

namespace cropdl::host {
namespace {

constexpr uint32_t kMaxTests = 600;  // more than two reaches of a test
enum Outcome : uint32_t { kFell = 1, kEqual, kLarge, kSmall };

// What the filter returns for a call with this number, and how many instructions it executed.
std::pair<uint32_t, int> run(const std::vector<sock_filter>& code, uint32_t number) {
  int executed = 0;
  for (size_t i = 0; i < code.size(); ++i) {
    const sock_filter& f = code[i];
    ++executed;
    if (f.code == (BPF_RET | BPF_K)) return {f.k, executed};
    if (f.code == (BPF_JMP | BPF_JA)) i += f.k;
    if (f.code == (BPF_JMP | BPF_JEQ | BPF_K)) i += number == f.k ? f.jt : f.jf;
    if (f.code == (BPF_JMP | BPF_JGE | BPF_K)) i += number >= f.k ? f.jt : f.jf;
  }
  ADD_FAILURE() << "it runs off the end";
  return {0, executed};
}

// A test whose both jumps go past `tests` others, which have one target each, near or far.
std::vector<sock_filter> program(uint32_t tests) {
  FilterProgram p;
  p.load(0);
  p.jump(BPF_JGE, 10'000, 1, 2);
  p.label(2);
  for (uint32_t i = 0; i < tests; ++i) p.jump(BPF_JEQ, i, 3);
  p.jump(BPF_JGE, 5'000, 4, 5);
  for (uint32_t i = 0; i < tests; ++i) p.load(0);
  for (const auto& [label, outcome] : {std::pair{3, kEqual}, {1, kLarge}, {4, kFell}, {5, kSmall}}) {
    p.label(label);
    p.result(outcome);
  }
  Result<std::vector<sock_filter>> code = p.finish();
  EXPECT_TRUE(code) << code.error().message;
  return *code;
}

TEST(FilterProgram, a_jump_reaches_its_target_however_far) {
  for (uint32_t tests = 0; tests <= kMaxTests; ++tests) {
    const std::vector<sock_filter> code = program(tests);
    for (uint32_t number = 0; number < tests; ++number) ASSERT_EQ(run(code, number).first, kEqual) << tests;
    ASSERT_EQ(run(code, tests).first, kSmall) << tests;
    ASSERT_EQ(run(code, 5'000).first, kFell) << tests;
    ASSERT_EQ(run(code, 10'000).first, kLarge) << tests;
  }
}

TEST(FilterProgram, only_a_far_jump_costs_an_instruction) {
  EXPECT_EQ(run(program(100), 99), (std::pair<uint32_t, int>{kEqual, 103}));
  EXPECT_EQ(run(program(600), 599), (std::pair<uint32_t, int>{kEqual, 604}));
}

TEST(FilterProgram, refuses_what_it_cannot_assemble) {
  FilterProgram lost;
  lost.jump(BPF_JEQ, 1, 1);
  lost.result(kFell);
  EXPECT_FALSE(lost.finish());
  FilterProgram huge;
  for (int i = 0; i < BPF_MAXINSNS; ++i) huge.load(0);
  huge.result(kFell);
  EXPECT_FALSE(huge.finish());
}

}  // namespace
}  // namespace cropdl::host
