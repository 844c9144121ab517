// links: gpu_engine
// Texts that NVIDIA's assembler refuses, or that ask for what is not built: no kernel is made of them. Each
// is as ptxas of CUDA 13.0 has it.
#include "tests/unit/gpu/engine_rig.h"

namespace cropdl::engine {
namespace {

// The error with which a kernel of that body is refused, or nothing.
std::string refusal(Rig& rig, const std::string& body, const std::string& target = "sm_90",
                    const std::string& directives = {}) {
  rig.load(".global .u32 far; .func f() { ret; } .visible .entry k(.param .u64 p) " + directives +
               " { .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f64 %fd<9>; .reg .b128 %q<9>; .reg .b16 %h<9>; "
               ".reg .pred %p<9>; "
               ".reg .f32 %f<9>; .shared .align 16 .b8 own[64]; ld.param.u64 %rd1, [p]; " +
               body + " ret; }",
           target);
  auto kernel = rig.code->kernel("k");
  return kernel ? "" : kernel.error().message;
}

// What NVIDIA's assembler refuses, or what is not built: never run as something else. Beside it what differs
// in the one thing and is right.
TEST(Engine, InvalidInstructionsAreRefusedByName) {
  struct Case {
    const char *wrong, *why, *right = nullptr, *target = "sm_90";
  };
  constexpr const char *kUnknown = "does not execute this instruction",
                       *kOperands = "its operands are not those";
  const Case cases[] = {
      {"ld.global.v8.b128 {%q0, %q1, %q2, %q3, %q4, %q5, %q6, %q7}, [%rd1];", "16 bytes",
       "ld.global.b128 %q0, [%rd1];"},
      {"ld.global.v4.u64 {%rd2, %rd3, %rd4, %rd5}, [%rd1];", "16 bytes",
       "ld.global.v2.u64 {%rd2, %rd3}, [%rd1];"},
      {"st.global.v8.u32 [%rd1], {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1};", "16 bytes",
       "st.global.v4.u32 [%rd1], {%r1, %r1, %r1, %r1};"},
      {"st.shared.v4.u64 [%rd1], {%rd1, %rd1, %rd1, %rd1};", "16 bytes"},
      {"atom.global.v4.f64.add {%fd1, %fd2, %fd3, %fd4}, [%rd1], {%fd1, %fd1, %fd1, %fd1};", "16 bytes"},
      {"atom.global.v2.f64.add {%fd1, %fd2}, [%rd1], {%fd1, %fd1};", kUnknown,
       "atom.global.add.f64 %fd1, [%rd1], %fd1;"},
      {"atom.global.v2.u32.add {%r1, %r2}, [%rd1], {%r1, %r2};", kUnknown,
       "atom.global.v2.f32.add {%f1, %f2}, [%rd1], {%f1, %f2};"},
      {"atom.shared.v2.f32.add {%f1, %f2}, [%r1], {%f1, %f2};", "global memory only",
       "atom.shared.add.f32 %f1, [%r1], %f2;"},
      {"atom.global.add.f16 %h1, [%rd1], %h2;", ".noftz", "atom.global.add.noftz.f16 %h1, [%rd1], %h2;"},
      {"red.global.v2.bf16x2.add [%rd1], {%r1, %r2};", ".noftz",
       "red.global.v2.bf16x2.add.noftz [%rd1], {%r1, %r2};"},
      {"atom.global.add.noftz.f32 %f1, [%rd1], %f2;", ".noftz", "atom.global.add.f32 %f1, [%rd1], %f2;"},
      {"atom.global.min.noftz.f16 %h1, [%rd1], %h2;", "add only",
       "atom.global.v2.f16.min.noftz {%h1, %h2}, [%rd1], {%h1, %h2};"},
      {"ld.global.shared.u32 %r1, [%rd1];", "two state spaces", "ld.global.u32 %r1, [%rd1];"},
      {"ld.release.gpu.global.u32 %r1, [%rd1];", "has no .release", "ld.acquire.gpu.global.u32 %r1, [%rd1];"},
      {"st.acquire.gpu.global.u32 [%rd1], %r1;", "has no .acquire", "st.release.gpu.global.u32 [%rd1], %r1;"},
      {"st.global.ca.u32 [%rd1], %r1;", "has no .ca", "st.global.cg.u32 [%rd1], %r1;"},
      {"red.acq_rel.gpu.global.add.u32 [%rd1], %r1;", "has no .acq_rel",
       "atom.acq_rel.gpu.global.add.u32 %r2, [%rd1], %r1;"},
      {"ld.cta.u32 %r1, [%rd1];", "no order", "ld.relaxed.cta.u32 %r1, [%rd1];"},
      {"ld.relaxed.u32 %r1, [%rd1];", "without a scope", "atom.relaxed.add.u32 %r1, [%rd1], 1;"},
      {"ld.weak.volatile.u32 %r1, [%rd1];", "do not go together", "ld.weak.u32 %r1, [%rd1];"},
      {"ld.volatile.cg.u32 %r1, [%rd1];", "do not go together", "ld.volatile.u32 %r1, [%rd1];"},
      {"ld.volatile.local.u32 %r1, [%rd1];", "no order in that", "ld.volatile.shared.u32 %r1, [%rd1];"},
      {"ld.mmio.relaxed.gpu.u32 %r1, [%rd1];", ".relaxed.sys", "ld.mmio.relaxed.sys.u32 %r1, [%rd1];"},
      {"ld.nc.u32 %r1, [%rd1];", ".nc is of global", "ld.global.nc.u32 %r1, [%rd1];"},
      {"ld.global.L1::foo.u32 %r1, [%rd1];", kUnknown, "ld.global.L1::evict_last.u32 %r1, [%rd1];"},
      {"ld.global.L2::foo.u32 %r1, [%rd1];", kUnknown, "ld.global.L2::128B.u32 %r1, [%rd1];"},
      {"st.global.L2::128B.u32 [%rd1], %r1;", "has no .L2::128B",
       "st.global.L1::no_allocate.u32 [%rd1], %r1;"},
      {"ld.shared.L2::128B.u32 %r1, [%rd1];", "global memory only"},
      {"ld.global.u32.u32 %r1, [%rd1];", kUnknown},
      {"ldu.volatile.global.u32 %r1, [%rd1];", "has no .volatile", "ldu.global.u32 %r1, [%rd1];"},
      {"atom.const.add.u32 %r1, [%rd1], 1;", "no atomics", "atom.global.add.u32 %r1, [%rd1], 1;"},
      {"atom.local.add.u32 %r1, [%rd1], 1;", "no atomics"},
      {"atom.param.add.u32 %r1, [p], 1;", "no atomics"},
      {"mov.u32 %r1, far;", "cannot be read", "mov.u64 %rd1, far; mov.u32 %r1, own;"},
      {"L: bra.foo L;", kUnknown, "L: bra.uni L;"},
      {"ret.foo;", kUnknown, "ret.uni;"},
      {"exit.uni;", kUnknown, "exit;"},
      {"trap.uni;", kUnknown, "trap;"},
      {"call.foo f;", ".uni", "call.uni f;"},
      {"nanosleep.f32 %r1;", kUnknown, "nanosleep.u32 %r1;"},
      {"bar.popc.red.sync %r1, 0, %p1;", kUnknown, "bar.red.popc.u32 %r1, 0, %p1;"},
      {"bar.red.popc %r1, 0, %p1;", kUnknown},
      {"bar.sync.aligned 0;", kUnknown, "barrier.sync.aligned 0; bar.cta.sync 0;"},
      {"prefetch.foo [%rd1];", kUnknown, "prefetch.L1 [%rd1];"},
      {"prefetch.global.L2::evict_first [%rd1];", kUnknown, "prefetch.global.L2::evict_last [%rd1];"},
      {"discard.global.L2 %rd1, 128;", kOperands, "discard.global.L2 [%rd1], 128;"},
      {"discard.global.L2 [%rd1], 64;", kOperands},
      {"createpolicy.foo.b64 %rd1, 1;", kUnknown, "createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;"},
      {"createpolicy.fractional.L2::evict_first.L2::evict_last.b64 %rd1;", kUnknown,
       "createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %rd1;"},
      {"createpolicy.range.L2::evict_last.b64 %rd1, [%rd1], 1024;", kOperands,
       "createpolicy.range.L2::evict_last.b64 %rd1, [%rd1], 1024, 4096;"},
      {"createpolicy.cvt.L2.b64 %rd1;", kOperands, "createpolicy.cvt.L2.b64 %rd1, %rd2;"},
      {"setmaxnreg.inc.sync.aligned.u32 64;", "sm_90a alone"},
      {"setmaxnreg.sync.aligned.u32 64;", kUnknown, "setmaxnreg.inc.sync.aligned.u32 64;", "sm_90a"},
      {"fence;", kUnknown, "fence.gpu;"},
      {"ex2.approx.ftz.f16 %h1, %h2;", kUnknown, "ex2.approx.ftz.bf16 %h1, %h2;"},
      {"fence.sc;", kUnknown, "fence.sc.cta;"},
      {"fence.proxy.async::global;", kUnknown,
       "fence.proxy.async.global; fence.proxy.async.shared::cta; fence.proxy.async.shared::cluster;"},
      {"fence.proxy.async.shared;", kUnknown, "fence.proxy.async; fence.proxy.alias;"},
      {"fence.mbarrier_init.release.gpu;", kUnknown, "fence.mbarrier_init.release.cluster;"},
      {"membar.acq_rel.alias;", kUnknown, "membar.proxy.alias;"},
      {"membar.gpu;", kUnknown, "membar.gl;"},
      {"mapa.shared.u32 %r1, %r2, 0;", kUnknown, "mapa.shared::cluster.u32 %r1, %r2, 0;"},
      {"getctarank.foo.u32 %r1, %r2;", kUnknown, "getctarank.u32 %r1, %r2;"},
      {"cp.async.cg.shared.global [%r1], [%rd1], 8;", kOperands,
       "cp.async.cg.shared.global [%r1], [%rd1], 16;"},
      {"cp.async.ca.cg.shared.global [%r1], [%rd1], 16;", kUnknown,
       "cp.async.ca.shared.global.L2::64B [%r1], [%rd1], 16;"},
      {"cp.async.shared.global [%r1], [%rd1], 16;", kUnknown},
      {"cp.async.ca.global.shared [%r1], [%rd1], 16;", kUnknown},
      {"cp.async.commit_group.ca;", kUnknown, "cp.async.commit_group;"},
      {"cp.async.mbarrier.arrive.shared [%r1];", kUnknown, "cp.async.mbarrier.arrive.shared.b64 [%r1];"},
      {"mbarrier.init.parity.shared.b64 [%r1], 1;", kUnknown, "mbarrier.init.shared.b64 [%r1], 1;"},
      {"mbarrier.expect_tx.relaxed.shared.b64 [%r1], 4;", kUnknown,
       "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 4;"},
      {"mbarrier.arrive.shared.b64 [%r1];", kOperands, "mbarrier.arrive.shared.b64 _, [%r1];"},
      {"mbarrier.arrive.shared::cluster.b64 %rd2, [%r1];", "another block's",
       "mbarrier.arrive.shared::cluster.b64 _, [%r1];"},
      {"mbarrier.arrive.noComplete.shared.b64 %rd2, [%r1];", kOperands,
       "mbarrier.arrive.noComplete.shared.b64 %rd2, [%r1], 1;"},
      {"mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1, 9;", kOperands,
       "mbarrier.try_wait.shared.b64 %p1, [%r1], %rd1, 9;"},
      {".reg .b32 %x<4000000>;", "4000"},
      {".shared .b8 much[49089]; mov.u32 %r1, own; mov.u32 %r1, much;", "49153 bytes of .shared",
       ".shared .b8 much[49088]; mov.u32 %r1, own; mov.u32 %r1, much;"},
      {".local .b8 much[524289]; mov.u64 %rd2, much;", "524289 bytes of .local",
       ".local .b8 much[524288]; mov.u64 %rd2, much;"},
      {".local .b8 much[4294967300]; mov.u64 %rd2, much;", "4294967300 bytes of .local"},
  };
  Rig rig;
  for (const Case& one : cases) {
    std::string error = refusal(rig, one.wrong, one.target);
    EXPECT_NE(error.find(one.why), std::string::npos) << one.wrong << error;
    if (one.right) {
      EXPECT_EQ(refusal(rig, one.right, one.target), "") << one.right;
    }
  }
  for (const char* clusters : {".reqnctapercluster 2, 1, 1", ".explicitcluster"})
    EXPECT_NE(refusal(rig, "", "sm_90", clusters).find("clusters"), std::string::npos) << clusters;
}

TEST(Engine, InstructionsOfLaterTargetsAreRefused) {
  const std::pair<int, const char*> cases[] = {
      {80, "ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2;"},
      {80, "ld.global.L2::256B.u32 %r1, [%rd1];"},
      {90, "fence.sc.cluster;"},
      {90, "ld.shared::cluster.u32 %r1, [%r2];"},
      {75, "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];"},
      {75, "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;"},
      {75, "tanh.approx.f32 %f1, %f2;"},
      {75, "ex2.approx.f16 %h1, %h2;"},
      {80, "redux.sync.add.u32 %r1, %r2, -1;"},
      {80, "cp.async.wait_all;"},
      {80, "mbarrier.inval.shared.b64 [%r1];"},
      {90, "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 4;"},
      {90, "mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 4;"},
      {90, "mbarrier.try_wait.shared.b64 %p1, [%r1], %rd1;"},
      {90, "mbarrier.arrive.relaxed.cta.shared.b64 %rd2, [%r1];"},
      {90, "mbarrier.arrive.shared.b64 %rd2, [%r1], 2;"},
      {90, "mbarrier.arrive_drop.shared.b64 %rd2, [%r1], 2;"},
      {80, "mbarrier.arrive_drop.noComplete.shared.b64 %rd2, [%r1], 2;"},
      {80, "createpolicy.fractional.L2::evict_last.b64 %rd1;"},
      {80, "applypriority.global.L2::evict_normal [%rd1], 128;"},
      {80, "discard.global.L2 [%rd1], 128;"},
      {80, "prefetch.global.L2::evict_last [%rd1];"},
      {90, "elect.sync %r1|%p1, -1;"},
      {90, "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};"},
      {90, "mapa.u64 %rd2, %rd1, 0;"},
      {90, "getctarank.u64 %r1, %rd1;"},
      {90, "griddepcontrol.wait;"},
      {90, "fence.proxy.async.global;"},
      {90, "fence.mbarrier_init.release.cluster;"},
      {90, "atom.global.add.noftz.bf16 %h1, [%rd1], %h2;"},
      {90, "atom.global.v2.f32.add {%f1, %f2}, [%rd1], {%f1, %f2};"},
      {90, "atom.global.exch.b128 %q1, [%rd1], %q2;"},
      {90, "red.global.add.noftz.bf16x2 [%rd1], %r2;"},
      {90, "red.global.v2.f32.add [%rd1], {%f1, %f2};"},
      {75,
       "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r3}, {%f1, %f2, "
       "%f3, %f4};"},
      {80,
       "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, "
       "%r6}, {%f1, %f2, %f3, %f4};"},
      {89,
       "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, "
       "{%r5, %r6}, {%f1, %f2, %f3, %f4};"},
      {90,
       "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%fd1, %fd2, %fd3, %fd4}, {%fd5, %fd6}, {%fd7}, "
       "{%fd1, %fd2, %fd3, %fd4};"},
      {75, "wmma.load.a.sync.aligned.row.m16n16k16.s8 {%r1, %r2}, [%rd1], 32;"},
      {80, "wmma.load.a.sync.aligned.row.m16n16k16.bf16 {%r1, %r2, %r3, %r4}, [%rd1], 32;"},
      {75, "cvt.pack.sat.s16.s32 %r1, %r2, %r3;"},
      {80, "cvt.rn.bf16.f32 %h1, %f1;"},
      {80, "cvt.rn.f16x2.f32 %r1, %f1, %f2;"},
      {80, "cvt.rna.tf32.f32 %r1, %f1;"},
      {80, "cvt.rn.relu.f16.f32 %h1, %f1;"},
      {89, "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;"},
      {90, "cvt.rn.tf32.f32 %r1, %f1;"},
      {90, "cvt.rz.tf32.f32 %r1, %f1;"},
      {100, "cvt.rn.satfinite.tf32.f32 %r1, %f1;"},
      {90, "cvt.rn.bf16.u32 %h1, %r1;"},
      {80, "fma.rn.bf16 %h1, %h2, %h3, %h4;"},
      {80, "fma.rn.relu.f16 %h1, %h2, %h3, %h4;"},
      {80, "neg.bf16 %h1, %h2;"},
      {80, "abs.bf16x2 %r1, %r2;"},
      {80, "min.f16 %h1, %h2, %h3;"},
      {80, "max.bf16x2 %r1, %r2, %r3;"},
      {80, "min.NaN.f32 %f1, %f2, %f3;"},
      {86, "min.xorsign.abs.f32 %f1, %f2, %f3;"},
      {86, "max.xorsign.abs.f32 %f1, %f2, %f3;"},
      {90, "min.s16x2 %r1, %r2, %r3;"},
      {90, "max.u16x2 %r1, %r2, %r3;"},
      {90, "min.relu.s32 %r1, %r2, %r3;"},
      {90, "max.relu.s32 %r1, %r2, %r3;"},
      {90, "add.s16x2 %r1, %r2, %r3;"},
      {90, "add.bf16 %h1, %h2, %h3;"},
      {90, "sub.bf16x2 %r1, %r2, %r3;"},
      {90, "mul.bf16 %h1, %h2, %h3;"},
      {90, "set.eq.bf16.bf16 %h1, %h2, %h3;"},
      {90, "setp.eq.bf16 %p1, %h2, %h3;"},
      {90, "ex2.approx.ftz.bf16 %h1, %h2;"},
      {90, "tanh.approx.bf16 %h1, %h2;"},
      {90, "mov.u32 %r1, %cluster_ctarank;"},
      {90, "mov.b64 %rd1, {%r1, %cluster_ctarank};"},
      {80, "mov.u32 %r1, %reserved_smem_offset_begin;"},
      {70, ".reg .b32 %cluster_mine; mov.u32 %r1, %cluster_mine;"},  // which is the text's own
  };
  const std::map<int, std::string> below = {{75, "70"}, {80, "75"}, {86, "80"},
                                            {89, "86"}, {90, "89"}, {100, "90"}};
  Rig rig;
  for (const auto& [target, body] : cases) {
    EXPECT_EQ(refusal(rig, body, "sm_" + std::to_string(target)), "") << body;
    if (auto one = below.find(target); one != below.end()) {
      std::string error = refusal(rig, body, "sm_" + one->second);
      EXPECT_NE(error.find("sm_" + std::to_string(target) + " and later"), std::string::npos)
          << body << error;
    }
  }
}

}  // namespace
}  // namespace cropdl::engine
