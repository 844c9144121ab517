// links: cropdl_boundaries
// The return addresses that are found by unwind tables are those that glibc's backtrace() finds, whatever the
// frames between are like.
#include "interpose/boundaries/frame_rules.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "interpose/boundaries/token_ring.h"
#include "interpose/seam/thread.h"

namespace cropdl::boundaries {
namespace {

struct Found {
  std::vector<uint64_t> ours, glibcs;
};
Found found;
volatile int zero;

__attribute__((noinline)) void look() {
  void* all[64];
  const int count = backtrace(all, 64);
  found = {};
  for (int i = 1; i < count; ++i) found.glibcs.push_back(reinterpret_cast<uint64_t>(all[i]));
  Frame f = frame_of(static_cast<const uint64_t*>(__builtin_frame_address(0)));
  do found.ours.push_back(f.site);
  while (found.ours.size() < 64 && step_out(frame_rules.find(f), &f));
}

using Step = std::function<void()>;
__attribute__((noinline)) int plain(const Step& next) {
  next();
  return zero;
}
__attribute__((noinline, optimize("no-omit-frame-pointer"))) int with_frame_pointer(const Step& next) {
  next();
  return zero;
}
__attribute__((noinline, optimize("O0"))) int not_optimised(const Step& next) {
  next();
  return zero;
}
__attribute__((noinline)) int variable_length(const Step& next) {
  auto* p = static_cast<volatile char*>(__builtin_alloca(static_cast<size_t>(zero) + 100));
  p[3] = 1;
  next();
  return p[3];
}
__attribute__((noinline)) int large(const Step& next) {
  volatile char room[60'000];
  room[zero] = 1;
  next();
  return room[zero];
}
__attribute__((noinline)) int with_all_registers(const Step& next) {
  __asm__ volatile("xor %%ebp, %%ebp" ::: "rbx", "rbp", "r12", "r13", "r14", "r15");
  next();
  return zero;
}
__attribute__((noinline)) int through_the_c_library(const Step& next) {
  static const Step* given;
  given = &next;
  int two[2] = {};
  static bool done;
  done = false;
  qsort(two, 2, sizeof *two, [](const void*, const void*) {
    if (!std::exchange(done, true)) (*given)();
    return 0;
  });
  return zero;
}
__attribute__((noinline)) int may_throw(const Step& next) {
  try {
    next();
  } catch (int) {
    return 1;
  }
  return zero;
}

const std::map<std::string, int (*)(const Step&)> kFunctions = {
    {"plain", plain},
    {"with_frame_pointer", with_frame_pointer},
    {"not_optimised", not_optimised},
    {"variable_length", variable_length},
    {"large", large},
    {"with_all_registers", with_all_registers},
    {"through_the_c_library", through_the_c_library},
    {"may_throw", may_throw}};

class Frames : public testing::Test {
 protected:
  void SetUp() override {
    c_library_symbol = [](const char* name) { return reinterpret_cast<uint64_t>(dlsym(RTLD_DEFAULT, name)); };
    frame_rules = {};
  }
  // main's caller in the C library is the last; _start has none.
  static void expect_alike(const std::string& what) {
    ASSERT_GE(found.glibcs.size(), 8u) << what;
    ASSERT_GE(found.ours.size() + 1, found.glibcs.size()) << what;
    EXPECT_TRUE(std::equal(found.ours.begin(), found.ours.end(), found.glibcs.begin())) << what;
  }
};

TEST_F(Frames, OfEachKindBelowEachOtherAreSteppedOutOf) {
  for (const auto& [outer_name, outer] : kFunctions)
    for (const auto& [inner_name, inner] : kFunctions)
      for (int turn = 0; turn < 2; ++turn) {  // the second time all rules are known
        outer([&, call = inner] { call(look); });
        expect_alike(outer_name + ", " + inner_name);
      }
}

TEST_F(Frames, AreNotSteppedOutOfWhereTheTableHasNoRoomForTheirRules) {
  for (FrameRule& rule : frame_rules.rules) rule.at = kClaimed;
  plain(look);
  EXPECT_EQ(found.ours.size(), 1u);
}

TEST_F(Frames, WithoutAnUnwindTableEndTheSteps) {
  c_library_symbol = [](const char*) { return uint64_t{0}; };
  plain(look);
  EXPECT_EQ(found.ours.size(), 1u);
  Frame nowhere{16, reinterpret_cast<uint64_t>(&nowhere), 0};
  EXPECT_FALSE(step_out(frame_rules.find(nowhere), &nowhere));
}

thread_local bool quickly;  // whether the last token could be completed without a call, its rules known

// As a shim's function does, and then the LH.
__attribute__((noinline)) Token noted() {
  thread_local seam::ThreadRecord thread;
  const uint64_t before = seam::by_kernel::gs_base();
  seam::by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&thread));
  seam::note_caller(__builtin_frame_address(0));
  Token t{};
  note_callers(&t, true, 1);
  const auto* frame = static_cast<const uint64_t*>(__builtin_frame_address(0));
  Token by_any_rule{}, quick{};
  note_callers_slowly(&by_any_rule, frame, 1);
  quickly = note_callers_quickly(&quick, frame);
  for (const auto part : {&Token::number, &Token::caller, &Token::outer, &Token::stack})
    EXPECT_EQ(t.*part, by_any_rule.*part);
  for (const auto part : {&Token::caller, &Token::outer, &Token::stack})
    EXPECT_EQ(quick.*part, quickly ? by_any_rule.*part : 0);
  EXPECT_EQ(thread.caller, 0u);
  seam::by_kernel::set_gs_base(before);
  return t;
}
__attribute__((noinline)) Token reduced() {
  Token t = noted();
  t.number = 1;
  return t;
}

// Tokens of one place, and of another one.
struct Places {
  Token first, again, other;
};
__attribute__((noinline, optimize("no-omit-frame-pointer"))) Token reduced_with_frame_pointer() {
  Token t = noted();
  t.number = 1;
  return t;
}
__attribute__((noinline, optimize("O0"))) Places tokens_of_two_places(Token (*reduce)() = reduced) {
  Token same[2];
  for (Token& t : same) t = reduce();  // stays one loop
  const Token other = reduce();
  return {same[0], same[1], other};
}
// The same in frames of fixed size, which are stepped out of without a call once their rules are known.
__attribute__((noipa)) Places tokens_of_two_places_in_fixed_frames() {
  Places places;
  for (int i = 0; i < 3 + zero; ++i) {
    places.again = reduced();
    if (i == 0) places.first = places.again;
  }
  places.other = reduced();
  return places;
}
FrameRule& rule_at(uint64_t site) { return frame_rules.find({site, 0, 0}); }

void expect_two_places(const Places& places) {
  EXPECT_EQ(places.again.caller, places.first.caller);
  EXPECT_EQ(places.other.caller, places.first.caller);
  EXPECT_EQ(places.again.outer, places.first.outer);
  EXPECT_EQ(places.again.stack, places.first.stack);
  EXPECT_NE(places.other.outer, places.first.outer);
}

TEST_F(Frames, TellApartThePlacesWhereAFunctionWithACollectiveIsCalled) {
  expect_two_places(tokens_of_two_places());
  EXPECT_FALSE(quickly) << "one frame of fixed size, and one with a frame pointer";
  expect_two_places(tokens_of_two_places(reduced_with_frame_pointer));
  EXPECT_TRUE(quickly) << "frame pointers";
  const Places places = tokens_of_two_places_in_fixed_frames();
  EXPECT_TRUE(quickly) << "frames of fixed size";
  expect_two_places(places);
  EXPECT_NE(rule_at(places.first.caller).above_sp, 0);
  EXPECT_NE(rule_at(places.first.outer).above_sp, 0);
}

TEST_F(Frames, InTheSamePlacesOfManyPagesAllHaveRules) {
  std::set<const FrameRule*> rules;
  constexpr uint64_t kPage = 4096, kPages = 100;
  for (uint64_t page = 1; page <= kPages; ++page) rules.insert(&rule_at(page * kPage + 0x234));
  EXPECT_EQ(rules.size(), kPages);
}

TEST_F(Frames, OfTheMpisOwnLibrariesDoNotCount) {
  const Places before = tokens_of_two_places();
  rule_at(before.first.caller).in_binding = true;
  rule_at(before.first.caller).settle();
  const Places after = tokens_of_two_places();
  EXPECT_EQ(after.first.caller, before.first.outer);
  EXPECT_EQ(after.other.caller, before.other.outer);
  EXPECT_EQ(after.first.outer, after.other.outer);
}

TEST_F(Frames, OfCodeThatReplacedOtherCodeAreNoLongerSteppedOutOf) {
  const Places before = tokens_of_two_places();
  rule_at(before.first.caller).above_sp = 8;  // as the former code's: no return address is there
  rule_at(before.first.caller).settle();
  const auto known = [] {
    return std::count_if(frame_rules.rules.begin(), frame_rules.rules.end(),
                         [](auto& r) { return r.at != 0; });
  };
  const auto rules = known();
  const Places after = tokens_of_two_places();
  EXPECT_EQ(after.again.outer, 0u);
  EXPECT_EQ(after.again.stack, after.other.stack);  // the depth alone
  EXPECT_LE(known(), rules + 1);
}

// Switches to a stack as hand-written coroutines do: no unwind table tells that it does.
__attribute__((naked, noinline)) void call_on(void* /*stack's end*/, void (* /*function*/)()) {
  __asm__(R"(
    push %rbp
    mov %rsp, %rbp
    mov %rdi, %rsp
    call *%rsi
    mov %rbp, %rsp
    pop %rbp
    ret)");
}
Token noted_there;
__attribute__((noinline)) void coroutine() { noted_there = noted(); }

TEST_F(Frames, BeyondTheEndOfAStackAreNotRead) {
  constexpr size_t kSize = 1 << 16;
  auto* stack = static_cast<char*>(
      mmap(nullptr, 2 * kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(stack, MAP_FAILED);
  ASSERT_EQ(mprotect(stack + kSize, kSize, PROT_NONE), 0);
  for (int turn = 0; turn < 2; ++turn) {
    call_on(stack + kSize, coroutine);
    EXPECT_NE(noted_there.outer, 0u) << "the trampoline's call";
  }
  munmap(stack, 2 * kSize);
}

TEST_F(Frames, AreTheSameForThreadsThatMeetThemAtOneTime) {
  std::atomic<int> ready{0};
  std::vector<Places> all(8);
  {
    std::vector<std::jthread> threads;
    for (Places& places : all)
      threads.emplace_back([&] {
        for (++ready; ready < static_cast<int>(all.size());) {
        }
        places = tokens_of_two_places();
      });
  }
  for (const Places& places : all) {
    EXPECT_EQ(places.first.outer, all[0].first.outer);
    EXPECT_EQ(places.again.outer, all[0].first.outer);
    EXPECT_EQ(places.other.outer, all[0].other.outer);
    EXPECT_NE(places.other.outer, places.first.outer);
  }
}

TEST_F(Frames, AreNotLookedForWhereAnOlderShimLeftItsReturnAddress) {
  thread_local seam::ThreadRecord thread;
  const uint64_t before = seam::by_kernel::gs_base();
  seam::by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&thread));
  seam::note_caller(reinterpret_cast<void*>(&look));
  Token t{};
  note_callers(&t, true, 1);
  seam::by_kernel::set_gs_base(before);
  EXPECT_EQ(t.caller, reinterpret_cast<uint64_t>(&look));
  EXPECT_EQ(t.outer, 0u);
}

}  // namespace
}  // namespace cropdl::boundaries
