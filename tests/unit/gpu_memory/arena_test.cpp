// The arena: CUDA's rules for memory, no growth, and the same addresses after a restart.
#include <map>
#include <random>
#include <thread>

#include "tests/unit/gpu_memory/memory_rig.h"

namespace cropdl::memory {
namespace {

class ArenaTest : public MemoryTest {};

constexpr uint64_t kMiB = uint64_t{1} << 20;

uint64_t free_bytes() {
  size_t free = 0, total = 0;
  EXPECT_CU(cuMemGetInfo_v2(&free, &total));
  return free;
}

TEST_F(ArenaTest, BlocksAreAlignedDisjointAndUsableOnTheirDevice) {
  std::mt19937_64 random(1);
  std::map<uint64_t, Block*> held;  // by begin
  for (int step = 0; step < 4000; ++step) {
    if (held.size() > 200 || (!held.empty() && random() % 2)) {
      auto one = held.begin();
      std::advance(one, random() % held.size());
      EXPECT_CU(cuCtxSynchronize());
      arena->release(one->second);
      held.erase(one);
      continue;
    }
    const uint64_t size = 1 + (random() % 50 ? random() % 70000 : random() % (5 * kMiB));
    Block* made = allocate(size);
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(made->begin % 512, 0u);
    if (size > kMiB) {
      EXPECT_EQ(made->begin % (2 * kMiB), 0u);
    }
    EXPECT_GE(made->room, size);
    const auto next = held.lower_bound(made->begin);
    if (next != held.end()) {
      EXPECT_LE(made->begin + made->room, next->first);
    }
    if (next != held.begin()) {
      const Block* before = std::prev(next)->second;
      EXPECT_LE(before->begin + before->room, made->begin);
    }
    held[made->begin] = made;
    EXPECT_EQ(blocks->around(made->begin + size - 1), made);
    EXPECT_CU(cuMemsetD8_v2(made->begin, 1, size));
  }
}

TEST_F(ArenaTest, OnlyTheBeginningOfABlockIdentifiesIt) {
  Block* made = allocate(10000);
  EXPECT_EQ(blocks->at(made->begin), made);
  EXPECT_EQ(blocks->at(made->begin + 512), nullptr);
  EXPECT_EQ(blocks->around(made->begin + 9999), made);
  EXPECT_EQ(blocks->around(made->begin + made->room), nullptr);
  const uint64_t begin = made->begin;
  arena->release(made);
  EXPECT_EQ(blocks->at(begin), nullptr);
  Block* none = nullptr;
  EXPECT_EQ(arena->allocate(0, 0, BlockKind::kDevice, &none), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(arena->allocate(2, 1, BlockKind::kDevice, &none), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(ArenaTest, OutOfMemoryIsTheDriversErrorAfterEmptyChunksWereReturned) {
  const uint64_t all = free_bytes();
  std::vector<Block*> held;
  Block* one = nullptr;
  while (arena->allocate(0, 100 * kMiB, BlockKind::kDevice, &one) == CUDA_SUCCESS) held.push_back(one);
  EXPECT_EQ(held.size(), all / (100 * kMiB));
  for (Block* block : held) arena->release(block);  // some of it stays mapped
  EXPECT_GT(arena->unused(0), 0u);
  EXPECT_EQ(free_bytes() + arena->unused(0), all);
  ASSERT_CU(arena->allocate(0, all, BlockKind::kDevice, &one)) << "what is kept is for whoever wants it";
  EXPECT_EQ(arena->allocate(0, 1, BlockKind::kDevice, &one), CUDA_ERROR_OUT_OF_MEMORY);
  arena->release(blocks->at(one->begin));
  EXPECT_EQ(arena->allocate(0, kArenaSlice + 1, BlockKind::kDevice, &one), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(ArenaTest, LittleIsKeptWhereLittleIsLeft) {
  const uint64_t all = free_bytes();
  std::vector<Block*> held;
  Block* one = nullptr;
  while (arena->allocate(0, 50 * kMiB, BlockKind::kDevice, &one) == CUDA_SUCCESS) held.push_back(one);
  arena->release(held.back());
  held.pop_back();
  EXPECT_EQ(free_bytes(), all - held.size() * 50 * kMiB) << "what is not the arena's may need it";
  for (Block* block : held) arena->release(block);
  EXPECT_GT(arena->unused(0), 100 * kMiB);
  while (arena->allocate(0, 150 * kMiB, BlockKind::kDevice, &one) ==
         CUDA_SUCCESS) {  // what was kept is of another size
  }
  EXPECT_LT(arena->unused(0), 50 * kMiB);
}

TEST_F(ArenaTest, AHundredThousandBlocksNeedLittleMemoryAndAreFreed) {
  std::vector<Block*> held;
  for (int i = 0; i < 100'000; ++i) held.push_back(allocate(1 + static_cast<uint64_t>(i) % 2000));
  EXPECT_LT(mapped(0), 200 * kMiB);
  EXPECT_LT(arena->unused(0), 40 * kMiB);
  for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(blocks->around(held[i]->begin + 100), held[i]);
  std::shuffle(held.begin(), held.end(), std::mt19937(1));
  for (Block* block : held) arena->release(block);
  EXPECT_LE(mapped(0), 32 * kMiB) << "one chunk is kept";
  arena->trim(0);
  EXPECT_EQ(mapped(0), 0u);
  EXPECT_EQ(state->blocks.live(), 0u);
  EXPECT_EQ(state->chunks.live(), 0u);
}

TEST_F(ArenaTest, AllocatingAndFreeingForEverNeitherGrowsNorCallsTheDriver) {
  Block* held[64] = {};
  std::mt19937 random(3);
  const auto step = [&] {
    Block*& one = held[random() % 64];
    if (one) arena->release(one);
    one = allocate(1 + random() % 100'000);
  };
  for (int i = 0; i < 10'000; ++i) step();
  const uint64_t heap = handles::heap_blocks(), before = mapped(0);
  // Who calls the driver again and again would be a thousand times slower.
  for (int i = 0; i < 1'000'000; ++i) step();
  EXPECT_EQ(handles::heap_blocks(), heap);
  EXPECT_LE(mapped(0), before + 8 * kMiB);
  EXPECT_LE(state->blocks.room(), 1000u);
}

TEST_F(ArenaTest, LargeBlocksInALoopCostNoCallOfTheDriver) {
  Block* first = allocate(30 * kMiB);
  const uint64_t begin = first->begin;
  for (int i = 0; i < 1000; ++i) {
    arena->release(blocks->at(begin));
    EXPECT_EQ(allocate(30 * kMiB)->begin, begin);
  }
}

TEST_F(ArenaTest, PeerAccessHoldsForPresentAndFutureMemory) {
  Block* before = allocate(kMiB, 1);
  EXPECT_CU(arena->allow_peer(1, 0, true));
  Block* after = allocate(50 * kMiB, 1);
  const CUmemLocation zero{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  unsigned long long flags = 0;
  for (const Block* one : {before, after}) {
    ASSERT_CU(cuMemGetAccess(&flags, &zero, one->begin));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  restart();
  ASSERT_CU(cuMemGetAccess(&flags, &zero, before->begin));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_CU(arena->allow_peer(1, 0, false));
  ASSERT_CU(cuMemGetAccess(&flags, &zero, after->begin));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

TEST_F(ArenaTest, UnusedDevicesMayBeMissingAtARestart) {
  Block* block = allocate(kMiB);
  const uint64_t begin = block->begin;
  forget_devices();
  this->begin();
  Status done = arena->reserve(1);
  ASSERT_TRUE(done) << done.error().message;
  done = arena->restore();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_NE(blocks->at(begin), nullptr);
  state->chunks.each([](const Chunk* one) { EXPECT_CU(cuMemUnmap(one->begin, one->size)); });
  EXPECT_CU(cuMemAddressFree(kArenaBegin, kArenaSlice));
  this->begin();
  ASSERT_TRUE(arena->reserve(2));
  ASSERT_TRUE(arena->restore());
  allocate(kMiB, 1);
  forget_devices();
  this->begin();
  done = arena->reserve(1);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("memory of 2 devices, and there are 1"), std::string::npos)
      << done.error().message;
  state->chunks.each([&](Chunk* one) { state->chunks.drop(one); });
  state->devices = 0;
}

TEST_F(ArenaTest, AfterARestartBlocksAreWhereTheyWereAndTheRestIsFree) {
  std::mt19937 random(4);
  std::vector<Block*> held;
  std::map<uint64_t, uint64_t> expected;  // begin, size
  for (int i = 0; i < 3000; ++i) {
    const int device = static_cast<int>(random() % 2);
    held.push_back(allocate(1 + (random() % 100 ? random() % 20000 : random() % (4 * kMiB)), device));
    if (random() % 2) {
      const size_t i = random() % held.size();
      arena->release(held[i]);
      held[i] = held.back();
      held.pop_back();
    }
  }
  for (Block* one : held) expected[one->begin] = one->size;
  arena->release(allocate(10 * kMiB));  // an empty chunk is not taken again
  uint64_t used[2] = {mapped(0) - arena->unused(0), mapped(1) - arena->unused(1)};
  restart();
  EXPECT_EQ(state->blocks.live(), expected.size());
  blocks->each([&](Block* one) { EXPECT_EQ(expected[one->begin], one->size); });
  for (int device = 0; device < 2; ++device) EXPECT_EQ(mapped(device) - arena->unused(device), used[device]);
  for (int i = 0; i < 3000; ++i) {
    Block* made = allocate(1 + random() % 20000);
    const auto next = expected.lower_bound(made->begin);
    if (next != expected.end()) {
      EXPECT_LE(made->begin + made->room, next->first);
    }
    if (next != expected.begin()) {
      EXPECT_LE(std::prev(next)->first + std::prev(next)->second, made->begin);
    }
    EXPECT_CU(cuMemsetD8_v2(made->begin, 1, made->size));
  }
}

// A driver with memory for other processes, which the software GPU has not.
bool driver_exports = true;
int made_to_be_exported = 0, made = 0;
CUresult attribute_of_exporting(int* value, CUdevice_attribute which, CUdevice device) {
  if (which != CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
    return cuDeviceGetAttribute(value, which, device);
  *value = driver_exports;
  return CUDA_SUCCESS;
}
CUmemAllocationProp without_handles(CUmemAllocationProp properties) {
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  return properties;
}
CUresult granularity_of_exporting(size_t* size, const CUmemAllocationProp* asked,
                                  CUmemAllocationGranularity_flags option) {
  const auto properties = without_handles(*asked);
  return cuMemGetAllocationGranularity(size, &properties, option);
}
CUresult make_exporting(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* asked,
                        unsigned long long flags) {
  ++made;
  made_to_be_exported += asked->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const auto properties = without_handles(*asked);
  return cuMemCreate(handle, size, &properties, flags);
}

TEST_F(ArenaTest, MemoryCanBeExportedWhereTheDriverCan) {
  driver.cuDeviceGetAttribute = attribute_of_exporting;
  driver.cuMemGetAllocationGranularity = granularity_of_exporting;
  driver.cuMemCreate = make_exporting;
  for (const bool can : {true, false}) {
    driver_exports = can;
    restart();
    made = made_to_be_exported = 0;
    allocate(3 * kMiB);
    EXPECT_EQ(made, 1);
    EXPECT_EQ(made_to_be_exported, can ? 1 : 0);
    restart();
    EXPECT_EQ(made_to_be_exported, can ? made : 0);
  }
}

TEST_F(ArenaTest, TakenAddressesGiveOneLineAndReserveNothing) {
  forget_devices();
  void* taken = mmap(reinterpret_cast<void*>(kArenaBegin + kMiB * 512), 4096, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(taken, MAP_FAILED);
  state->devices = 0;
  begin();
  const Status reserved = arena->reserve(2);
  ASSERT_FALSE(reserved);
  EXPECT_NE(reserved.error().message.find("0x300000000000"), std::string::npos) << reserved.error().message;
  munmap(taken, 4096);
}

TEST_F(ArenaTest, TooLittleMemoryAtARestartIsOneLine) {
  allocate(900 * kMiB);
  forget_devices();
  begin();
  ASSERT_TRUE(arena->reserve(2));
  CUdeviceptr others = 0;
  ASSERT_CU(cuMemAlloc_v2(&others, 500 * kMiB));
  waits_for_memory = 2;
  const Status restored = arena->restore();
  ASSERT_FALSE(restored);
  EXPECT_NE(restored.error().message.find("900 MiB of device 0"), std::string::npos)
      << restored.error().message;
  state->chunks.each([&](Chunk* one) { state->chunks.drop(one); });
  EXPECT_CU(cuMemFree_v2(others));
}

TEST_F(ArenaTest, MemoryThatOthersGiveBackLateIsWaitedFor) {
  allocate(900 * kMiB);
  forget_devices();
  begin();
  ASSERT_TRUE(arena->reserve(2));
  CUdeviceptr others = 0;
  ASSERT_CU(cuMemAlloc_v2(&others, 500 * kMiB));
  waits_for_memory = kWaitsForMemory;
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    EXPECT_CU(cuCtxSetCurrent(contexts[0]));
    EXPECT_CU(cuMemFree_v2(others));
  });
  const Status restored = arena->restore();
  late.join();
  EXPECT_TRUE(restored) << restored.error().message;
}

}  // namespace
}  // namespace cropdl::memory
