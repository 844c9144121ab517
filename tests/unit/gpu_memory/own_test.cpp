// What a program reserves, makes and maps itself: as with the driver, and the same after a restart.
#include "gpu_state/memory/own.h"

#include <cstring>
#include <iterator>
#include <map>

#include "gpu_state/memory/contents.h"
#include "tests/unit/gpu_memory/memory_rig.h"

namespace cropdl::memory {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class OwnTest : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    own = std::make_unique<Own>(driver, *blocks);
  }
  void TearDown() override {
    forget_own();
    MemoryTest::TearDown();
  }
  void forget_own() {
    state->own_mappings.each([](OwnMapping* one) { EXPECT_CU(cuMemUnmap(one->begin, one->size)); });
    state->own_reservations.each(
        [](OwnReservation* one) { EXPECT_CU(cuMemAddressFree(one->begin, one->size)); });
  }
  CUmemGenericAllocationHandle create(uint64_t word, uint64_t size) {
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    CUmemGenericAllocationHandle made = 0;
    EXPECT_CU(cuMemCreate(&made, size, &what, 0));
    if (word) own->made(word, size, what);
    return made;
  }
  CUresult access(CUdeviceptr at, uint64_t size, unsigned flags) {
    const CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, static_cast<CUmemAccess_flags>(flags)};
    return own->set_access(at, size, &desc, 1);
  }
  unsigned long long flags_at(CUdeviceptr at) {
    unsigned long long flags = 99;
    const CUmemLocation zero{CU_MEM_LOCATION_TYPE_DEVICE, {0}};
    EXPECT_CU(cuMemGetAccess(&flags, &zero, at));
    return flags;
  }
  std::vector<const OwnMapping*> mappings_of(CUdeviceptr range) {
    std::map<uint64_t, const OwnMapping*> all;
    state->own_mappings.each([&](const OwnMapping* one) {
      if (one->begin >= range) all[one->begin] = one;
    });
    std::vector<const OwnMapping*> found;
    for (const auto& [begin, one] : all) found.push_back(one);
    return found;
  }
  std::unique_ptr<Own> own;
};

