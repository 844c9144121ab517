// links: gpu_device
// Memory in stream order: the address at the call, access between allocation and free, counts at the calls.
#include "gpu_state/software/device/pools.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "gpu_state/software/device/area.h"
#include "gpu_state/software/device/graphs_memory.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/work.h"

namespace cropdl::device {
namespace {

constexpr uint64_t kDeviceSize = uint64_t{256} << 20;
const bool kSet = [] {
  ::setenv("CROPDL_SOFTWARE_GPUS", "2", 1);
  ::setenv("CROPDL_SOFTWARE_GPU_MEMORY", "256M", 1);
  ::setenv("CROPDL_SOFTWARE_GPU_FRESH", "pattern", 1);
  return true;
}();

// Never taken down, as in a process: pools outlive tests.
Memory& first() {
  static auto* kMemory = new Memory(0);
  return *kMemory;
}
Memory& second() {
  static auto* kMemory = new Memory(1);
  return *kMemory;
}

class Pools : public testing::Test {
 protected:
  void SetUp() override {
    first();
    second();
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    ASSERT_EQ(create_pool(properties, &pool), CUDA_SUCCESS);
  }
  void TearDown() override {
    if (pool) {
      EXPECT_EQ(destroy_pool(pool), CUDA_SUCCESS);
    }
    EXPECT_EQ(first().free_bytes(), kDeviceSize) << "all that was reserved is given back";
  }
  uint64_t value(CUmemPool_attribute which) {
    uint64_t got = 0;
    EXPECT_EQ(get_pool_attribute(pool, which, &got), CUDA_SUCCESS);
    return got;
  }
  void set(CUmemPool_attribute which, uint64_t to) {
    EXPECT_EQ(set_pool_attribute(pool, which, &to), CUDA_SUCCESS);
  }
  AllocateWork allocation(uint64_t size) {
    AllocateWork work;
    work.pool = pool;
    work.size = size;
    EXPECT_EQ(allocate_pooled(pool, size, nullptr, &work.address, &work.id), CUDA_SUCCESS);
    return work;
  }
  static ReleaseWork free(const AllocateWork& allocated) {
    ReleaseWork work;
    work.address = allocated.address;
    EXPECT_EQ(free_in_order(&work), CUDA_SUCCESS);
    return work;
  }
  CUmemoryPool pool = nullptr;
};

TEST_F(Pools, OpenMemoryWhenTheStreamComesToItAndCloseItWhenItComesToTheFree) {
  AllocateWork work = allocation(1000);
  EXPECT_FALSE(first().allows(work.address, 1, false)) << "not yet allocated in stream order";
  EXPECT_EQ(perform(work, nullptr), CUDA_SUCCESS);
  EXPECT_TRUE(first().allows(work.address, 1000, true));
  EXPECT_FALSE(first().allows(work.address, 1001, true));
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(work.address), kPattern);
  ReleaseWork release = free(work);
  EXPECT_TRUE(first().allows(work.address, 1000, true)) << "not yet freed in stream order";
  EXPECT_EQ(perform(release, nullptr), CUDA_SUCCESS);
  EXPECT_FALSE(first().allows(work.address, 1, false));
}

TEST_F(Pools, FindADoubleFreeAndAnUnknownAddress) {
  AllocateWork work = allocation(1000);
  ReleaseWork inside{work.address + 256, 0, {}}, again{work.address, 0, {}};
  EXPECT_EQ(free_in_order(&inside), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(perform(work, nullptr), CUDA_SUCCESS);
  ReleaseWork release = free(work);
  EXPECT_EQ(free_in_order(&again), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(release_pooled(work.address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(perform(release, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(free_in_order(&again), CUDA_ERROR_INVALID_VALUE);
}

// cuMemFree of memory whose allocation is still in a stream.
TEST_F(Pools, DoNotOpenMemoryFreedBefore) {
  AllocateWork work = allocation(1000);
  EXPECT_EQ(release_pooled(work.address), CUDA_SUCCESS);
  EXPECT_EQ(perform(work, nullptr), CUDA_SUCCESS);
  EXPECT_FALSE(first().allows(work.address, 1, false));
}

TEST_F(Pools, CountAtTheCallsAndGiveBackAfterWaiting) {
  AllocateWork one = allocation(1000), two = allocation(40 << 20);
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024u + (40 << 20));
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64u << 20);
  EXPECT_EQ(first().free_bytes(), kDeviceSize - (64 << 20));
  perform(one, nullptr);
  perform(two, nullptr);
  ReleaseWork release = free(two);
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024u);
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024u + (40 << 20));
  perform(release, nullptr);
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64u << 20);
  pools_after_waiting();
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 2u << 20);
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 64u << 20);
  set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  set(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 2u << 20);
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024u);
  perform(free(one), nullptr);
}

TEST_F(Pools, KeepWhatTheThresholdSaysUntilTrimmed) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~uint64_t{0});
  AllocateWork one = allocation(40 << 20);
  perform(one, nullptr);
  perform(free(one), nullptr);
  pools_after_waiting();
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64u << 20);
  EXPECT_EQ(trim_pool(pool, 10 << 20), CUDA_SUCCESS);
  EXPECT_EQ(value(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 10u << 20);
  EXPECT_EQ(first().free_bytes(), kDeviceSize - (10 << 20));
}

// A loop of allocations and frees in one stream needs the memory once, though no free has run yet.
TEST_F(Pools, ReuseMemoryFreedInOrder) {
  std::vector<AllocateWork> allocated;
  std::vector<ReleaseWork> freed;
  for (int i = 0; i < 5; ++i) {
    allocated.push_back(allocation(200 << 20));
    freed.push_back(free(allocated.back()));
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(perform(allocated[i], nullptr), CUDA_SUCCESS);
    EXPECT_EQ(perform(freed[i], nullptr), CUDA_SUCCESS);
  }
}

