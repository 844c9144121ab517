// links: gpu_device
// Device memory as kernels and the driver see it: accessible to the byte, uninitialised, gone when freed.
#include "gpu_state/software/device/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "gpu_state/software/device/address_allocator.h"
#include "gpu_state/software/device/area.h"
#include "gpu_state/software/device/lookup.h"
#include "gpu_state/software/device/memory_host.h"

namespace cropdl::device {
namespace {

constexpr uint64_t kDeviceSize = uint64_t{256} << 20;
const bool kSet = [] {
  ::setenv("CROPDL_SOFTWARE_GPUS", "2", 1);
  ::setenv("CROPDL_SOFTWARE_GPU_MEMORY", "256M", 1);
  ::setenv("CROPDL_SOFTWARE_GPU_FRESH", "pattern", 1);
  return true;
}();

class DeviceMemory : public testing::Test {
 protected:
  CUdeviceptr allocate(size_t size) {
    CUdeviceptr address = 0;
    EXPECT_EQ(memory.allocate(size, &address), CUDA_SUCCESS) << size;
    return address;
  }
  bool allows(uint64_t address, uint64_t size = 1, bool write = true) {
    const bool allowed = memory.allows(address, size, write);
    if (size == 1) {
      EXPECT_EQ(memory.view().allows(address, 1, write), allowed);
    }
    return allowed;
  }
  Memory memory{0}, other{1};
};

TEST_F(DeviceMemory, IsAccessibleToTheByteAndNotBeyond) {
  for (size_t size : {1, 7, 8, 9, 255, 256, 257, 511, 512, 4096, 100000, 524287, 524288, 2097152, 2097153}) {
    const CUdeviceptr address = allocate(size);
    EXPECT_EQ(address % 256, 0u);
    EXPECT_TRUE(allows(address, size)) << size;
    EXPECT_TRUE(allows(address + size - 1)) << size;
    EXPECT_FALSE(allows(address + size)) << size;
    EXPECT_FALSE(allows(address - 1)) << size;
    EXPECT_FALSE(allows(address, size + 1)) << size;
    EXPECT_EQ(memory.release(address), CUDA_SUCCESS);
    EXPECT_FALSE(allows(address)) << size;
    EXPECT_FALSE(allows(address + size - 1)) << size;
  }
}

TEST_F(DeviceMemory, OfLargeAllocationsBeginsAtAPage) {
  for (int i = 0; i < 8; ++i) EXPECT_EQ(allocate((3 << 20) + i) % kPage, 0u);
}

TEST_F(DeviceMemory, IsNotInitialised) {
  for (size_t size : {4, 100, 4096, 700000, 2097152, 6291460}) {
    const CUdeviceptr address = allocate(size);
    const auto* words = reinterpret_cast<const uint32_t*>(address);
    EXPECT_EQ(std::count(words, words + size / 4, kPattern), static_cast<long>(size / 4)) << size;
    std::memset(reinterpret_cast<void*>(address), 0, size);
    EXPECT_EQ(memory.release(address), CUDA_SUCCESS);
  }
}

TEST_F(DeviceMemory, ThatWasFreedIsNotGivenToTheNext) {
  for (size_t size : {256, 5000, 400000, 3 << 20}) {
    std::vector<CUdeviceptr> before;
    for (int i = 0; i < 9; ++i) {
      const CUdeviceptr address = allocate(size);
      EXPECT_EQ(std::count(before.begin(), before.end(), address), 0) << size << " " << i;
      before.push_back(address);
      EXPECT_EQ(memory.release(address), CUDA_SUCCESS);
    }
  }
}

TEST_F(DeviceMemory, IsScatteredWithoutNeighbours) {
  int rising = 0;
  constexpr int kMany = 200;
  for (size_t size : {size_t{256}, size_t{2} << 20}) {
    std::vector<CUdeviceptr> all;
    for (int i = 0; i < (size > 256 ? 100 : kMany); ++i) all.push_back(allocate(size));
    for (size_t i = 1; i < all.size(); ++i) rising += all[i] > all[i - 1];
    std::sort(all.begin(), all.end());
    for (size_t i = 1; i < all.size(); ++i) EXPECT_GT(all[i] - all[i - 1], size);
    for (CUdeviceptr one : all) EXPECT_EQ(memory.release(one), CUDA_SUCCESS);
  }
  EXPECT_GT(rising, 60);
  EXPECT_LT(rising, 240);
}

TEST_F(DeviceMemory, IsReleasedOnceAndFromItsBeginning) {
  const CUdeviceptr small = allocate(1000), large = allocate(5 << 20);
  for (CUdeviceptr address : {small, large}) {
    EXPECT_EQ(memory.release(address + 256), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(other.release(address), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(memory.release(address, MemoryKind::kModule), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(memory.release(address), CUDA_SUCCESS);
    EXPECT_EQ(memory.release(address), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(memory.release(0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.release(Area::get().own(0).begin), CUDA_ERROR_INVALID_VALUE);
  int local = 0;
  EXPECT_EQ(memory.release(reinterpret_cast<CUdeviceptr>(&local)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceMemory, EndsAtTheDevicesSizeAndIsCountedInPages) {
  EXPECT_EQ(memory.total_bytes(), kDeviceSize);
  EXPECT_EQ(memory.free_bytes(), kDeviceSize);
  CUdeviceptr address = 0;
  EXPECT_EQ(memory.allocate(0, &address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.allocate(kDeviceSize + 1, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory.allocate(~size_t{0}, &address), CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr one = allocate(1);
  EXPECT_EQ(memory.free_bytes(), kDeviceSize - kPage);
  EXPECT_EQ(memory.allocate(kDeviceSize, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory.release(one), CUDA_SUCCESS);
  const CUdeviceptr all = allocate(kDeviceSize);
  EXPECT_EQ(memory.free_bytes(), 0u);
  EXPECT_EQ(memory.allocate(1, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory.release(all), CUDA_SUCCESS);
  EXPECT_EQ(memory.free_bytes(), kDeviceSize);
}

// Also when it was handed out in small pieces: what rests and what is kept empty is no loss.
TEST_F(DeviceMemory, CanAllBeUsedAgain) {
  std::mt19937 random(7);
  for (int round = 0; round < 3; ++round) {
    std::vector<CUdeviceptr> all;
    CUdeviceptr address = 0;
    while (memory.allocate(1 + random() % (1 << (8 + random() % 13)), &address) == CUDA_SUCCESS)
      all.push_back(address);
    EXPECT_EQ(memory.free_bytes(), 0u);
    std::shuffle(all.begin(), all.end(), random);
    for (CUdeviceptr one : all) EXPECT_EQ(memory.release(one), CUDA_SUCCESS);
    EXPECT_EQ(memory.free_bytes(), kDeviceSize);
  }
}

TEST_F(DeviceMemory, OfSmallPiecesIsPacked) {
  for (int i = 0; i < 10000; ++i) allocate(1000);
  EXPECT_GE(memory.free_bytes(), kDeviceSize - 10000 * 1600);
}

TEST_F(DeviceMemory, IsFoundByAnyAddressInIt) {
  const CUdeviceptr address = allocate(1000);
  for (uint64_t offset : {0, 1, 999}) {
    const auto found = find_allocation(address + offset);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->begin, address);
    EXPECT_EQ(found->size, 1000u);
    EXPECT_EQ(found->device, 0);
  }
  EXPECT_FALSE(find_allocation(address + 1000));
  EXPECT_FALSE(find_allocation(address - 1));
}

TEST_F(DeviceMemory, IsThePeersOnlyWhenAllowed) {
  const CUdeviceptr before = allocate(1000);
  EXPECT_FALSE(other.allows(before, 1000, false));
  other.allow_peer(memory, true);
  EXPECT_TRUE(other.peer_allowed(memory));
  EXPECT_FALSE(memory.peer_allowed(other));
  const CUdeviceptr after = allocate(3 << 20);
  EXPECT_TRUE(other.allows(before, 1000, true));
  EXPECT_FALSE(other.allows(before, 1001, false));
  EXPECT_TRUE(other.allows(after, 3 << 20, true));
  EXPECT_TRUE(other.view().allows(after + 8, 8, true));
  EXPECT_EQ(memory.release(after), CUDA_SUCCESS);
  EXPECT_FALSE(other.allows(after, 1, false));
  other.allow_peer(memory, false);
  EXPECT_FALSE(other.allows(before, 1000, false));
}

TEST_F(DeviceMemory, IsFreedWithItsContext) {
  CUctx_st* one = reinterpret_cast<CUctx_st*>(0x10);  // only told apart
  CUctx_st* two = reinterpret_cast<CUctx_st*>(0x20);
  CUdeviceptr mine = 0, theirs = 0, managed = 0;
  void* pinned = nullptr;
  ASSERT_EQ(memory.allocate(100, &mine, one), CUDA_SUCCESS);
  ASSERT_EQ(memory.allocate(100, &theirs, two), CUDA_SUCCESS);
  ASSERT_EQ(allocate_pinned(100, 0, one, 0, &pinned), CUDA_SUCCESS);
  ASSERT_EQ(allocate_managed(100, CU_MEM_ATTACH_GLOBAL, one, 0, &managed), CUDA_SUCCESS);
  std::vector<char> host(10000), others(10000);
  const auto at = reinterpret_cast<uint64_t>(host.data());
  ASSERT_EQ(register_host(host.data(), 10000, 0, one, 0), CUDA_SUCCESS);
  ASSERT_EQ(register_host(others.data(), 10000, 0, two, 0), CUDA_SUCCESS);
  Memory::release_all(one);
  EXPECT_FALSE(memory.allows(at, 10000, true));
  EXPECT_EQ(unregister_host(host.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_TRUE(memory.allows(reinterpret_cast<uint64_t>(others.data()), 10000, true));
  EXPECT_FALSE(allows(mine));
  EXPECT_TRUE(allows(theirs));
  EXPECT_EQ(release_pinned(pinned), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(release_managed(managed), CUDA_ERROR_INVALID_VALUE);
  Memory::release_all(two);
}

TEST_F(DeviceMemory, OfKernelsHasItsOwnLimit) {
  const engine::MemoryView& view = memory.view();
  EXPECT_EQ(memory.kernel_heap(), size_t{8} << 20);
  EXPECT_EQ(memory.set_kernel_heap(1 << 20), CUDA_SUCCESS);
  const uint64_t one = view.heap_allocate(view.owner, 1000);
  ASSERT_NE(one, 0u);
  EXPECT_TRUE(view.allows(one + 992, 8, true));
  EXPECT_FALSE(view.allows(one + 1000, 8, true));
  EXPECT_FALSE(find_allocation(one)) << "the host's functions do not know it";
  EXPECT_EQ(memory.release(one), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.set_kernel_heap(2 << 20), CUDA_ERROR_INVALID_VALUE) << "it is in use";
  EXPECT_EQ(view.heap_allocate(view.owner, 1 << 20), 0u);
  EXPECT_FALSE(view.heap_release(view.owner, one + 8));
  EXPECT_TRUE(view.heap_release(view.owner, one));
  EXPECT_FALSE(view.heap_release(view.owner, one));
  EXPECT_FALSE(view.allows(one, 8, false));
  EXPECT_NE(view.heap_allocate(view.owner, (1 << 20) - 16), 0u);
}

TEST_F(DeviceMemory, IsHandedOutToSeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      std::map<CUdeviceptr, std::pair<size_t, uint8_t>> mine;
      for (int i = 0; i < 500; ++i) {
        const size_t size = 1 + random() % 5000;
        CUdeviceptr address = 0;
        ASSERT_EQ(memory.allocate(size, &address), CUDA_SUCCESS);
        std::memset(reinterpret_cast<void*>(address), i & 0xff, size);
        mine[address] = {size, i & 0xff};
        if (random() % 2) continue;
        auto [begin, what] = *mine.begin();
        const auto* bytes = reinterpret_cast<const uint8_t*>(begin);
        EXPECT_EQ(std::count(bytes, bytes + what.first, what.second), static_cast<long>(what.first));
        EXPECT_EQ(memory.release(begin), CUDA_SUCCESS);
        mine.erase(begin);
      }
      for (auto& [address, what] : mine) EXPECT_EQ(memory.release(address), CUDA_SUCCESS);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory.free_bytes(), kDeviceSize);
}

TEST_F(DeviceMemory, PinnedIsEveryDevicesAndPageAligned) {
  void* address = nullptr;
  ASSERT_EQ(allocate_pinned(5000, CU_MEMHOSTALLOC_PORTABLE, nullptr, 0, &address), CUDA_SUCCESS);
  const auto at = reinterpret_cast<uint64_t>(address);
  EXPECT_EQ(at % 4096, 0u);
  EXPECT_TRUE(memory.allows(at, 5000, true));
  EXPECT_TRUE(other.view().allows(at, 8, true));
  EXPECT_FALSE(memory.allows(at, 5001, false));
  EXPECT_EQ(release_managed(at), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(release_pinned(static_cast<char*>(address) + 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(release_pinned(address), CUDA_SUCCESS);
  EXPECT_EQ(release_pinned(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_FALSE(memory.allows(at, 1, false));
}

TEST_F(DeviceMemory, OfTheHostIsAccessibleWhileRegistered) {
  alignas(16) static char bytes[10000];
  const auto at = reinterpret_cast<uint64_t>(bytes);
  EXPECT_FALSE(memory.allows(at, 1, false));
  ASSERT_EQ(register_host(bytes, 5000, 0, nullptr, 0), CUDA_SUCCESS);
  EXPECT_TRUE(memory.allows(at, 5000, true));
  EXPECT_TRUE(other.view().allows(at + 8, 8, true));
  EXPECT_FALSE(memory.allows(at, 5001, false));
  EXPECT_EQ(register_host(bytes, 5000, 0, nullptr, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(register_host(bytes + 4999, 2, 0, nullptr, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  ASSERT_EQ(register_host(bytes + 5000, 100, CU_MEMHOSTREGISTER_READ_ONLY, nullptr, 0), CUDA_SUCCESS);
  EXPECT_TRUE(memory.allows(at + 4990, 20, false));
  EXPECT_FALSE(memory.allows(at + 5000, 1, true));
  EXPECT_EQ(unregister_host(bytes + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  ASSERT_EQ(unregister_host(bytes), CUDA_SUCCESS);
  EXPECT_EQ(unregister_host(bytes), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_FALSE(memory.allows(at, 1, false));
  EXPECT_TRUE(memory.allows(at + 5000, 100, false)) << "another's registration on the same page";
  EXPECT_EQ(unregister_host(bytes + 5000), CUDA_SUCCESS);
}

// Kernels on it do not take turns: what one registration covers whole, the table alone knows.
TEST_F(DeviceMemory, OfTheHostIsAccessibleToManyAtOnce) {
  std::vector<char> host(3 * kPage + 100);
  const auto at = reinterpret_cast<uint64_t>(host.data());
  for (bool read_only : {false, true}) {
    ASSERT_EQ(
        register_host(host.data(), host.size(), read_only ? CU_MEMHOSTREGISTER_READ_ONLY : 0, nullptr, 0),
        CUDA_SUCCESS);
    EXPECT_EQ(allows(at, host.size(), true), !read_only);
    EXPECT_TRUE(allows(at, host.size(), false));
    EXPECT_FALSE(allows(at - 1, 1, false));
    EXPECT_FALSE(allows(at + host.size(), 1, false));
    {
      std::lock_guard lock(memory_lock());
      const uint64_t page = (at + kPage - 1) / kPage * kPage;
      EXPECT_TRUE(memory.allows(page, 2 * kPage, !read_only));
    }
    EXPECT_EQ(unregister_host(host.data()), CUDA_SUCCESS);
    EXPECT_FALSE(allows(at + kPage, 1, false));
  }
}

TEST_F(DeviceMemory, ThatIsLargeTakesFewMappings) {
  auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  const auto before = mappings();
  const CUdeviceptr address = allocate(uint64_t{200} << 20);
  EXPECT_LT(mappings(), before + 50);  // 100 if each were of 2 MiB
  for (uint64_t at : {uint64_t{0}, uint64_t{31} << 20, uint64_t{33} << 20, (uint64_t{200} << 20) - 4})
    EXPECT_EQ(*reinterpret_cast<uint32_t*>(address + at), kPattern) << at;
  EXPECT_EQ(memory.release(address), CUDA_SUCCESS);
}

// A process has 65530: there may be many allocations that are not so large, too.
TEST_F(DeviceMemory, OfMediumSizeNeedsFewMappings) {
  constexpr size_t kSize = size_t{100} << 20;
  for (int i = 0; i < 45; ++i) EXPECT_EQ(memory.release(allocate(kSize)), CUDA_SUCCESS);
  auto mappings = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  const auto before = mappings();
  const CUdeviceptr address = allocate(kSize);
  EXPECT_LT(mappings(), before + 10);
  EXPECT_EQ(*reinterpret_cast<uint32_t*>(address + kSize - 4), kPattern);
  EXPECT_EQ(memory.release(address), CUDA_SUCCESS);
}

// Kernels look while another thread registers and unregisters what lies on the same 2 MiB.
TEST_F(DeviceMemory, OfTheHostIsAccessibleWhateverItsNeighboursDo) {
  alignas(4096) static char bytes[3 * 4096];
  const auto at = reinterpret_cast<uint64_t>(bytes);
  ASSERT_EQ(register_host(bytes, 4096, 0, nullptr, 0), CUDA_SUCCESS);
  std::atomic<bool> over{false};
  std::atomic<uint64_t> denied{0}, looked{0};
  std::thread looking([&] {
    for (; !over; ++looked) denied += !memory.view().allows(at, 8, true);
  });
  while (looked == 0) std::this_thread::yield();
  for (int i = 0; i < 5000; ++i) {
    EXPECT_EQ(register_host(bytes + 8192, 4096, 0, nullptr, 0), CUDA_SUCCESS);
    EXPECT_EQ(unregister_host(bytes + 8192), CUDA_SUCCESS);
  }
  over = true;
  looking.join();
  EXPECT_EQ(denied, 0u);
  EXPECT_EQ(unregister_host(bytes), CUDA_SUCCESS);
  EXPECT_FALSE(memory.allows(at, 1, false));
}

TEST_F(DeviceMemory, OfTheHostThatCannotBeAccessedIsNotRegistered) {
  auto* pages = static_cast<char*>(::mmap(nullptr, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_EQ(::mprotect(pages + 4096, 4096, PROT_NONE), 0);
  EXPECT_EQ(register_host(pages, 4096, 0, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(register_host(pages, 3 * 4096, CU_MEMHOSTREGISTER_READ_ONLY, nullptr, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(register_host(nullptr, 10, 0, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(register_host(pages, 4096, CU_MEMHOSTREGISTER_READ_ONLY, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(unregister_host(pages), CUDA_SUCCESS);
  ::munmap(pages, 3 * 4096);
}

TEST(HostMemory, IsAskedForWithoutHarm) {
  constexpr uint64_t kSize = 64 * 4096;
  auto* pages =
      static_cast<char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(pages, 5, kSize);
  const auto at = reinterpret_cast<uint64_t>(pages);
  EXPECT_TRUE(host_allows(at, kSize, true));
  EXPECT_TRUE(host_allows(at + 3, kSize - 3, false));
  ASSERT_EQ(::mprotect(pages + 40 * 4096, 4096, PROT_READ), 0);
  EXPECT_TRUE(host_allows(at, kSize, false));
  EXPECT_FALSE(host_allows(at, kSize, true));
  EXPECT_TRUE(host_allows(at, 40 * 4096, true));
  EXPECT_FALSE(host_allows(at, 40 * 4096 + 1, true));
  ASSERT_EQ(::mprotect(pages + 40 * 4096, 4096, PROT_NONE), 0);
  EXPECT_FALSE(host_allows(at, kSize, false));
  EXPECT_FALSE(host_allows(at + 40 * 4096 - 1, 2, false));
  ASSERT_EQ(::mprotect(pages + 40 * 4096, 4096, PROT_READ), 0);
  EXPECT_EQ(std::count(pages, pages + kSize, 5), static_cast<long>(kSize));
  EXPECT_FALSE(host_allows(8, 1, false));
  EXPECT_FALSE(host_allows(~uint64_t{0} - 4, 16, false));
  ::munmap(pages, kSize);
  EXPECT_FALSE(host_allows(at, kSize, false));
}

TEST(AddressAllocator, NeverHandOutAPageTwice) {
  constexpr uint64_t kBegin = uint64_t{1} << 40, kPages = 4096;
  AddressAllocator places({kBegin, kBegin + kPages * kPage}, 5);
  std::mt19937 random(3);
  std::map<uint64_t, uint64_t> taken;
  std::vector<bool> used(kPages);
  uint64_t refused = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 100 < 55) {
      const uint64_t pages = 1 + random() % (random() % 20 ? 8 : 200);
      const uint64_t at = places.take(pages);
      if (!at) {
        ++refused;
        continue;
      }
      ASSERT_EQ(at % kPage, 0u);
      for (uint64_t page = (at - kBegin) / kPage; page < (at - kBegin) / kPage + pages; ++page) {
        ASSERT_LT(page, kPages);
        ASSERT_FALSE(used[page]);
        used[page] = true;
      }
      taken[at] = pages;
    } else if (!taken.empty()) {
      auto one = std::next(taken.begin(), random() % taken.size());
      for (uint64_t page = (one->first - kBegin) / kPage; page < (one->first - kBegin) / kPage + one->second;
           ++page)
        used[page] = false;
      places.give(one->first, one->second);
      taken.erase(one);
    }
  }
  EXPECT_GT(refused, 0u) << "the range was never full: this test shows nothing";
  for (auto& [at, pages] : taken) places.give(at, pages);
  EXPECT_EQ(places.take(kPages), kBegin) << "holes have become one again";
}

}  // namespace
}  // namespace cropdl::device
