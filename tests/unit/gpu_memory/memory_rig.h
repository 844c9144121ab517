// For tests of device memory: the persistent heap, the software GPU's driver, and a restart of the memory
// within the process.
#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "gpu_state/memory/advice.h"
#include "gpu_state/memory/arena.h"
#include "gpu_state/memory/managed.h"
#include "gpu_state/memory/pools.h"
#include "interpose/handles/heap.h"
#include "interpose/seam/layout.h"

#define ASSERT_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)
#define EXPECT_CU(call) EXPECT_EQ((call), CUDA_SUCCESS)

namespace cropdl::memory {

inline const bool kSet = [] {
  ::setenv("CROPDL_SOFTWARE_GPUS", "2", 1);
  ::setenv("CROPDL_SOFTWARE_GPU_MEMORY", "1G", 1);
  ::setenv("CROPDL_SOFTWARE_GPU_FRESH", "pattern", 1);
  ::setenv("CROPDL_SOFTWARE_GPU_QUIET", "1", 1);
  return true;
}();

class MemoryTest : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "this sanitizer has the addresses";
#endif
    void* heap = mmap(reinterpret_cast<void*>(seam::kHeapBegin), seam::kHeapEnd - seam::kHeapBegin,
                      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    ASSERT_EQ(heap, reinterpret_cast<void*>(seam::kHeapBegin));
    handles::heap_format();
#define CROPDL_FIND(name)                                                            \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(RTLD_DEFAULT, #name)); \
  ASSERT_TRUE(driver.name != nullptr) << #name;
    CROPDL_DRIVER_FUNCTIONS(CROPDL_FIND)
#undef CROPDL_FIND
    ASSERT_CU(cuInit(0));
    for (int device = 0; device < 2; ++device) ASSERT_CU(cuDevicePrimaryCtxRetain(&contexts[device], device));
    ASSERT_CU(cuCtxSetCurrent(contexts[0]));
    state = State::format();
    ASSERT_NE(state, nullptr);
    begin();
    const Status reserved = arena->reserve(2);
    ASSERT_TRUE(reserved) << reserved.error().message;
  }
  void TearDown() override {
    if (state) forget_devices();
  }

  void begin() {
    blocks = std::make_unique<Blocks>(*state);
    arena = std::make_unique<Arena>(driver, *blocks);
    pools = std::make_unique<Pools>(driver, *blocks, *arena);
    advised = std::make_unique<Advised>(driver, *blocks);
    managed = std::make_unique<Managed>(driver, *blocks, *advised);
  }

  // What a new process has not: all that the driver knows.
  void forget_devices() {
    cuCtxSynchronize();
    state->chunks.each([](Chunk* one) { EXPECT_CU(cuMemUnmap(one->begin, one->size)); });
    if (state->devices) {
      EXPECT_CU(cuMemAddressFree(kArenaBegin, state->devices * kArenaSlice));
    }
    state->managed.each([](ManagedRegion* one) { EXPECT_CU(cuMemFree_v2(one->begin)); });
  }
  // The memory's own part of a restart.
  void restart() {
    forget_devices();
    begin();
    Status done = arena->reserve(2);
    ASSERT_TRUE(done) << done.error().message;
    done = managed->restore([this](int device) { return contexts[device]; });
    ASSERT_TRUE(done) << done.error().message;
    done = arena->restore();
    ASSERT_TRUE(done) << done.error().message;
  }

  Block* allocate(uint64_t size, int device = 0) {
    Block* made = nullptr;
    EXPECT_CU(arena->allocate(device, size, BlockKind::kDevice, &made));
    return made;
  }
  Block* allocate_managed(uint64_t size, int device = 0) {
    Block* made = nullptr;
    const InContext in(driver, contexts[device]);
    EXPECT_CU(managed->allocate(size, CU_MEM_ATTACH_GLOBAL, device, &made));
    return made;
  }
  uint64_t mapped(int device) const {  // bytes that the arena has taken
    uint64_t bytes = 0;
    state->chunks.each([&](const Chunk* one) { bytes += one->device == device ? one->size : 0; });
    return bytes;
  }
  // What a cudaDeviceReset is to the driver.
  void reset_context(int device) {
    EXPECT_CU(cuDevicePrimaryCtxReset_v2(device));
    EXPECT_CU(cuDevicePrimaryCtxRetain(&contexts[device], device));
  }

  Driver driver;
  CUcontext contexts[2]{};
  State* state = nullptr;
  std::unique_ptr<Blocks> blocks;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Pools> pools;
  std::unique_ptr<Advised> advised;
  std::unique_ptr<Managed> managed;
};

}  // namespace cropdl::memory
