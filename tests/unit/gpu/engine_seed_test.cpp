// links: gpu_engine
// Under the random scheduler a kernel that forgets to wait is found out, and one that does not, never.
#include <cstdlib>

#include "gpu_state/software/settings/settings.h"
#include "tests/unit/gpu/engine_rig.h"

namespace cropdl::engine {
namespace {

// Before the first use reads it. A seed from outside stays.
const int kSeeded = setenv("CROPDL_SOFTWARE_GPU_SEED", "11", 0);

constexpr int kRuns = 20;

// Each thread writes its own element of shared memory and reads the one `apart` threads on, after `wait`.
std::string neighbours(const std::string& wait, int apart) {
  return R"(
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<16>; .reg .b64 %rd<8>; .shared .align 4 .b8 room[1024];
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r2, room; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1;
  )" + wait +
         R"(
  add.u32 %r5, %r1, )" +
         std::to_string(apart) +
         R"(; and.b32 %r5, %r5, 255; shl.b32 %r6, %r5, 2; add.u32 %r7, %r2, %r6; ld.shared.u32 %r8, [%r7]; st.global.u32 [%rd3], %r8;
  ret;
})";
}

int wrong_runs(const std::string& text, uint32_t apart) {
  Rig rig(1);
  rig.load(text);
  int wrong = 0;
  for (int run = 0; run < kRuns; ++run) {
    auto* out = rig.array<uint32_t>(256);
    Outcome outcome = rig.run("k", {1, 1, 1}, {256, 1, 1}, out);
    EXPECT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
    bool right = true;
    for (uint32_t i = 0; i < 256; ++i) right &= out[i] == ((i + apart) & 255);
    wrong += !right;
  }
  return wrong;
}

TEST(Seed, AMissingBarrierShows) { EXPECT_GE(wrong_runs(neighbours("", 32), 32), kRuns * 9 / 10); }
TEST(Seed, AMissingWarpBarrierShows) { EXPECT_GE(wrong_runs(neighbours("", 1), 1), kRuns * 9 / 10); }
TEST(Seed, ABarrierIsEnough) {
  EXPECT_EQ(wrong_runs(neighbours("bar.sync 0;", 32), 32), 0);
  EXPECT_EQ(wrong_runs(neighbours("bar.sync 0;", 1), 1), 0);
}

// Lanes of one warp only, in pairs: what __syncwarp is for.
std::string pairs(const std::string& wait) {
  return R"(
.visible .entry k(.param .u64 out) {
  .reg .b32 %r<16>; .reg .b64 %rd<8>; .shared .align 4 .b8 room[1024];
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r2, room; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1;
  )" + wait +
         R"(
  xor.b32 %r6, %r3, 4; add.u32 %r7, %r2, %r6; ld.shared.u32 %r8, [%r7]; st.global.u32 [%rd3], %r8;
  ret;
})";
}

int wrong_pairs(const std::string& text) {
  Rig rig(1);
  rig.load(text);
  int wrong = 0;
  for (int run = 0; run < kRuns; ++run) {
    auto* out = rig.array<uint32_t>(8 * 256);
    Outcome outcome = rig.run("k", {1, 1, 1}, {256, 1, 1}, out);
    EXPECT_EQ(outcome.error, CUDA_SUCCESS) << outcome.text;
    bool right = true;
    for (uint32_t i = 0; i < 256; ++i) right &= out[i] == (i ^ 1);
    wrong += !right;
  }
  return wrong;
}

TEST(Seed, LanesAreNotInStep) { EXPECT_GE(wrong_pairs(pairs("")), kRuns * 9 / 10); }
TEST(Seed, AWarpBarrierIsEnough) { EXPECT_EQ(wrong_pairs(pairs("bar.warp.sync -1;")), 0); }

TEST(Seed, AMisspeltSwitchEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, that has read nothing yet
  auto read_with = [](const char* name, const char* value) {
    setenv(name, value, 1);
    settings::settings();
    std::exit(0);
  };
  EXPECT_EXIT(read_with("CROPDL_SOFTWARE_GPU_SEDE", "1"), testing::ExitedWithCode(1), "no switch .*_SEDE");
  EXPECT_EXIT(read_with("CROPDL_SOFTWARE_GPU_CAPABILITY", "8.1"), testing::ExitedWithCode(1),
              "cannot be read");
  EXPECT_EXIT(read_with("CROPDL_SOFTWARE_GPU_CAPABILITY", "9.9"), testing::ExitedWithCode(1),
              "cannot be read");
  EXPECT_EXIT(read_with("CROPDL_SOFTWARE_GPU_CAPABILITY", "8.7"), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cropdl::engine