TEST_F(OwnTest, MemoryThatIsPlacedHereIsNotTheProgramsToMap) {
  Block* block = allocate(4 * kMiB);
  const auto physical = create(1, 2 * kMiB);
  EXPECT_EQ(own->unmap(block->begin, 4 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(own->map(block->begin, 2 * kMiB, 0, 1, physical, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(access(block->begin, 4 * kMiB, CU_MEM_ACCESS_FLAGS_PROT_NONE), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(own->free(kArenaBegin, 2 * kArenaSlice), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD8_v2(block->begin, 1, 4 * kMiB));
  CUdeviceptr wished = 0;
  EXPECT_CU(own->reserve(&wished, 2 * kMiB, 0, kManagedBegin, 0));
  EXPECT_GE(wished, kOwnBegin) << "managed memory would come there";
  for (const uint64_t host : {uint64_t{seam::kMapBegin}, uint64_t{1} << 30}) {
    EXPECT_CU(own->reserve(&wished, 2 * kMiB, 0, host, 0));
    EXPECT_TRUE(wished >= kOwnBegin && wished < kOwnEnd) << "a cut would save it as the host's";
  }
  // Nor is what lives in the host's memory: it cannot be made again.
  EXPECT_EQ(own->refusal(), "");
  CUmemAllocationProp host{};
  host.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  OwnPhysical* made = own->made(2, 2 * kMiB, host);
  EXPECT_NE(own->refusal().find("host"), std::string::npos);
  ++made->mappings;
  EXPECT_TRUE(own->released(2));
  EXPECT_NE(own->refusal(), "") << "it is mapped";
  state->own_physical.drop(made);
  EXPECT_TRUE(own->released(1));
  EXPECT_CU(cuMemRelease(physical));
}

TEST_F(OwnTest, ReservationsLieInAPartOfTheirOwnAndAreUsedAgain) {
  CUdeviceptr one = 0, other = 0, aligned = 0, wished = 0;
  EXPECT_CU(own->reserve(&one, 4 * kMiB, 0, 0, 0));
  EXPECT_EQ(one, kOwnBegin);
  EXPECT_CU(own->reserve(&other, 2 * kMiB, 0, 0, 0));
  EXPECT_EQ(other, kOwnBegin + 4 * kMiB);
  EXPECT_CU(own->reserve(&aligned, 2 * kMiB, 1024 * kMiB, 0, 0));
  EXPECT_EQ(aligned % (1024 * kMiB), 0u);
  EXPECT_CU(own->reserve(&wished, 2 * kMiB, 0, kOwnBegin + (uint64_t{1} << 40), 0));
  EXPECT_EQ(wished, kOwnBegin + (uint64_t{1} << 40));
  EXPECT_EQ(own->free(one, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(own->free(one, 4 * kMiB));
  EXPECT_CU(own->reserve(&one, 2 * kMiB, 0, 0, 0));
  EXPECT_EQ(one, kOwnBegin);
}

TEST_F(OwnTest, MappingsAndTheirAccessAreRestored) {
  CUdeviceptr range = 0;
  ASSERT_CU(own->reserve(&range, 8 * kMiB, 0, 0, 0));
  const auto kept = create(1, 2 * kMiB), released = create(2, 2 * kMiB);
  ASSERT_CU(own->map(range, 2 * kMiB, 0, 1, kept, 0));
  ASSERT_CU(own->map(range + 2 * kMiB, 2 * kMiB, 0, 2, released, 0));
  ASSERT_CU(own->map(range + 4 * kMiB, 2 * kMiB, 0, 2, released, 0));  // the same once more
  EXPECT_TRUE(own->released(2)) << "it was the last handle";
  ASSERT_CU(cuMemRelease(released));
  ASSERT_CU(access(range, 2 * kMiB, CU_MEM_ACCESS_FLAGS_PROT_READ));
  ASSERT_CU(access(range + 2 * kMiB, 2 * kMiB, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_EQ(flags_at(range + 4 * kMiB), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  ASSERT_CU(cuMemsetD8_v2(range + 2 * kMiB, 5, 2 * kMiB));
  ASSERT_CU(cuCtxSynchronize());

  // All of it can be reached, be it mapped nowhere or open to no device, and once.
  const auto unmapped = create(3, 4 * kMiB);
  const auto real_of = [&](uint64_t word) { return word == 1 ? kept : word == 3 ? unmapped : 0; };
  Status done = own->map_contents(real_of);
  ASSERT_TRUE(done) << done.error().message;
  Contents contents(driver, *blocks, [this](int device) { return contexts[device]; });
  ASSERT_EQ(contents.regions().size(), 3u);
  for (const restart::Region& region : contents.regions()) {
    EXPECT_GE(region.begin, kOwnContentsBegin);
    EXPECT_EQ(flags_at(region.begin), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  }
  const uint64_t mapped_twice = physical_of(*mappings_of(range)[1])->contents;
  EXPECT_EQ(*reinterpret_cast<const char*>(mapped_twice), 5);
  own->unmap_contents();
  EXPECT_EQ(flags_at(range), CU_MEM_ACCESS_FLAGS_PROT_READ) << "what the program mapped is as it was";
  EXPECT_EQ(flags_at(range + 4 * kMiB), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_TRUE(own->released(3));
  ASSERT_CU(cuMemRelease(unmapped));

  forget_own();
  ASSERT_CU(cuMemRelease(kept));
  restart();
  own = std::make_unique<Own>(driver, *blocks);
  done = own->reserve_again();
  ASSERT_TRUE(done) << done.error().message;
  const auto again = create(0, 2 * kMiB);
  done = own->map_again([&](uint64_t word) { return word == 1 ? again : CUmemGenericAllocationHandle{0}; });
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_TRUE(own->map_contents([&](uint64_t) { return again; }));
  std::memset(reinterpret_cast<void*>(mapped_twice), 7, 10);
  own->unmap_contents();
  ASSERT_TRUE(own->give_access_again());
  EXPECT_EQ(reinterpret_cast<char*>(range + 2 * kMiB)[9], 7);
  EXPECT_EQ(flags_at(range), CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_EQ(flags_at(range + 4 * kMiB), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  ASSERT_CU(own->unmap(range + 2 * kMiB, 4 * kMiB));
  EXPECT_EQ(state->own_physical.live(), 1u);
  ASSERT_CU(cuMemRelease(again));
}

TEST_F(OwnTest, TakenAddressesAreOneLineAtARestart) {
  CUdeviceptr range = 0;
  ASSERT_CU(own->reserve(&range, 4 * kMiB, 0, 0, 0));
  ASSERT_CU(cuMemAddressFree(range, 4 * kMiB));
  void* taken = mmap(reinterpret_cast<void*>(range), 4096, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  const Status done = own->reserve_again();
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("0x380000000000"), std::string::npos) << done.error().message;
  munmap(taken, 4096);
  state->own_reservations.each([&](OwnReservation* one) { state->own_reservations.drop(one); });
}

}  // namespace
}  // namespace cropdl::memory
