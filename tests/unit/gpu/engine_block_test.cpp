// links: gpu_engine
// Barriers, atomics, faults and what stands still: blocks and grids.
#include "gpu_state/software/settings/settings.h"
#include "tests/unit/gpu/engine_rig.h"

namespace cropdl::engine {
namespace {

constexpr const char* kHead = R"(
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<8>; .reg .f64 %fd<4>;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
)";
std::string kernel(const std::string& body, const std::string& before = {}) {
  return before + ".visible .entry k(.param .u64 out) {" + kHead + body + " ret; }";
}
Outcome run(Rig& rig, const std::string& text, uint32_t blocks, uint32_t threads, uint32_t* out) {
  rig.load(text);
  return rig.run("k", {blocks, 1, 1}, {threads, 1, 1}, out);
}

TEST(Block, BarriersReduce) {
  Rig rig;
  auto* out = rig.array<uint32_t>(300);
  Outcome outcome = run(rig, kernel(R"(
    setp.lt.u32 %p1, %r1, 37; bar.red.popc.u32 %r5, 0, %p1;
    bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1; bar.red.and.pred %p4, 1, !%p3;
    selp.u32 %r6, 1000, 0, %p2; selp.u32 %r7, 2000, 0, %p3; selp.u32 %r8, 4000, 0, %p4;
    add.u32 %r5, %r5, %r6; add.u32 %r5, %r5, %r7; add.u32 %r5, %r5, %r8;
    st.global.u32 [%rd3], %r5;
  )"),
                        2, 100, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < 200; ++i) EXPECT_EQ(out[i], 2037u);
}

TEST(Block, NamedBarriersJoinSomeWarps) {
  Rig rig;
  auto* out = rig.array<uint32_t>(96);
  // Warp 2 produces, warp 0 consumes; warp 1 has nothing to do with it.
  Outcome outcome = run(rig, kernel(R"(
    .shared .u32 box;
    shr.u32 %r5, %r1, 5; setp.eq.u32 %p1, %r5, 1; @%p1 bra $L_end; setp.eq.u32 %p2, %r5, 0; @%p2 bra $L_take;
    mov.u32 %r6, 77; st.shared.u32 [box], %r6; membar.cta; bar.arrive 3, 64; bra.uni $L_end;
  $L_take: bar.sync 3, 64; ld.shared.u32 %r7, [box]; st.global.u32 [%rd3], %r7;
  $L_end:
  )"),
                        1, 96, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < 32; ++i) EXPECT_EQ(out[i], 77u);
}

TEST(Block, ABarrierThatCannotCompleteIsAnError) {
  Rig rig;
  auto* out = rig.array<uint32_t>(96);
  Outcome outcome = run(
      rig, kernel("setp.lt.u32 %p1, %r1, 32; @%p1 bar.sync 0; @!%p1 bar.sync 1; st.global.u32 [%rd3], %r1;"),
      1, 64, out);
  EXPECT_EQ(outcome.error, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_NE(outcome.text.find("barrier 1"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("bar.sync"), std::string::npos) << outcome.text;
}

TEST(Block, AtomicsCountAll) {
  Rig rig;
  auto* out = rig.array<uint32_t>(64);
  Outcome outcome = run(rig, kernel(R"(
    .shared .u32 own;
    setp.eq.u32 %p1, %r1, 0; mov.u32 %r10, 0; @%p1 st.shared.u32 [own], %r10; bar.sync 0;
    red.shared.add.u32 [own], 1; bar.sync 0;
    @!%p1 bra $L_rest; ld.shared.u32 %r5, [own]; red.global.add.u32 [%rd1], %r5;
  $L_rest:
    red.global.max.s32 [%rd1+4], %r4; red.global.min.u32 [%rd1+8], %r4; atom.global.or.b32 %r6, [%rd1+12], %r4; atom.global.inc.u32 %r7, [%rd1+16], 9;
    mov.f32 %f1, 0f3F000000; atom.global.add.f32 %f2, [%rd1+20], %f1; mov.f64 %fd1, 0d3FE0000000000000; red.global.add.f64 [%rd1+24], %fd1;
    mov.u32 %r8, 0x3c003c00; red.global.add.noftz.f16x2 [%rd1+32], %r8; atom.add.u64 %rd5, [%rd1+40], 5;
    atom.global.dec.u32 %r9, [%rd1+48], 6;
  )"),
                        8, 128, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  EXPECT_EQ(out[0], 1024u);
  EXPECT_EQ(out[1], 1023u);
  EXPECT_EQ(out[2], 0u);
  EXPECT_EQ(out[3], 1023u);
  EXPECT_EQ(out[4], 1024u % 10);
  float sum;
  std::memcpy(&sum, out + 5, 4);
  EXPECT_EQ(sum, 512.0f);
  double wide;
  std::memcpy(&wide, out + 6, 8);
  EXPECT_EQ(wide, 512.0);
  EXPECT_EQ(out[8], 0x64006400u);  // 1024 twice
  EXPECT_EQ(out[10], 5 * 1024u);
  EXPECT_EQ(out[12], (7 - 1024 % 7) % 7u);
}

TEST(Block, VectorAtomicsTakeAllSourcesBeforeTheyGiveResults) {
  Rig rig;
  auto* out = rig.array<uint32_t>(64);
  float* sums = reinterpret_cast<float*>(out);
  sums[0] = 10, sums[1] = 20;
  for (int i = 0; i < 8; ++i) reinterpret_cast<uint16_t*>(out + 4)[i] = static_cast<uint16_t>(0x3c00 + i);
  Outcome outcome = run(rig,
                        kernel(R"(
    .reg .b16 %h<9>;
    mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000;
    atom.global.v2.f32.add {%f1, %f2}, [%rd1], {%f2, %f1};
    st.global.v2.f32 [%rd1+8], {%f1, %f2};
    mov.b16 %h0, 0x3c00; mov.b16 %h1, 0x4000; mov.b16 %h2, 0x4200; mov.b16 %h3, 0x4400;
    mov.b16 %h4, 0x4500; mov.b16 %h5, 0x4600; mov.b16 %h6, 0x4700; mov.b16 %h7, 0x4800;
    atom.global.v8.f16.add.noftz {%h7, %h6, %h5, %h4, %h3, %h2, %h1, %h0}, [%rd1+16], {%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7};
    st.global.v4.b16 [%rd1+32], {%h7, %h6, %h5, %h4}; st.global.v4.b16 [%rd1+40], {%h3, %h2, %h1, %h0};
    mov.b16 %h0, 0; red.global.v8.f16.add.noftz [%rd1+16], {%h0, %h0, %h0, %h0, %h0, %h0, %h0, %h0};
    atom.global.v8.bf16.max.noftz {%h0, %h1, %h2, %h3, %h4, %h5, %h6, %h7}, [there], {%h0, %h0, %h0, %h0, %h0, %h0, %h0, %h0};
    st.global.b16 [%rd1+48], %h7;
  )",
                               ".global .align 16 .b16 there[8] = {1, 2, 3, 4, 5, 6, 7, 8};"),
                        1, 1, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  EXPECT_EQ(sums[0], 12.0f);
  EXPECT_EQ(sums[1], 21.0f);
  EXPECT_EQ(sums[2], 10.0f);
  EXPECT_EQ(sums[3], 20.0f);
  auto* halves = reinterpret_cast<const uint16_t*>(out + 4);
  EXPECT_EQ(halves[0], 0x4000);  // 1 + 1
  EXPECT_EQ(halves[7], 0x4881);  // 1 + 7 / 1024 + 8, rounded
  for (int i = 0; i < 8; ++i) EXPECT_EQ(halves[8 + i], 0x3c00 + i);
  EXPECT_EQ(halves[16], 8);
}

TEST(Block, MemoryIsCheckedToTheByte) {
  Rig rig;
  auto* out = rig.array<uint32_t>(33);
  Outcome outcome = run(rig, kernel("st.global.u32 [%rd3+8], %r1;"), 1, 32, out);
  EXPECT_EQ(outcome.error, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(outcome.text.find("thread (31, 0, 0)"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("st.global.u32"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("line"), std::string::npos) << outcome.text;
}

TEST(Block, MisalignedAddressesAreAnError) {
  Rig rig;
  auto* out = rig.array<uint32_t>(64);
  EXPECT_EQ(run(rig, kernel("st.global.u32 [%rd3+2], %r1;"), 1, 32, out).error,
            CUDA_ERROR_MISALIGNED_ADDRESS);
  Rig other;
  out = other.array<uint32_t>(64);
  EXPECT_EQ(run(other,
                kernel("mov.u32 %r5, 2; ld.shared.u32 %r6, [%r5]; st.global.u32 [%rd3], %r6;",
                       ".shared .align 4 .b8 room[64];"),
                1, 32, out)
                .error,
            CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST(Block, SharedAndLocalMemoryEnd) {
  Rig rig;
  auto* out = rig.array<uint32_t>(64);
  EXPECT_EQ(run(rig, kernel(".shared .align 4 .b8 room[64]; mov.u32 %r5, room; st.shared.u32 [%r5+64], %r1;"),
                1, 32, out)
                .error,
            CUDA_ERROR_ILLEGAL_ADDRESS);
  Rig other;
  out = other.array<uint32_t>(64);
  EXPECT_EQ(
      run(other, kernel(".local .align 4 .b8 room[16]; mov.u64 %rd5, room; st.local.u32 [%rd5+16], %r1;"), 1,
          32, out)
          .error,
      CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(Block, LocalMemoryEndsWithTheFunctionThatRuns) {
  // Whatever its callees take, and to the byte.
  for (const char* offset : {"12", "16", "40"}) {
    Rig rig;
    auto* out = rig.array<uint32_t>(64);
    Outcome outcome = run(rig,
                          kernel(std::string(".local .align 4 .b8 room[12]; mov.u64 %rd5, room; { call f; } "
                                             "cvta.local.u64 %rd6, %rd5; st.u32 [%rd6+") +
                                     offset + "], %r1;",
                                 ".func f() { .local .b8 own[100]; .reg .b32 %r<2>; mov.u32 %r1, 1; "
                                 "st.local.u8 [own+99], %r1; ret; }"),
                          1, 32, out);
    EXPECT_EQ(outcome.error, CUDA_ERROR_ILLEGAL_ADDRESS) << offset;
  }
}

TEST(Block, SharedAndLocalMemoryDoNotWrapAround) {
  for (const char* access : {"st.shared.u32 [%rd5], %r1;", "st.local.u32 [%rd5], %r1;"}) {
    Rig rig;
    auto* out = rig.array<uint32_t>(64);
    std::string text =
        ".shared .align 4 .b8 room[64]; .local .align 4 .b8 own[16]; mov.u32 %r5, room; mov.u64 %rd6, own; "
        "mov.u64 %rd5, -4; ";
    EXPECT_EQ(run(rig, kernel(text + access), 1, 32, out).error, CUDA_ERROR_ILLEGAL_ADDRESS) << access;
  }
}

TEST(Block, GenericAddressesFindTheirSpace) {
  Rig rig;
  auto* out = rig.array<uint32_t>(64);
  Outcome outcome = run(rig, kernel(R"(
    .shared .align 4 .b8 room[128]; .local .align 4 .b8 own[8];
    mov.u64 %rd5, room; cvta.shared.u64 %rd6, %rd5; mul.wide.u32 %rd7, %r1, 4; add.s64 %rd8, %rd6, %rd7; st.u32 [%rd8], %r1;
    mov.u64 %rd9, own; cvta.local.u64 %rd10, %rd9; st.u32 [%rd10+4], %r1; ld.local.u32 %r5, [%rd9+4];
    bar.sync 0; cvta.to.shared.u64 %rd11, %rd8; cvt.u32.u64 %r6, %rd11; xor.b32 %r6, %r6, 4; ld.shared.u32 %r7, [%r6];
    isspacep.shared %p1, %rd8; isspacep.local %p2, %rd10; isspacep.global %p3, %rd3; isspacep.shared %p4, %rd3;
    selp.u32 %r8, 1000, 0, %p1; selp.u32 %r9, 2000, 0, %p2; selp.u32 %r10, 4000, 0, %p3; selp.u32 %r11, 8000, 0, %p4;
    add.u32 %r7, %r7, %r8; add.u32 %r7, %r7, %r9; add.u32 %r7, %r7, %r10; add.u32 %r7, %r7, %r11; shl.b32 %r5, %r5, 16; add.u32 %r7, %r7, %r5;
    st.u32 [%rd3], %r7;
  )"),
                        1, 32, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], (i ^ 1) + 7000 + (i << 16));
}

TEST(Block, NarrowAndVectorAccessesExtendAsTheirTypesSay) {
  Rig rig;
  auto* out = rig.array<uint32_t>(64);
  Outcome outcome = run(rig, kernel(R"(
    .reg .b16 %rs<4>; .shared .align 16 .b8 room[512];
    mov.u32 %r5, room; shl.b32 %r6, %r1, 4; add.u32 %r5, %r5, %r6; mov.u32 %r7, 0xfffe80ff; st.shared.v2.u32 [%r5], {%r7, %r1}; st.shared.v2.u32 [%r5+8], {3, 4};
    ld.shared.s8 %r8, [%r5]; ld.shared.u8 %r9, [%r5]; ld.shared.s16 %rs1, [%r5+2]; cvt.s32.s16 %r10, %rs1; ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r5];
    add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, %r10; add.u32 %r8, %r8, %r12; add.u32 %r8, %r8, %r13; add.u32 %r8, %r8, %r14;
    st.global.u32 [%rd3], %r8;
  )"),
                        1, 32, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], static_cast<uint32_t>(-1 + 255 - 2 + static_cast<int>(i) + 7));
}

TEST(Block, CopiesThatWereNotWaitedForHaveNotArrived) {
  Rig rig;
  auto* out = rig.array<uint32_t>(96);
  for (uint32_t i = 0; i < 32; ++i) out[64 + i] = i + 1;
  Outcome outcome = run(rig, kernel(R"(
    .shared .align 16 .b8 room[128];
    mov.u32 %r5, room; shl.b32 %r6, %r1, 2; add.u32 %r5, %r5, %r6; mov.u32 %r7, 9; st.shared.u32 [%r5], %r7;
    cp.async.ca.shared.global [%r5], [%rd3+256], 4; cp.async.commit_group;
    ld.shared.u32 %r8, [%r5]; st.global.u32 [%rd3], %r8;
    cp.async.wait_group 0; ld.shared.u32 %r9, [%r5]; st.global.u32 [%rd3+128], %r9;
  )"),
                        1, 32, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (uint32_t i = 0; i < 32; ++i) {
    if (!settings::settings().seed) {
      EXPECT_EQ(out[i], 9u);
    }
    EXPECT_EQ(out[32 + i], i + 1);
  }
}

TEST(Block, MbarriersCountPhases) {
  Rig rig;
  auto* out = rig.array<uint32_t>(128);
  Outcome outcome = run(rig, kernel(R"(
    .shared .align 8 .b64 gate; .shared .u32 box;
    mov.u32 %r5, gate; setp.ne.u32 %p1, %r1, 0; @!%p1 mbarrier.init.shared.b64 [%r5], 128; bar.sync 0;
    mov.u32 %r6, 55; setp.eq.u32 %p2, %r1, 127; @%p2 st.shared.u32 [box], %r6;
    mbarrier.arrive.shared.b64 %rd5, [%r5];
  $L_wait: mbarrier.test_wait.shared.b64 %p3, [%r5], %rd5; @!%p3 bra $L_wait;
    ld.shared.u32 %r7, [box]; st.global.u32 [%rd3], %r7;
  )"),
                        1, 128, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < 128; ++i) EXPECT_EQ(out[i], 55u);
}

TEST(Block, MbarriersThatCannotBeAreErrors) {
  const std::pair<const char*, const char*> cases[] = {
      {"mbarrier.arrive.shared.b64 %rd5, [room];", "no mbarrier"},  // nobody made it
      {"mbarrier.test_wait.parity.shared.b64 %p1, [room], 1;", "no mbarrier"},
      {"mbarrier.init.shared.b64 [room], 2; mbarrier.inval.shared.b64 [room]; mbarrier.arrive.shared.b64 "
       "%rd5, [room];",
       "no mbarrier"},
      {"mbarrier.init.shared.b64 [room], 2; mbarrier.expect_tx.relaxed.cta.shared.b64 [room], 0x400000;",
       "more bytes"},
      {"mbarrier.init.shared.b64 [room], 2; mbarrier.expect_tx.relaxed.cta.shared.b64 [room], 0xfffff; "
       "mbarrier.expect_tx.relaxed.cta.shared.b64 [room], 1;",
       "more bytes"},
      {"mbarrier.init.shared.b64 [room], 1; mbarrier.arrive.noComplete.shared.b64 %rd5, [room], 1;",
       "must not end"},
      {"mbarrier.init.shared.b64 [room], 1; mbarrier.arrive.shared.b64 %rd5, [room], 2;", "more threads"},
      {"mbarrier.init.shared.b64 [room], 2; mbarrier.arrive.noComplete.shared.b64 %rd5, [room], 1; "
       "mbarrier.expect_tx.relaxed.cta.shared.b64 [room], 0xfffff; mbarrier.arrive.shared.b64 %rd5, [room];",
       ""}};
  for (auto [body, why] : cases) {
    Rig rig;
    Outcome outcome = run(rig, kernel(body, ".shared .align 8 .b64 room;"), 1, 1, rig.array<uint32_t>(32));
    EXPECT_EQ(outcome.error, *why ? CUDA_ERROR_ILLEGAL_INSTRUCTION : CUDA_SUCCESS) << body << outcome.text;
    EXPECT_NE(outcome.text.find(why), std::string::npos) << outcome.text;
  }
}

TEST(Block, ABarrierOfAllThreadsIsTheSameWithTheirNumber) {
  Rig rig;
  auto* out = rig.array<uint32_t>(128);
  Outcome outcome = run(rig, kernel(R"(
    .shared .u32 box; setp.lt.u32 %p1, %r1, 64; mov.u32 %r5, 3; @%p1 bra $L_counts;
    st.shared.u32 [box], %r5; bar.sync 0; bar.arrive 1, 128; bra.uni $L_end;
  $L_counts: bar.sync 0, 128; ld.shared.u32 %r6, [box]; st.global.u32 [%rd3], %r6; bar.sync 1;
  $L_end: barrier.sync 2;
  )"),
                        1, 100, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  for (int i = 0; i < 64; ++i) EXPECT_EQ(out[i], 3u);
}

TEST(Block, ABarrierThatCountsDoesSoInWarpsWhoseEndedLanesAreThere) {
  // Of warp 1 half has ended, of warp 2 all: two warps come, three never do.
  for (auto [barrier, error] :
       {std::pair("bar.sync 1, 64;", CUDA_SUCCESS), std::pair("bar.sync 1, 96;", CUDA_ERROR_LAUNCH_FAILED)}) {
    Rig rig;
    auto* out = rig.array<uint32_t>(96);
    Outcome outcome = run(
        rig,
        kernel(std::string("setp.ge.u32 %p1, %r1, 48; @%p1 exit; ") + barrier + " st.global.u32 [%rd3], 5;"),
        1, 96, out);
    EXPECT_EQ(outcome.error, error) << outcome.text;
    for (int i = 0; i < 96; ++i) EXPECT_EQ(out[i], error || i >= 48 ? 0u : 5u) << i;
  }
}

TEST(Block, MatricesAreWhereTheWholeWarpSaysAndAligned) {
  const std::string load =
      "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r5, %r6, %r7, %r8, %r9, %r10, %r11, %r12}, ";
  const std::pair<std::string, CUresult> cases[] = {
      {load + "[%rd1], 24;", CUDA_SUCCESS},
      {load + "[%rd1+32], %r3;", CUDA_SUCCESS},
      {load + "[%rd1+2], 24;", CUDA_ERROR_MISALIGNED_ADDRESS},
      {load + "[%rd1+16], 24;", CUDA_ERROR_MISALIGNED_ADDRESS},
      {load + "[%rd1], 17;", CUDA_ERROR_MISALIGNED_ADDRESS},
      {load + "[%rd1], 20;", CUDA_ERROR_MISALIGNED_ADDRESS},
      {load + "[%rd3], 24;", CUDA_ERROR_ILLEGAL_INSTRUCTION},
      {"mul.lo.u32 %r13, %r1, 8; " + load + "[%rd1], %r13;", CUDA_ERROR_ILLEGAL_INSTRUCTION},
      {"ldmatrix.sync.aligned.m8n8.x1.b16 {%r5}, [%rd1];", CUDA_ERROR_ILLEGAL_ADDRESS},
      {"mov.u64 %rd4, room; cvta.shared.u64 %rd4, %rd4; ldmatrix.sync.aligned.m8n8.x1.b16 {%r5}, [%rd4];",
       CUDA_SUCCESS}};
  for (const auto& [body, error] : cases) {
    Rig rig;
    Outcome outcome =
        run(rig, kernel(body + " st.global.u32 [%rd3], %r5;", ".shared .align 16 .b8 room[128];"), 1, 32,
            rig.array<uint32_t>(512));
    EXPECT_EQ(outcome.error, error) << body << outcome.text;
  }
}

TEST(Block, TrapEndsTheGrid) {
  Rig rig;
  auto* out = rig.array<uint32_t>(64);
  Outcome outcome = run(
      rig, kernel("setp.eq.u32 %p1, %r4, 40; @%p1 trap; bar.sync 0; st.global.u32 [%rd3], %r1;"), 2, 32, out);
  EXPECT_EQ(outcome.error, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_NE(outcome.text.find("block (1, 0, 0), thread (8, 0, 0): trap"), std::string::npos) << outcome.text;
}

TEST(Block, DynamicSharedMemoryFollowsTheStaticOne) {
  Rig rig;
  rig.dynamic_shared = 256;
  auto* out = rig.array<uint32_t>(64);
  Outcome outcome = run(rig,
                        kernel(R"(
    .shared .align 4 .b8 fixed[20];
    mov.u32 %r5, more; mov.u32 %r6, %dynamic_smem_size; add.u32 %r5, %r5, %r6; st.shared.u32 [%r5+-4], %r1; mov.u32 %r7, fixed; st.shared.u32 [%r7+16], %r1;
    mov.u32 %r8, more; st.global.u32 [%rd3], %r8; st.global.u32 [%rd3+128], %r6;
  )",
                               ".extern .shared .align 16 .b8 more[];"),
                        1, 32, out);
  ASSERT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
  EXPECT_EQ(out[0], 32u);
  EXPECT_EQ(out[32], 256u);
}

TEST(Block, UnknownInstructionsAreErrorsThatNameThem) {
  Rig rig;
  rig.load(".visible .entry k(.param .u64 out) {\n .reg .b32 %r<4>;\n tex.fancy.u32 %r1, %r2;\n ret;\n}");
  auto made = rig.code->kernel("k");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("tex.fancy.u32 in k (line 6"), std::string::npos)
      << made.error().message;
}

}  // namespace
}  // namespace cropdl::engine
