// links: gpu_engine
// Lanes that part and meet, wait for each other and call: independent threads of a warp.
#include "tests/unit/gpu/engine_rig.h"

namespace cropdl::engine {
namespace {

constexpr const char* kHead = R"(
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
)";
std::string kernel(const std::string& body, const std::string& before = {}) {
  return before + ".visible .entry k(.param .u64 out) {" + kHead + body + " ret; }";
}

TEST(Warp, DivergedLanesReconverge) {
  Rig rig;
  // Lane i goes i & 3 times round a loop, then all vote: the ballot must hold all lanes.
  rig.load(kernel(R"(
    and.b32 %r5, %r1, 3; mov.u32 %r6, 0; mov.u32 %r7, 100;
  $L_round: setp.ge.u32 %p1, %r6, %r5; @%p1 bra $L_out;
    add.u32 %r6, %r6, 1; add.u32 %r7, %r7, %r1; bra.uni $L_round;
  $L_out: activemask.b32 %r8; setp.eq.u32 %p2, %r8, -1; selp.u32 %r9, %r7, 0, %p2; st.global.u32 [%rd3], %r9;
  )"));
  auto* out = rig.array<uint32_t>(32);
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 100 + (i & 3) * i);
}

TEST(Warp, LanesOfAWarpMaySpinForEachOther) {
  Rig rig;
  // A lock in global memory that all lanes of all warps take in turn.
  rig.load(kernel(R"(
  $L_try: atom.global.cas.b32 %r5, [lock], 0, 1; setp.ne.u32 %p1, %r5, 0; @%p1 bra $L_try;
    ld.volatile.global.u32 %r6, [count]; add.u32 %r6, %r6, 1; st.volatile.global.u32 [count], %r6;
    membar.gl; atom.global.exch.b32 %r7, [lock], 0;
    ld.param.u64 %rd1, [out]; ld.volatile.global.u32 %r8, [count]; st.global.u32 [%rd1], %r8;
  )",
                  ".global .u32 lock; .global .u32 count;"));
  auto* out = rig.array<uint32_t>(64);
  Outcome outcome = rig.run("k", {4, 1, 1}, {64, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  EXPECT_EQ(out[0], 256u);
}

TEST(Warp, ALaneMayWaitForOneThatIsBehindInTheText) {
  Rig rig;
  // Lane 0 waits for a flag that the others set after it in the text, then they wait for its answer.
  rig.load(kernel(R"(
    setp.ne.u32 %p1, %r1, 0; @%p1 bra $L_others;
  $L_wait: ld.volatile.global.u32 %r5, [flag]; setp.ne.u32 %p2, %r5, 31; @%p2 bra $L_wait;
    mov.u32 %r6, 7; st.volatile.global.u32 [answer], %r6; st.global.u32 [%rd3], %r6; bra.uni $L_end;
  $L_others: red.global.add.u32 [flag], 1;
  $L_wait2: ld.volatile.global.u32 %r7, [answer]; setp.eq.u32 %p3, %r7, 0; @%p3 bra $L_wait2;
    st.global.u32 [%rd3], %r7;
  $L_end:
  )",
                  ".global .u32 flag; .global .u32 answer;"));
  auto* out = rig.array<uint32_t>(32);
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], 7u);
}

TEST(Warp, BlocksMayWaitForEachOtherWhereTheyAllFit) {
  Rig rig(1);
  rig.load(kernel(R"(
    setp.ne.u32 %p1, %r1, 0; @%p1 bra $L_sync;
    red.global.add.u32 [there], 1;
  $L_wait: ld.volatile.global.u32 %r5, [there]; mov.u32 %r6, %nctaid.x; setp.lt.u32 %p2, %r5, %r6; @%p2 bra $L_wait;
  $L_sync: bar.sync 0; mov.u32 %r7, 5; st.global.u32 [%rd3], %r7;
  )",
                  ".global .u32 there;"));
  auto* out = rig.array<uint32_t>(16 * 64);
  Outcome outcome = rig.run("k", {16, 1, 1}, {64, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < 16 * 64; ++i) EXPECT_EQ(out[i], 5u);
}

