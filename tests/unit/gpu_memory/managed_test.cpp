// Managed memory: the driver's mappings are steered to fixed addresses, blocks are packed in them, and a
// restart finds them, and what was advised about them, where they were.
#include <cstring>
#include <random>
#include <thread>

#include "gpu_state/memory/steering.h"
#include "tests/unit/gpu_memory/memory_rig.h"

namespace cropdl::memory {
namespace {

class ManagedTest : public MemoryTest {};

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST_F(ManagedTest, TheDriversMappingsAreSteeredToFixedAddresses) {
  Block* small = allocate_managed(1000);
  EXPECT_EQ(small->begin, kManagedBegin);
  Block* large = allocate_managed(500 * kMiB);
  EXPECT_GE(large->begin, kManagedBegin);
  EXPECT_LT(large->begin + large->size, kManagedEnd);
  EXPECT_EQ(managed->refusal(), "");
  // It is what the driver calls managed memory, and both sides use it.
  unsigned is_managed = 0;
  EXPECT_CU(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, large->begin + 400 * kMiB));
  EXPECT_TRUE(is_managed);
  std::memset(reinterpret_cast<void*>(large->begin), 3, large->size);
  EXPECT_CU(cuMemcpyDtoD_v2(small->begin, large->begin + large->size - 1000, 1000));
  EXPECT_CU(cuCtxSynchronize());
  EXPECT_EQ(reinterpret_cast<char*>(small->begin)[999], 3);
}

TEST_F(ManagedTest, OnlyTheMappingThatIsMeantIsSteered) {
  const size_t size = 4 * kMiB;
  const auto anywhere = [&](size_t bytes) {
    return mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  };
  void* const wanted = reinterpret_cast<void*>(kManagedBegin + (uint64_t{1} << 40));
  const Steering steering(reinterpret_cast<uint64_t>(wanted), size);
  void* of_another = nullptr;
  std::thread([&] { of_another = anywhere(size); }).join();
  EXPECT_NE(of_another, wanted);
  void* smaller = anywhere(size - 4096);
  EXPECT_NE(smaller, wanted);
  void* fixed = mmap(of_another, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  EXPECT_EQ(fixed, of_another);
  void* meant = anywhere(size + kMiB);
  EXPECT_EQ(meant, wanted);
  void* next = anywhere(size);
  EXPECT_NE(next, wanted);
  {
    const Steering taken(reinterpret_cast<uint64_t>(wanted), size);
    void* elsewhere = anywhere(size);
    EXPECT_NE(elsewhere, MAP_FAILED);
    EXPECT_NE(elsewhere, wanted) << "something is there";
    munmap(elsewhere, size);
  }
  munmap(of_another, size), munmap(smaller, size - 4096), munmap(meant, size + kMiB), munmap(next, size);
}

TEST_F(ManagedTest, BlocksArePagesOfTheirOwnAndComeAndGoWithoutGrowth) {
  std::mt19937 random(1);
  Block* held[50] = {};
  uint64_t regions = 0;
  for (int step = 0; step < 20'000; ++step) {
    Block*& one = held[random() % 50];
    if (one) managed->release(one);
    one = allocate_managed(1 + random() % (3 * kMiB));
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one->begin % 4096, 0u);
    EXPECT_EQ(blocks->around(one->begin + one->size - 1), one);
    if (step == 10'000) regions = state->managed.live();
  }
  EXPECT_LE(state->managed.live(), regions + 1);
  for (Block* one : held) managed->release(one);
  EXPECT_EQ(state->managed.live(), 1u) << "one is kept";
}

TEST_F(ManagedTest, AfterARestartRegionsAreWhereTheyWere) {
  Block* first = allocate_managed(40 * kMiB);
  Block* second = allocate_managed(70 * kMiB);
  Block* third = allocate_managed(200 * kMiB);
  Block* small = allocate_managed(5000);
  const uint64_t begins[] = {first->begin, third->begin, small->begin};
  managed->release(second);
  Block* between = allocate_managed(66 * kMiB);  // where the second was, or elsewhere
  restart();
  EXPECT_EQ(managed->refusal(), "");
  EXPECT_EQ(blocks->at(begins[0])->size, 40 * kMiB);
  EXPECT_EQ(blocks->at(begins[1])->size, 200 * kMiB);
  EXPECT_EQ(blocks->at(begins[2])->size, 5000u);
  for (const Block* one : {first, third, small, between})
    std::memset(reinterpret_cast<void*>(one->begin), 1, one->size);
  EXPECT_EQ(allocate_managed(5000)->begin, begins[2] + 8192);
}

// A reset ends the context in which a region was made: the region is gone, and nobody else's with it.
TEST_F(ManagedTest, ADeviceThatIsResetTakesItsOwnRegionsAlone) {
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, {0}};
  const auto store = [](const Block* block, int value) { *reinterpret_cast<int*>(block->begin) = value; };
  const auto load = [](uint64_t at) { return *reinterpret_cast<const int*>(at); };
  for (const bool restarted : {false, true}) {
    Block* one = allocate_managed(1000, 0);
    Block* spare = allocate_managed(60 * kMiB, 0);
    Block* others = allocate_managed(1000, 1);
    const uint64_t kept = others->begin;
    store(one, 1);
    managed->release(spare);
    if (restarted) restart();
    store(blocks->at(kept), 5);
    EXPECT_CU(advised->advise(one->begin, 1000, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    EXPECT_CU(cuCtxSetCurrent(contexts[1]));
    reset_context(0);
    managed->forget(0);
    EXPECT_EQ(load(kept), 5);
    EXPECT_EQ(state->blocks.live(), 1u);
    EXPECT_EQ(state->managed.live(), 1u);
    EXPECT_EQ(state->advice.live(), 0u);
    Block* fresh = allocate_managed(1000, 0);
    store(fresh, 2);
    EXPECT_EQ(load(fresh->begin), 2);
    EXPECT_EQ(managed->refusal(), "");
    managed->release(fresh);
    managed->release(blocks->at(kept));
    EXPECT_CU(cuCtxSetCurrent(contexts[0]));
  }
}

TEST_F(ManagedTest, ARestartThatGetsOtherAddressesIsRefusedInOneLine) {
  Block* one = allocate_managed(1000);
  forget_devices();
  void* taken = mmap(reinterpret_cast<void*>(one->begin), 4096, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(taken, MAP_FAILED);
  begin();
  ASSERT_TRUE(arena->reserve(2));
  const Status restored = managed->restore([this](int device) { return contexts[device]; });
  ASSERT_FALSE(restored);
  EXPECT_NE(restored.error().message.find("0x200000000000"), std::string::npos) << restored.error().message;
  munmap(taken, 4096);
  state->managed.each([&](ManagedRegion* region) { state->managed.drop(region); });
}

int preferred_of(CUdeviceptr address, uint64_t size) {
  int value = 0;
  EXPECT_CU(
      cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, address, size));
  return value;
}
int prefetched_of(CUdeviceptr address, uint64_t size) {
  int value = 0;
  EXPECT_CU(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                   address, size));
  return value;
}
int read_mostly(CUdeviceptr address, uint64_t size) {
  int value = 0;
  EXPECT_CU(cuMemRangeGetAttribute(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, address, size));
  return value;
}

TEST_F(ManagedTest, AdviceIsRepeatedAfterARestartAndDroppedWithTheBlock) {
  Block* block = allocate_managed(10 * kMiB);
  const CUdeviceptr at = block->begin;
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, {0}}, one{CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  EXPECT_CU(advised->advise(at, 4 * kMiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, one));
  EXPECT_CU(advised->advise(at + 2 * kMiB, 4 * kMiB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
  EXPECT_CU(advised->advise(at + kMiB, 2 * kMiB, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
  EXPECT_CU(advised->advise(at, 10 * kMiB, CU_MEM_ADVISE_SET_ACCESSED_BY, one));
  EXPECT_CU(advised->prefetch(at + 8 * kMiB, kMiB, one, 0, nullptr));
  EXPECT_CU(cuMemPrefetchAsync_v2(at + 9 * kMiB, kMiB, host, 0, nullptr));  // of a batch
  advised->prefetched(at + 9 * kMiB, kMiB, host);
  advised->prefetched(at, 11 * kMiB, host);  // no block's: nothing
  EXPECT_EQ(advised->advise(at, 11 * kMiB, CU_MEM_ADVISE_SET_READ_MOSTLY, host), CUDA_ERROR_INVALID_VALUE);
  const auto look = [&] {
    EXPECT_EQ(preferred_of(at, 2 * kMiB), 1);
    EXPECT_EQ(preferred_of(at + 2 * kMiB, 4 * kMiB), CU_DEVICE_CPU);
    EXPECT_EQ(preferred_of(at + 6 * kMiB, 4 * kMiB), CU_DEVICE_INVALID);
    EXPECT_EQ(read_mostly(at + kMiB, 2 * kMiB), 1);
    EXPECT_EQ(read_mostly(at, kMiB), 0);
    EXPECT_EQ(read_mostly(at + 3 * kMiB, kMiB), 0);
    EXPECT_EQ(prefetched_of(at + 8 * kMiB, kMiB), 1);
    EXPECT_EQ(prefetched_of(at + 9 * kMiB, kMiB), CU_DEVICE_CPU);
    int accessed[2] = {};
    EXPECT_CU(
        cuMemRangeGetAttribute(accessed, sizeof accessed, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, at, 10 * kMiB));
    EXPECT_EQ(accessed[0], 1);
    EXPECT_EQ(accessed[1], CU_DEVICE_INVALID);
  };
  look();
  restart();
  const Status told = advised->tell_again([this](int device) { return contexts[device]; });
  ASSERT_TRUE(told) << told.error().message;
  look();
  managed->release(blocks->at(at));
  EXPECT_EQ(state->advice.live(), 0u);
  EXPECT_EQ(allocate_managed(10 * kMiB)->begin, at);
  EXPECT_EQ(preferred_of(at, 2 * kMiB), CU_DEVICE_INVALID);
  EXPECT_EQ(read_mostly(at + kMiB, 2 * kMiB), 0);
}

// Blocks that touch have advice of their own, whichever of them is freed first.
TEST_F(ManagedTest, AdviceOfNeighbouringBlocksIsSeparate) {
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, {0}}, one{CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  for (const bool second_first : {false, true}) {
    Block* blocks_here[] = {allocate_managed(4096), allocate_managed(4096)};
    const CUdeviceptr first = blocks_here[0]->begin;
    ASSERT_EQ(blocks_here[1]->begin, first + 4096);
    for (const Block* block : blocks_here) {
      EXPECT_CU(advised->advise(block->begin, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
      EXPECT_CU(advised->prefetch(block->begin, 4096, one, 0, nullptr));
    }
    const CUdeviceptr kept = first + (second_first ? 0 : 4096), freed = first + (second_first ? 4096 : 0);
    managed->release(blocks->at(freed));
    EXPECT_EQ(read_mostly(freed, 4096), 0);
    EXPECT_EQ(read_mostly(kept, 4096), 1);
    const Status told = advised->tell_again([this](int device) { return contexts[device]; });
    EXPECT_TRUE(told) << told.error().message;
    managed->release(blocks->at(kept));
    EXPECT_EQ(state->advice.live(), 0u);
    EXPECT_EQ(read_mostly(first, 8192), 0);
  }
}

// What lies elsewhere refuses checkpoints as long as it is there, and is not kept when it is free.
TEST_F(ManagedTest, ARegionThatTheDriverPutElsewhereRefusesCheckpoints) {
  void* const wanted = reinterpret_cast<void*>(kManagedBegin);
  void* taken = mmap(wanted, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(taken, wanted);
  Block* block = allocate_managed(1000);
  munmap(taken, 4096);
  EXPECT_FALSE(block->begin >= kManagedBegin && block->begin < kManagedEnd);
  EXPECT_NE(managed->refusal(), "");
  managed->release(block);
  EXPECT_EQ(managed->refusal(), "");
  EXPECT_EQ(state->managed.live(), 0u);
  EXPECT_EQ(allocate_managed(1000)->begin, kManagedBegin);
}

// A driver that chooses addresses itself, among those for regions.
CUresult allocate_elsewhere(CUdeviceptr* address, size_t size, unsigned flags) {
  const Steering there(kManagedBegin + 128 * kMiB, size);
  return cuMemAllocManaged(address, size, flags);
}

// Else two regions would be wanted at the same addresses.
TEST_F(ManagedTest, AddressesThatTheDriverChoseAreGivenBackOnce) {
  driver.cuMemAllocManaged = allocate_elsewhere;
  Block* chosen = allocate_managed(70 * kMiB);
  driver.cuMemAllocManaged = cuMemAllocManaged;
  ASSERT_EQ(chosen->begin, kManagedBegin + 128 * kMiB);
  managed->release(chosen);
  allocate_managed(70 * kMiB);
  allocate_managed(300 * kMiB);
  EXPECT_EQ(managed->refusal(), "");
}

}  // namespace
}  // namespace cropdl::memory
