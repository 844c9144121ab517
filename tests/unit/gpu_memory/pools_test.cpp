// Stream-ordered memory: who may have a freed block when, and what pools count.
#include <condition_variable>
#include <mutex>

#include "tests/unit/gpu_memory/memory_rig.h"

namespace cropdl::memory {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class Gate {
 public:
  // Whoever waits at it goes through before it is gone.
  ~Gate() {
    open();
    cuCtxSynchronize();
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  static void pass(void* gate) {
    auto* self = static_cast<Gate*>(gate);
    std::unique_lock lock(self->mutex_);
    self->opened_.wait(lock, [&] { return self->open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

class PoolsTest : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    ASSERT_CU(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    ASSERT_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    pool = pools->pool(1, 0);
  }
  void TearDown() override {
    cuStreamDestroy_v2(one);
    cuStreamDestroy_v2(other);
    MemoryTest::TearDown();
  }
  Block* allocate(uint64_t size, CUstream stream, uint64_t keep = 0) {
    Block* made = nullptr;
    pool->keep = keep;
    EXPECT_CU(pools->allocate(pool, size, stream, &made));
    return made;
  }
  CUstream one = nullptr, other = nullptr;
  Pool* pool = nullptr;
};

TEST_F(PoolsTest, AFreedBlockIsTheSameStreamsAtOnceAndOthersWhenTheStreamHasComeThere) {
  Gate gate;
  Block* block = allocate(3 * kMiB, one);
  const uint64_t begin = block->begin, id = block->id;
  ASSERT_CU(cuLaunchHostFunc(one, Gate::pass, &gate));
  ASSERT_CU(pools->free(block, one));
  EXPECT_EQ(blocks->at(begin), nullptr) << "no block to the program";
  EXPECT_EQ(pools->free(block, one), CUDA_ERROR_INVALID_VALUE);
  Block* elsewhere = allocate(3 * kMiB, other);
  EXPECT_NE(elsewhere->begin, begin);
  Block* again = allocate(3 * kMiB, one);
  EXPECT_EQ(again->begin, begin);
  EXPECT_NE(again->id, id);
  ASSERT_CU(pools->free(again, one));
  gate.open();
  ASSERT_CU(cuStreamSynchronize(one));
  EXPECT_EQ(allocate(3 * kMiB, other)->begin, begin);
}

TEST_F(PoolsTest, AStreamThatHasAnothersHandleIsNotThatOne) {
  Gate gate;
  CUstream gone = nullptr;
  ASSERT_CU(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING));
  Block* block = allocate(3 * kMiB, gone);
  const uint64_t begin = block->begin;
  ASSERT_CU(cuLaunchHostFunc(gone, Gate::pass, &gate));
  ASSERT_CU(pools->free(block, gone));
  ASSERT_CU(cuStreamDestroy_v2(gone));  // what is in it goes on
  for (int i = 0; i < 50; ++i) {
    CUstream made = nullptr;
    ASSERT_CU(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
    Block* its = allocate(3 * kMiB, made);
    EXPECT_NE(its->begin, begin);
    pools->release(its);
    ASSERT_CU(cuStreamDestroy_v2(made));
  }
}

TEST_F(PoolsTest, PoolsCountWhatIsUsedAndReserved) {
  Block* a = allocate(kMiB, one);
  Block* b = allocate(3 * kMiB, one);
  EXPECT_EQ(pool->used, a->size + b->size);
  const uint64_t all = pool->reserved;
  EXPECT_EQ(all, a->room + b->room);
  ASSERT_CU(pools->free(b, one));
  EXPECT_EQ(pool->used, a->size);
  EXPECT_EQ(pool->reserved, all);
  ASSERT_CU(cuStreamSynchronize(one));
  pools->trim(pool, 0);
  EXPECT_EQ(pool->reserved, a->room);
  EXPECT_EQ(pool->used_high, 4 * kMiB);
  EXPECT_EQ(pool->reserved_high, all);
  pools->release(a);
  EXPECT_EQ(pool->used, 0u);
  EXPECT_EQ(pool->reserved, 0u);
}

TEST_F(PoolsTest, AReusedBlockCountsWithItsRequestedSize) {
  const Block* first = allocate(200000, one);
  EXPECT_EQ(pool->used, 200192u);
  ASSERT_CU(pools->free(const_cast<Block*>(first), one));
  Block* again = allocate(140000, one);
  ASSERT_EQ(again, first) << "its room is enough, and not too much";
  EXPECT_EQ(pool->used, 140032u);
  EXPECT_EQ(pool->used_high, 200192u);
  EXPECT_EQ(pool->reserved, first->room);
  ASSERT_CU(pools->free(again, one));
  EXPECT_EQ(pool->used, 0u);
}

TEST_F(PoolsTest, AsMuchAsThePoolIsToKeepIsKeptForIt) {
  Block* block = allocate(3 * kMiB, one);
  const uint64_t begin = block->begin;
  ASSERT_CU(pools->free(block, one));
  ASSERT_CU(cuStreamSynchronize(one));
  Block* small = allocate(kMiB / 2, other, 100 * kMiB);  // others' events are looked at
  EXPECT_GT(pool->reserved, small->room);
  EXPECT_EQ(allocate(3 * kMiB, other, 100 * kMiB)->begin, begin);
}

TEST_F(PoolsTest, BlocksOfCudaMallocMayBeFreedInAStream) {
  Block* block = nullptr;
  ASSERT_CU(arena->allocate(0, 3 * kMiB, BlockKind::kDevice, &block));
  ASSERT_CU(pools->free(block, one));
  ASSERT_CU(cuStreamSynchronize(one));
  pools->settle();
  EXPECT_EQ(state->blocks.live(), 0u);
}

TEST_F(PoolsTest, ADestroyedPoolIsDroppedWithItsLastBlock) {
  Block* block = allocate(kMiB, one);
  pools->destroy(pool);
  EXPECT_EQ(state->pools.live(), 1u);
  EXPECT_NE(pools->pool(1, 0), pool) << "another one of that name";
  ASSERT_CU(pools->free(block, one));
  ASSERT_CU(cuStreamSynchronize(one));
  pools->settle();
  EXPECT_EQ(state->pools.live(), 1u);
}

TEST_F(PoolsTest, ForEverInOneStreamWithoutGrowthAndWithoutWaiting) {
  Gate gate;
  ASSERT_CU(cuLaunchHostFunc(one, Gate::pass, &gate));
  for (int i = 0; i < 2000; ++i) {
    Block* block = allocate(3 * kMiB, one);
    ASSERT_CU(pools->free(block, one));
  }
  EXPECT_EQ(state->blocks.live(), 1u);
  gate.open();
  ASSERT_CU(cuStreamSynchronize(one));
  pools->settle();
}

// What waits for another device's stream waits on; its own goes, and its events with the context.
TEST_F(PoolsTest, ADeviceThatIsResetLeavesTheOthersWaiting) {
  Gate gate;
  CUstream far = nullptr;
  ASSERT_CU(cuCtxPushCurrent_v2(contexts[1]));
  ASSERT_CU(cuStreamCreate(&far, CU_STREAM_NON_BLOCKING));
  Pool* others = pools->pool(2, 1);
  Block *block = nullptr, *again = nullptr;
  ASSERT_CU(pools->allocate(others, 3 * kMiB, far, &block));
  const uint64_t begin = block->begin;
  ASSERT_CU(cuLaunchHostFunc(far, Gate::pass, &gate));
  ASSERT_CU(pools->free(block, far));
  ASSERT_CU(pools->free(allocate(3 * kMiB, one), one));
  ASSERT_CU(pools->free(allocate(kMiB, one, 8 * kMiB), one));
  reset_context(0);
  pools->forget(0);
  EXPECT_EQ(state->blocks.live(), 1u);
  EXPECT_EQ(pool->reserved, 0u);
  ASSERT_CU(arena->allocate(1, 3 * kMiB, BlockKind::kDevice, &again));
  EXPECT_NE(again->begin, begin) << "a kernel may still write there";
  CUcontext popped = nullptr;
  gate.open();
  ASSERT_CU(cuStreamSynchronize(far));
  ASSERT_CU(cuStreamDestroy_v2(far));
  ASSERT_CU(cuCtxPopCurrent_v2(&popped));
  ASSERT_CU(cuCtxSetCurrent(contexts[0]));
  ASSERT_CU(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
  ASSERT_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 3; ++i) ASSERT_CU(pools->free(allocate(kMiB, one), one));
}

TEST_F(PoolsTest, MemoryFreedInStreamsIsAvailableToAll) {
  constexpr uint64_t kMost = 600 * kMiB;  // of a GiB
  Block* block = nullptr;
  Pool* second = pools->pool(2, 0);
  for (Pool* from : {second, pool}) {
    from->keep = kMost;
    ASSERT_CU(pools->allocate(from, kMost, one, &block));
    ASSERT_CU(pools->free(block, one));
    ASSERT_CU(cuStreamSynchronize(one));
  }
  pools->collect();
  EXPECT_EQ(pool->reserved, kMost) << "as much as it is to keep";
  EXPECT_EQ(arena->allocate(0, kMost, BlockKind::kDevice, &block), CUDA_ERROR_OUT_OF_MEMORY);
  pools->reclaim(0);
  EXPECT_CU(arena->allocate(0, kMost, BlockKind::kDevice, &block));
}

TEST_F(PoolsTest, APoolHasNoMoreThanItMay) {
  pool->most = 8 * kMiB;
  ASSERT_CU(pools->free(allocate(6 * kMiB, one), one));
  ASSERT_CU(cuStreamSynchronize(one));
  Block* block = nullptr;
  EXPECT_EQ(pools->allocate(pool, 9 * kMiB, other, &block), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CU(pools->allocate(pool, 8 * kMiB, other, &block));
}

TEST_F(PoolsTest, PeersMayAccessWhatAPoolIsOpenTo) {
  const CUmemLocation peer{CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  const auto flags_of = [&](const Block* block) {
    unsigned long long flags = 99;
    EXPECT_CU(cuMemGetAccess(&flags, &peer, block->begin));
    return flags;
  };
  Block* before = allocate(kMiB, one);
  EXPECT_CU(pools->open_to(pool, 1u << 1));
  EXPECT_EQ(flags_of(before), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  restart();
  pool = pools->known(1);
  EXPECT_EQ(flags_of(before), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_CU(arena->allow_peer(0, 1, true));
  EXPECT_CU(pools->open_to(pool, 0));
  EXPECT_EQ(flags_of(before), CU_MEM_ACCESS_FLAGS_PROT_READWRITE) << "the peer has enabled it, too";
  EXPECT_CU(arena->allow_peer(0, 1, false));
  EXPECT_EQ(flags_of(before), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  // What a pool opened goes with it.
  Block* others = MemoryTest::allocate(kMiB);
  EXPECT_CU(pools->open_to(pool, 1u << 1));
  pools->destroy(pool);
  EXPECT_EQ(flags_of(others), CU_MEM_ACCESS_FLAGS_PROT_READWRITE) << "it still has a block";
  pools->release(before);
  EXPECT_EQ(flags_of(others), CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

TEST_F(PoolsTest, AfterARestartPoolsHaveTheirBlocks) {
  Block* block = allocate(5 * kMiB, one);
  ASSERT_CU(pools->free(allocate(3 * kMiB, one), one));
  ASSERT_CU(cuStreamSynchronize(one));
  pools->settle();
  const uint64_t begin = block->begin;
  restart();
  ASSERT_NE(blocks->at(begin), nullptr);
  EXPECT_EQ(state->blocks.live(), 1u);
  pool = pools->known(1);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->used, blocks->at(begin)->size);
  ASSERT_CU(pools->free(blocks->at(begin), one));
  EXPECT_EQ(allocate(5 * kMiB, one)->begin, begin);
}

// Programs see it (CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), with and without a restart.
TEST_F(PoolsTest, ACutAndARestartKeepThePoolsReserve) {
  Block* block = allocate(5 * kMiB, one, 100 * kMiB);
  const uint64_t begin = block->begin, room = block->room;
  ASSERT_CU(pools->free(block, one));
  pools->settle();
  EXPECT_EQ(pool->reserved, room);
  restart();
  pool = pools->known(1);
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(pool->used, 0u);
  EXPECT_EQ(pool->reserved, room);
  EXPECT_EQ(allocate(5 * kMiB, other, 100 * kMiB)->begin, begin);
  EXPECT_EQ(pool->reserved, room);
}

TEST_F(PoolsTest, ASizeThatNoDeviceHasIsRefusedThoughABlockWaits) {
  ASSERT_CU(pools->free(allocate(4, one), one));
  Block* made = nullptr;
  EXPECT_EQ(pools->allocate(pool, ~uint64_t{0} - 3, one, &made), CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace
}  // namespace cropdl::memory