TEST(Warp, ShufflesGiveWhatTheModesSay) {
  Rig rig;
  rig.load(kernel(R"(
    shfl.sync.up.b32 %r5|%p1, %r1, 1, 0, -1; selp.u32 %r6, 1000, 0, %p1; add.u32 %r5, %r5, %r6;
    shfl.sync.down.b32 %r7|%p2, %r1, 2, 31, -1; selp.u32 %r8, 1000, 0, %p2; add.u32 %r7, %r7, %r8;
    shfl.sync.bfly.b32 %r9|%p3, %r1, 5, 31, -1; selp.u32 %r10, 1000, 0, %p3; add.u32 %r9, %r9, %r10;
    shfl.sync.idx.b32 %r11|%p4, %r1, 3, 6175, -1; selp.u32 %r12, 1000, 0, %p4; add.u32 %r11, %r11, %r12;
    st.global.u32 [%rd3], %r5; st.global.u32 [%rd3+128], %r7; st.global.u32 [%rd3+256], %r9; st.global.u32 [%rd3+384], %r11;
  )"));
  auto* out = rig.array<uint32_t>(128);
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], i >= 1 ? i - 1 + 1000 : i);
    EXPECT_EQ(out[32 + i], i + 2 < 32 ? i + 2 + 1000 : i);
    EXPECT_EQ(out[64 + i], (i ^ 5) + 1000);
    EXPECT_EQ(out[96 + i], (i & 24) + 3 + 1000);  // c: segments of 8 lanes
  }
}

TEST(Warp, LanesComeToACollectiveByTwoWays) {
  Rig rig;
  // Odd and even lanes call the same function from different places; the shuffle in it is one.
  rig.load(R"(
.func (.param .b32 back) swap(.param .b32 value) {
  .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.u32 %r1, [value]; shfl.sync.bfly.b32 %r2|%p1, %r1, 1, 31, -1; st.param.b32 [back], %r2; ret;
})" + kernel(R"(
    and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 1; @%p1 bra $L_odd;
    { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call.uni (b), swap, (a); ld.param.b32 %r6, [b]; }
    bra.uni $L_end;
  $L_odd: add.u32 %r7, %r1, 100;
    { .param .b32 a; st.param.b32 [a], %r7; .param .b32 b; call.uni (b), swap, (a); ld.param.b32 %r6, [b]; }
  $L_end: st.global.u32 [%rd3], %r6;
  )"));
  auto* out = rig.array<uint32_t>(32);
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i & 1 ? i - 1 : i + 1 + 100);
}

constexpr const char* kFibonacci = R"(
.func (.param .b32 back) fib(.param .b32 n) {
  .reg .pred %p<2>; .reg .b32 %r<9>;
  ld.param.u32 %r8, [n]; setp.lt.s32 %p1, %r8, 2; @%p1 bra $L_small;
  add.s32 %r4, %r8, -1;
  { .param .b32 a; st.param.b32 [a], %r4; .param .b32 b; call.uni (b), fib, (a); ld.param.b32 %r5, [b]; }
  add.s32 %r6, %r8, -2;
  { .param .b32 a; st.param.b32 [a], %r6; .param .b32 b; call.uni (b), fib, (a); ld.param.b32 %r7, [b]; }
  add.s32 %r8, %r7, %r5;
$L_small: st.param.b32 [back], %r8; ret;
}
)";

