// links: gpu_engine
// What makes kernels run, on PTX written by hand.
#include <thread>

#include "gpu_state/software/engine/running.h"
#include "tests/unit/gpu/engine_rig.h"

namespace cropdl::engine {
namespace {

TEST(Engine, AddsVectors) {
  Rig rig;
  rig.load(R"(
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<11>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r2, [n];
  mov.u32 %r3, %ntid.x; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %tid.x;
  mad.lo.s32 %r1, %r4, %r3, %r5;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra $L_end;
  cvta.to.global.u64 %rd4, %rd1; cvta.to.global.u64 %rd5, %rd2; cvta.to.global.u64 %rd6, %rd3;
  mul.wide.s32 %rd7, %r1, 4;
  add.s64 %rd8, %rd4, %rd7; add.s64 %rd9, %rd5, %rd7; add.s64 %rd10, %rd6, %rd7;
  ld.global.f32 %f1, [%rd8]; ld.global.f32 %f2, [%rd9];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd10], %f3;
$L_end:
  ret;
})");
  const int n = 1000;
  auto *a = rig.array<float>(n), *b = rig.array<float>(n), *c = rig.array<float>(n);
  for (int i = 0; i < n; ++i) a[i] = static_cast<float>(i), b[i] = 2.0f * static_cast<float>(i);
  Outcome outcome = rig.run("add", {4, 1, 1}, {256, 1, 1}, a, b, c, n);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < n; ++i) EXPECT_EQ(c[i], 3.0f * static_cast<float>(i));
}

// A block's sum: shared memory, barriers, shuffles.
constexpr const char* kSum = R"(
.visible .entry sum(.param .u64 in, .param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
  .shared .align 4 .b8 part[128];
  ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r4, %r2, %r3, %r1;
  mul.wide.u32 %rd3, %r4, 4; add.s64 %rd4, %rd1, %rd3;
  ld.global.u32 %r5, [%rd4];
  mov.u32 %r6, 16;
$L_fold:
  shfl.sync.down.b32 %r7|%p1, %r5, %r6, 31, -1;
  add.s32 %r5, %r5, %r7;
  shr.u32 %r6, %r6, 1;
  setp.ne.s32 %p2, %r6, 0;
  @%p2 bra $L_fold;
  and.b32 %r8, %r1, 31; shr.u32 %r9, %r1, 5;
  setp.ne.s32 %p3, %r8, 0;
  shl.b32 %r10, %r9, 2; mov.u32 %r11, part; add.s32 %r12, %r11, %r10;
  @!%p3 st.shared.u32 [%r12], %r5;
  bar.sync 0;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra $L_end;
  mov.u32 %r13, 0; mov.u32 %r14, 0; shr.u32 %r15, %r3, 5;
$L_add:
  shl.b32 %r16, %r14, 2; add.s32 %r17, %r11, %r16;
  ld.shared.u32 %r18, [%r17]; add.s32 %r13, %r13, %r18;
  add.s32 %r14, %r14, 1; setp.lt.u32 %p2, %r14, %r15; @%p2 bra $L_add;
  mul.wide.u32 %rd5, %r2, 4; add.s64 %rd6, %rd2, %rd5; st.global.u32 [%rd6], %r13;
$L_end:
  ret;
})";

TEST(Engine, SumsABlock) {
  Rig rig;
  rig.load(kSum);
  auto *in = rig.array<uint32_t>(4 * 256), *out = rig.array<uint32_t>(4);
  uint32_t expected[4] = {};
  for (uint32_t i = 0; i < 1024; ++i) in[i] = i * 7, expected[i / 256] += i * 7;
  Outcome outcome = rig.run("sum", {4, 1, 1}, {256, 1, 1}, in, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], expected[i]);
}

// Blocks wait for each other, at `there`, in the way that `look` reads it into %r5.
std::string meeting(const std::string& look) {
  return R"(
.visible .entry k(.param .u64 there) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [there]; mov.u32 %r1, %tid.x; mov.u32 %r2, %nctaid.x;
  setp.ne.u32 %p1, %r1, 0; @%p1 bra $L_sync;
  red.global.add.u32 [%rd1], 1;
$L_look: )" +
         look + R"( setp.lt.u32 %p1, %r5, %r2; @%p1 bra $L_look;