TEST_F(Pools, EndWithTheDevicesMemoryAndWithTheirOwnLimit) {
  CUdeviceptr address = 0;
  uint64_t id = 0;
  EXPECT_EQ(allocate_pooled(pool, 0, nullptr, &address, &id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(allocate_pooled(pool, kDeviceSize + 1, nullptr, &address, &id), CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr taken = 0;
  ASSERT_EQ(first().allocate(200 << 20, &taken), CUDA_SUCCESS);
  EXPECT_EQ(allocate_pooled(pool, 60 << 20, nullptr, &address, &id), CUDA_ERROR_OUT_OF_MEMORY);
  AllocateWork fits = allocation(56 << 20);
  perform(fits, nullptr);
  perform(free(fits), nullptr);
  pools_after_waiting();
  EXPECT_EQ(first().release(taken), CUDA_SUCCESS);
  CUmemPoolProps properties{};
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = 10 << 20;
  CUmemoryPool small = nullptr;
  ASSERT_EQ(create_pool(properties, &small), CUDA_SUCCESS);
  EXPECT_EQ(allocate_pooled(small, 11 << 20, nullptr, &address, &id), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(destroy_pool(small), CUDA_SUCCESS);
}

TEST_F(Pools, ThatAreDestroyedStayUntilTheirMemoryIsFreed) {
  AllocateWork one = allocation(1000);
  perform(one, nullptr);
  EXPECT_EQ(destroy_pool(pool), CUDA_SUCCESS);
  EXPECT_TRUE(first().allows(one.address, 1000, true));
  EXPECT_EQ(destroy_pool(pool), CUDA_ERROR_INVALID_HANDLE);
  uint64_t id = 0;
  CUdeviceptr address = 0;
  EXPECT_EQ(allocate_pooled(pool, 10, nullptr, &address, &id), CUDA_ERROR_INVALID_HANDLE);
  perform(free(one), nullptr);
  EXPECT_FALSE(first().allows(one.address, 1, true));
  pools_after_waiting();
  pool = nullptr;
}

TEST_F(Pools, OfADeviceAreItsDefaultUntilAnotherIsSet) {
  const CUmemoryPool initial = default_pool(first());
  EXPECT_EQ(current_pool(first()), initial);
  EXPECT_NE(default_pool(second()), initial);
  EXPECT_EQ(set_current_pool(second(), pool), CUDA_ERROR_INVALID_VALUE) << "another device's";
  EXPECT_EQ(set_current_pool(first(), pool), CUDA_SUCCESS);
  EXPECT_EQ(current_pool(first()), pool);
  EXPECT_EQ(destroy_pool(pool), CUDA_SUCCESS);
  EXPECT_EQ(current_pool(first()), initial);
  EXPECT_EQ(destroy_pool(initial), CUDA_ERROR_INVALID_VALUE);
  pool = nullptr;
}

TEST_F(Pools, GivePeersAccessOnlyWhenTold) {
  AllocateWork one = allocation(1000);
  perform(one, nullptr);
  second().allow_peer(first(), true);
  EXPECT_FALSE(second().allows(one.address, 1, false)) << "enabling peers does not extend to pools";
  second().allow_peer(first(), false);
  unsigned flags = 9;
  EXPECT_EQ(get_pool_access(pool, 1, &flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_EQ(set_pool_access(pool, 1, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_SUCCESS);
  EXPECT_TRUE(second().allows(one.address, 1000, false));
  EXPECT_FALSE(second().allows(one.address, 1000, true));
  EXPECT_FALSE(second().allows(one.address, 1001, false));
  EXPECT_EQ(set_pool_access(pool, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
  EXPECT_TRUE(second().allows(one.address, 1000, true));
  EXPECT_EQ(set_pool_access(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_ERROR_INVALID_VALUE);
  perform(free(one), nullptr);
  pools_after_waiting();
}

TEST_F(Pools, OfGraphsKeepAnAddressOverSeveralRuns) {
  AllocateWork work;
  Reservation reservation;
  ASSERT_EQ(reserve_allocation(1, 0, 5000, &work, &reservation), CUDA_SUCCESS);
  ReleaseWork release{work.address, work.id, {}};
  for (int run = 0; run < 3; ++run) {
    EXPECT_FALSE(first().allows(work.address, 1, false));
    EXPECT_EQ(perform(work, nullptr), CUDA_SUCCESS);
    EXPECT_TRUE(first().allows(work.address, 5000, true));
    EXPECT_EQ(*reinterpret_cast<uint32_t*>(work.address), kPattern) << "nothing is left of the run before";
    *reinterpret_cast<uint32_t*>(work.address) = 1;
    EXPECT_EQ(perform(work, nullptr), CUDA_ERROR_INVALID_VALUE) << "it was not freed";
    EXPECT_EQ(graph_memory(0).used, 5120u);
    EXPECT_EQ(perform(release, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(perform(release, nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  }
  EXPECT_EQ(graph_memory(0).used, 0u);
  EXPECT_EQ(graph_memory(0).used_high, 5120u);
  reservation.reset();
  EXPECT_EQ(graph_memory(0).reserved, 0u);
  EXPECT_EQ(perform(work, nullptr), CUDA_SUCCESS);
  EXPECT_FALSE(first().allows(work.address, 1, false));
}

}  // namespace
}  // namespace cropdl::device