TEST(Warp, FunctionsCallThemselves) {
  Rig rig;
  rig.load(kFibonacci + kernel(R"(
    and.b32 %r5, %r1, 15; { .param .b32 a; st.param.b32 [a], %r5; .param .b32 b; call.uni (b), fib, (a); ld.param.b32 %r6, [b]; }
    st.global.u32 [%rd3], %r6;
  )"));
  auto* out = rig.array<uint32_t>(64);
  Outcome outcome = rig.run("k", {1, 1, 1}, {64, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  uint32_t fib[16] = {0, 1};
  for (int i = 2; i < 16; ++i) fib[i] = fib[i - 1] + fib[i - 2];
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], fib[i & 15]);
}

TEST(Warp, RecursionWithoutEndUsesUpTheStack) {
  Rig rig;
  rig.load(kFibonacci + kernel(R"(
    mov.u32 %r5, 100000; { .param .b32 a; st.param.b32 [a], %r5; .param .b32 b; call.uni (b), fib, (a); ld.param.b32 %r6, [b]; }
    st.global.u32 [%rd3], %r6;
  )"));
  auto* out = rig.array<uint32_t>(32);
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, out);
  EXPECT_EQ(outcome.error, CUDA_ERROR_HARDWARE_STACK_ERROR);
  EXPECT_NE(outcome.text.find("fib"), std::string::npos) << outcome.text;
}

TEST(Warp, EachLaneCallsItsOwnPointer) {
  Rig rig;
  rig.load(R"(
.func (.param .b32 back) plus(.param .b32 v) { .reg .b32 %r<3>; ld.param.u32 %r1, [v]; add.u32 %r2, %r1, 1; st.param.b32 [back], %r2; ret; }
.func (.param .b32 back) twice(.param .b32 v) { .reg .b32 %r<3>; ld.param.u32 %r1, [v]; shl.b32 %r2, %r1, 1; st.param.b32 [back], %r2; ret; }
.global .u64 table[2] = {plus, twice};
)" + kernel(R"(
    and.b32 %r5, %r1, 1; mul.wide.u32 %rd4, %r5, 8; mov.u64 %rd5, table; add.s64 %rd6, %rd5, %rd4; ld.global.u64 %rd7, [%rd6];
    { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b;
      proto : .callprototype (.param .b32 _) _ (.param .b32 _);
      call (b), %rd7, (a), proto; ld.param.b32 %r6, [b]; }
    st.global.u32 [%rd3], %r6;
  )"));
  auto* out = rig.array<uint32_t>(32);
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], i & 1 ? i * 2 : i + 1);
}