$L_sync: bar.sync 0; ret;
})";
}

TEST(Engine, BlocksMayWaitForEachOtherByAnyKindOfRead) {
  for (const char* look : {"atom.global.add.u32 %r5, [%rd1], 0;", "atom.global.or.b32 %r5, [%rd1], 0;",
                           "ld.global.cg.u32 %r5, [%rd1];", "ld.global.cv.u32 %r5, [%rd1];"}) {
    Rig rig;  // of two cores
    rig.load(meeting(look));
    rig.cooperative = true;
    auto* there = rig.array<uint32_t>(1);
    Outcome outcome = rig.run("k", {5, 1, 1}, {64, 1, 1}, there);
    EXPECT_EQ(outcome.error, CUDA_SUCCESS) << look << outcome.text;
    EXPECT_EQ(*there, 5u);
  }
}

// A block of one warp that runs here, slice by slice, as on a processor's thread.
struct Slices {
  explicit Slices(const std::string& body) {
    rig.load(
        ".visible .entry k(.param .u64 p) { .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; "
        ".shared .align 8 .b8 room[64]; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0; " +
        body + " ret; }");
    auto made = rig.code->kernel("k");
    EXPECT_TRUE(made) << made.error().message;
    launch.kernel = *made;
    launch.block = {32, 1, 1};
    launch.memory = &rig.view;
    launch.parameters.resize(8);
    std::memcpy(launch.parameters.data(), &memory, 8);
    grid.launch = &launch;
    grid.kernel = launch.kernel.get();
    grid.blocks = grid.warps = 1;
    grid.threads = 32;
    grid.shared_bytes = 64;
    block.begin(&grid, 0, 1, 0);
  }
  SliceEnd run() { return block.run(1 << 15); }
  Rig rig;
  uint32_t* memory = rig.array<uint32_t>(64);
  Launch launch;
  Grid grid;
  Block block;
};

TEST(Engine, ABlockThatDoesSomethingIsNotTakenToWait) {
  if (settings::settings().seed) GTEST_SKIP() << "with a seed turns end at random";
  const char* works[] = {
      "L: mad.lo.u32 %r1, %r1, 77, 5; and.b32 %r3, %r1, 0xff; atom.global.max.u32 %r4, [%rd1], %r3; bra L;",
      "L: add.u32 %r2, %r2, 4; and.b32 %r3, %r2, 252; cvt.u64.u32 %rd2, %r3; add.u64 %rd2, %rd2, %rd1; "
      "ld.volatile.global.u32 %r4, [%rd2]; bra L;",
      "L: add.u32 %r2, %r2, 1; st.volatile.global.u32 [%rd1+8], %r2; ld.volatile.global.u32 %r4, [%rd1+8]; "
      "bra L;",
      "setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [room], 1; bar.warp.sync -1; "
      "L: mbarrier.test_wait.parity.shared.b64 %p2, [room], 1; bra L;"};
  const char* waits[] = {
      "L: ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;",
      "L: atom.global.cas.b32 %r4, [%rd1], 1, 2; setp.ne.u32 %p1, %r4, 1; @%p1 bra L;",
      "L: atom.global.add.u32 %r4, [%rd1], 0; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;",
      // Two flags, by one instruction that looks at them in turn and by two.
      "L: xor.b32 %r2, %r2, 4; cvt.u64.u32 %rd2, %r2; add.u64 %rd2, %rd2, %rd1; "
      "ld.relaxed.gpu.global.u32 %r4, [%rd2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L;",
      "L: ld.volatile.global.u32 %r4, [%rd1]; ld.volatile.global.u32 %r5, [%rd1+128]; or.b32 %r4, %r4, %r5; "
      "setp.eq.u32 %p1, %r4, 0; @%p1 bra L;",
      "setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [room], 1; bar.warp.sync -1; "
      "L: mbarrier.test_wait.parity.shared.b64 %p2, [room], 0; @!%p2 bra L;",
      // Lanes that each wait for what is theirs, and have parted.
      "cvt.u64.u32 %rd2, %r1; shl.b64 %rd2, %rd2, 2; add.u64 %rd2, %rd2, %rd1; setp.lt.u32 %p2, %r1, 9; "
      "@%p2 bra M; L: ld.volatile.global.u32 %r4, [%rd2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L; ret; "
      "M: ld.volatile.global.u32 %r4, [%rd2]; setp.eq.u32 %p1, %r4, 0; @%p1 bra M;"};
  for (const char* body : works) {
    Slices slices(body);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(slices.run(), SliceEnd::kQuantum) << body;
    EXPECT_EQ(slices.block.spins, 0u) << body;
  }
  for (const char* body : waits) {
    Slices slices(body);
    slices.run();  // in which it came to its loop
    for (int i = 0; i < 3; ++i) EXPECT_EQ(slices.run(), SliceEnd::kSpinning) << body;
    EXPECT_GE(slices.block.spins, 3u) << body;
  }
}

