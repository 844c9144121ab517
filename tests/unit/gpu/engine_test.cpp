// links: gpu_engine
// What makes kernels run, on PTX written by hand.
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

}  // namespace
}  // namespace cropdl::engine