// f may have shared variables, since the kernel is lowered with it, although its last direct call is of a
// function that is lowered already.
TEST(Warp, APointedToFunctionBelongsToAKernelThatCallsAnotherTwice) {
  Rig rig;
  rig.load(R"(
.func (.param .b32 back) f(.param .b32 v) {
  .shared .align 4 .b8 own[4]; .reg .b32 %r<3>; ld.param.u32 %r1, [v]; st.shared.u32 [own], %r1;
  ld.shared.u32 %r2, [own]; add.u32 %r2, %r2, 5; st.param.b32 [back], %r2; ret;
}
.func (.param .b32 back) plus(.param .b32 v) { .reg .b32 %r<3>; ld.param.u32 %r1, [v]; add.u32 %r2, %r1, 1; st.param.b32 [back], %r2; ret; }
.global .u64 pointer[1] = {f};
)" + kernel(R"(
    { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call (b), plus, (a); ld.param.b32 %r5, [b]; }
    { .param .b32 a; st.param.b32 [a], %r5; .param .b32 b; call (b), plus, (a); ld.param.b32 %r5, [b]; }
    mov.u64 %rd5, pointer; ld.global.u64 %rd7, [%rd5];
    { .param .b32 a; st.param.b32 [a], %r5; .param .b32 b;
      proto : .callprototype (.param .b32 _) _ (.param .b32 _);
      call (b), %rd7, (a), proto; ld.param.b32 %r6, [b]; }
    st.global.u32 [%rd3], %r6;
  )"));
  auto* out = rig.array<uint32_t>(1);
  Outcome outcome = rig.run("k", {1, 1, 1}, {1, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  EXPECT_EQ(*out, 7u);
}

TEST(Warp, ACallOfNoFunctionIsAnError) {
  Rig rig;
  rig.load(kernel(R"(
    mov.u64 %rd7, 12345;
    { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b;
      proto : .callprototype (.param .b32 _) _ (.param .b32 _);
      call (b), %rd7, (a), proto; ld.param.b32 %r6, [b]; }
    st.global.u32 [%rd3], %r6;
  )"));
  auto* out = rig.array<uint32_t>(32);
  EXPECT_EQ(rig.run("k", {1, 1, 1}, {32, 1, 1}, out).error, CUDA_ERROR_INVALID_PC);
}

TEST(Warp, SwitchesGoByTables) {
  Rig rig;
  rig.load(kernel(R"(
    rem.u32 %r5, %r1, 3;
    targets: .branchtargets $L_a, $L_b, $L_c;
    brx.idx %r5, targets;
  $L_a: mov.u32 %r6, 10; bra.uni $L_end;
  $L_b: mov.u32 %r6, 20; bra.uni $L_end;
  $L_c: mov.u32 %r6, 30;
  $L_end: st.global.u32 [%rd3], %r6;
  )"));
  auto* out = rig.array<uint32_t>(32);
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], (i % 3 + 1) * 10);
}

TEST(Warp, VotesMatchesReductionsElections) {
  Rig rig;
  rig.load(kernel(R"(
    setp.lt.u32 %p1, %r1, 10; vote.sync.ballot.b32 %r5, %p1, -1; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, !%p1, -1;
    selp.u32 %r6, 1, 0, %p2; selp.u32 %r7, 2, 0, %p3; add.u32 %r6, %r6, %r7;
    and.b32 %r8, %r1, 7; match.any.sync.b32 %r9, %r8, -1;
    redux.sync.add.u32 %r10, %r1, -1; sub.s32 %r11, 5, %r1; redux.sync.min.s32 %r12, %r11, -1;
    elect.sync %r13|%p4, 240; selp.u32 %r14, 1, 0, %p4;
    st.global.u32 [%rd3], %r5; st.global.u32 [%rd3+128], %r6; st.global.u32 [%rd3+256], %r9; st.global.u32 [%rd3+384], %r10; st.global.u32 [%rd3+512], %r12;
  )"));
  auto* out = rig.array<uint32_t>(160);
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, out);
  // The election names lanes 4 to 7 only, and others take part in it: an error, once all else has been seen
  // to work.
  EXPECT_EQ(outcome.error, CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_NE(outcome.text.find("mask"), std::string::npos) << outcome.text;
}

TEST(Warp, VotesMatchesReductions) {
  Rig rig;
  rig.load(kernel(R"(
    setp.lt.u32 %p1, %r1, 10; vote.sync.ballot.b32 %r5, %p1, -1; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, !%p1, -1;
    selp.u32 %r6, 1, 0, %p2; selp.u32 %r7, 2, 0, %p3; add.u32 %r6, %r6, %r7;
    and.b32 %r8, %r1, 7; match.any.sync.b32 %r9, %r8, -1;
    redux.sync.add.u32 %r10, %r1, -1; sub.s32 %r11, 5, %r1; redux.sync.min.s32 %r12, %r11, -1;
    st.global.u32 [%rd3], %r5; st.global.u32 [%rd3+128], %r6; st.global.u32 [%rd3+256], %r9; st.global.u32 [%rd3+384], %r10; st.global.u32 [%rd3+512], %r12;
  )"));
  auto* out = rig.array<uint32_t>(160);
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], 0x3ffu);
    EXPECT_EQ(out[32 + i], 1u);
    EXPECT_EQ(out[64 + i], 0x01010101u << (i & 7));
    EXPECT_EQ(out[96 + i], 496u);
    EXPECT_EQ(out[128 + i], static_cast<uint32_t>(-26));
  }
}

TEST(Warp, ExitedLanesAreNotWaitedFor) {
  Rig rig;
  rig.load(kernel(R"(
    setp.ge.u32 %p1, %r1, 20; @%p1 exit;
    shfl.sync.idx.b32 %r5, %r1, 3, 31, -1; bar.warp.sync -1; bar.sync 0;
    st.global.u32 [%rd3], %r5;
  )"));
  auto* out = rig.array<uint32_t>(64);
  Outcome outcome = rig.run("k", {1, 1, 1}, {64, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 20; ++i) EXPECT_EQ(out[i], 3u);
  EXPECT_EQ(out[20], 0u);
}

TEST(Warp, LanesMayEndInAFunctionThatWasCalled) {
  Rig rig;
  // Odd lanes end two calls deep; those that come back are all that there are.
  rig.load(
      kernel(R"(
    { .param .b32 p; st.param.b32 [p], %r1; call outer, (p); }
    bar.warp.sync -1; activemask.b32 %r5; bar.sync 0; st.global.u32 [%rd3], %r5;
  )",
             ".func inner(.param .b32 lane) { .reg .b32 %r<3>; .reg .pred %p<2>; ld.param.u32 %r1, [lane]; "
             "and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0; @%p1 exit; ret; } "
             ".func outer(.param .b32 lane) { .reg .b32 %r<3>; ld.param.u32 %r1, [lane]; "
             "{ .param .b32 p; st.param.b32 [p], %r1; call inner, (p); } ret; } "));
  auto* out = rig.array<uint32_t>(64);
  Outcome outcome = rig.run("k", {1, 1, 1}, {64, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], i & 1 ? 0 : 0x55555555u) << i;
}

TEST(Warp, WarpOperationsNeedAWholeWarp) {
  const char* each[] = {
      "movmatrix.sync.aligned.m8n8.trans.b16 %r5, %r1;",
      "mma.sync.aligned.m8n8k16.row.col.s32.u8.u8.s32 {%r5, %r6}, {%r1}, {%r1}, {%r1, %r1};"};
  for (const char* instruction : each) {
    for (uint32_t threads : {16u, 32u, 48u}) {
      Rig rig;
      rig.load(kernel(std::string(instruction) + " st.global.u32 [%rd3], %r5;"));
      Outcome outcome = rig.run("k", {1, 1, 1}, {threads, 1, 1}, rig.array<uint32_t>(64));
      EXPECT_EQ(outcome.error, threads == 32 ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_INSTRUCTION) << instruction;
    }
    Rig rig;  // and none that have ended
    rig.load(kernel("setp.eq.u32 %p1, %r1, 7; @%p1 exit; " + std::string(instruction)));
    Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, rig.array<uint32_t>(64));
    EXPECT_EQ(outcome.error, CUDA_ERROR_ILLEGAL_INSTRUCTION) << instruction;
    EXPECT_NE(outcome.text.find("32 threads"), std::string::npos) << outcome.text;
  }
}

TEST(Warp, MatchesOfTwoWidthsDoNotMeet) {
  Rig rig;
  rig.load(kernel(R"(
    cvt.u64.u32 %rd5, %r1; setp.lt.u32 %p1, %r1, 16; @%p1 bra $L_narrow;
    match.any.sync.b64 %r5, %rd5, -1; bra.uni $L_end;
  $L_narrow: match.any.sync.b32 %r5, %r1, -1;
  $L_end: st.global.u32 [%rd3], %r5;
  )"));
  Outcome outcome = rig.run("k", {1, 1, 1}, {32, 1, 1}, rig.array<uint32_t>(32));
  EXPECT_EQ(outcome.error, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_NE(outcome.text.find("match.any.sync.b64"), std::string::npos) << outcome.text;
}

TEST(Warp, LocalVariablesOfCalledFunctionsAreAligned) {
  Rig rig;
  rig.load(R"(
.func (.param .b32 back) f() {
  .local .align 128 .b8 own[64]; .local .b8 more[3]; .reg .b64 %rd<4>; .reg .b32 %r<4>;
  mov.u64 %rd1, own; cvta.local.u64 %rd2, %rd1; cvt.u32.u64 %r1, %rd2; and.b32 %r1, %r1, 127;
  st.u64 [%rd2+56], %rd2; mov.u64 %rd3, more; st.local.u8 [%rd3+2], %r1; st.param.b32 [back], %r1; ret;
}
.visible .entry k(.param .u64 out) {
  .local .b8 own[5]; .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out]; mov.u64 %rd2, own;
  { .param .b32 p; call (p), f; ld.param.b32 %r1, [p]; } st.global.u32 [%rd1], %r1; ret;
})");
  auto* out = rig.array<uint32_t>(1);
  *out = 1;
  Outcome outcome = rig.run("k", {1, 1, 1}, {1, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  EXPECT_EQ(*out, 0u);
}

}  // namespace
}  // namespace cropdl::engine