TEST(Engine, ABlockThatContinuesAfterWaitingIsNotCountedAsWaiting) {
  if (settings::settings().seed) GTEST_SKIP() << "with a seed turns end at random";
  Slices slices(
      "L: ld.volatile.global.u32 %r4, [%rd1]; setp.eq.u32 %p1, %r4, 0; @%p1 bra L; "
      "M: add.u32 %r2, %r2, 1; bra M;");
  for (int i = 0; i < 5; ++i) slices.run();
  EXPECT_GT(slices.block.spins, 0u);
  *slices.memory = 1;
  EXPECT_EQ(slices.run(), SliceEnd::kQuantum);
  EXPECT_EQ(slices.block.spins, 0u);
}

TEST(Engine, TwoGridsWhoseBlocksWaitForEachOtherBothEnd) {
  Rig rig;
  rig.load(meeting("ld.volatile.global.u32 %r5, [%rd1];"));
  rig.cooperative = true;
  for (int round = 0; round < 8; ++round) {  // either alone fits, both do not: 128 blocks
    uint32_t* there[] = {rig.array<uint32_t>(1), rig.array<uint32_t>(1)};
    auto one = [&](int which) {
      Outcome outcome = rig.run("k", {100, 1, 1}, {32, 1, 1}, there[which]);
      EXPECT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
      EXPECT_EQ(*there[which], 100u);
    };
    std::thread other(one, 1);
    one(0);
    other.join();
  }
}

TEST(Engine, ASingleBlockContinuesNextToItsCaller) {
  Rig rig(1);
  // It takes more than one slice; then it waits for one that comes later, which waits for it too.
  rig.load(R"(
.visible .entry k(.param .u64 there) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [there]; mov.u32 %r1, 0;
L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 300000; @%p1 bra L; st.global.u32 [%rd1+4], %r1; ret;
}
.visible .entry meet(.param .u64 there) {
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [there]; red.global.add.u32 [%rd1], 1;
L: ld.volatile.global.u32 %r1, [%rd1]; setp.lt.u32 %p1, %r1, 2; @%p1 bra L; ret;
}
.visible .entry fault() { trap; })");
  auto* there = rig.array<uint32_t>(2);
  EXPECT_EQ(rig.run("k", {1, 1, 1}, {1, 1, 1}, there).error, CUDA_SUCCESS);
  EXPECT_EQ(there[1], 300000u);
  auto meet = [&] { EXPECT_EQ(rig.run("meet", {1, 1, 1}, {1, 1, 1}, there).error, CUDA_SUCCESS); };
  std::thread other(meet);
  meet();
  other.join();
  EXPECT_EQ(rig.run("fault", {1, 1, 1}, {1, 1, 1}).error, CUDA_ERROR_LAUNCH_FAILED);  // at once
  EXPECT_EQ(rig.run("k", {1, 1, 1}, {1, 1, 1}, there).error, CUDA_SUCCESS);
}

TEST(Engine, AMultiprocessorHoldsItsStatedCapacity) {
  Rig rig;
  rig.load(".visible .entry k() { .shared .b8 room[4096]; .reg .b32 %r<2>; mov.u32 %r1, room; ret; }");
  auto kernel = rig.code->kernel("k");
  ASSERT_TRUE(kernel);
  EXPECT_EQ(rig.processors.resident(**kernel, 1024, 0), 2);
  EXPECT_EQ(rig.processors.resident(**kernel, 32, 0), 32);
  EXPECT_EQ(rig.processors.resident(**kernel, 32, 60 << 10), 3);
  WorkerPool turing(1, 1, 1, {1024, 16, 64 << 10, 0});
  EXPECT_EQ(turing.resident(**kernel, 1024, 0), 1);
  EXPECT_EQ(turing.resident(**kernel, 32, 0), 16);
  EXPECT_EQ(turing.resident(**kernel, 32, 28 << 10), 2);
  EXPECT_EQ(turing.resident(**kernel, 32, 60 << 10), 1);
  EXPECT_EQ(turing.resident(**kernel, 32, (60 << 10) + 4), 0);
}

TEST(Engine, SharedVariablesOfTwoFunctionsAreTwo) {
  Rig rig;
  rig.load(R"(
.shared .align 4 .b8 tmp[8];
.func small() { .shared .align 4 .b8 tmp[4]; .reg .b32 %r<2>; mov.u32 %r1, 1; st.shared.u32 [tmp], %r1; ret; }
.func large() { .shared .align 4 .b8 tmp[400]; .reg .b32 %r<2>; mov.u32 %r1, 2; st.shared.u32 [tmp], %r1; st.shared.u32 [tmp+396], %r1; ret; }
.func other(.param .u64 out) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [out];
  mov.u32 %r1, tmp; ld.shared.u32 %r2, [tmp]; st.global.u32 [%rd1], %r2; ld.shared.u32 %r2, [tmp+4]; st.global.u32 [%rd1+4], %r2; ret;
}
.visible .entry k(.param .u64 out) {
  .shared .align 4 .b8 next[4]; .reg .b32 %r<3>; .reg .b64 %rd<2>;
  mov.u32 %r1, 7; st.shared.u32 [tmp], %r1; st.shared.u32 [next], %r1; st.shared.u32 [tmp+4], %r1;
  { call small; } { call large; }
  ld.param.u64 %rd1, [out];
  { .param .b64 p; st.param.b64 [p], %rd1; call other, (p); }
  ld.shared.u32 %r2, [next]; st.global.u32 [%rd1+8], %r2; ret;
})");
  auto* out = rig.array<uint32_t>(3);
  Outcome outcome = rig.run("k", {1, 1, 1}, {1, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(out[i], 7u) << i;
  auto made = rig.code->kernel("k");
  EXPECT_EQ(facts(**made).static_shared, 8u + 4 + 4 + 400);
}

TEST(Engine, AKernelKnowsFunctionsWhoseAddressWasTakenLater) {
  Rig rig;
  rig.load(R"(
.global .u64 pointer;
.func (.param .b32 back) f() {
  .shared .align 4 .b8 own[4]; .reg .b32 %r<2>; mov.u32 %r1, 9; st.shared.u32 [own], %r1;
  ld.shared.u32 %r1, [own]; st.param.b32 [back], %r1; ret;
}
.visible .entry use(.param .u64 out) {
  .reg .b32 %r<2>; .reg .b64 %rd<3>; ld.global.u64 %rd1, [pointer]; ld.param.u64 %rd2, [out];
  { .param .b32 p; prototype: .callprototype (.param .b32 _) _ (); call (p), %rd1, (), prototype; ld.param.b32 %r1, [p]; }
  st.global.u32 [%rd2], %r1; ret;
}
.visible .entry set() { .reg .b64 %rd<2>; mov.u64 %rd1, f; st.global.u64 [pointer], %rd1; ret; })");
  auto use = rig.code->kernel("use");
  ASSERT_TRUE(use);
  ASSERT_EQ(rig.run("set", {1, 1, 1}, {1, 1, 1}).error, CUDA_SUCCESS);
  auto* out = rig.array<uint32_t>(1);
  Outcome outcome = rig.run("use", {1, 1, 1}, {1, 1, 1}, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  EXPECT_EQ(*out, 9u);
  EXPECT_EQ(*rig.code->kernel("use"), *use);  // what the program was told of it holds
  EXPECT_EQ(facts(**use).static_shared, 4u);
}

}  // namespace
}  // namespace cropdl::engine
