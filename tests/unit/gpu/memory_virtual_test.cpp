// links: gpu_device
// Virtual memory management: reservations, physical memory, mappings and who may access them.
#include "gpu_state/software/device/virtual_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "gpu_state/software/device/area.h"
#include "gpu_state/software/device/lookup.h"
#include "gpu_state/software/device/memory.h"

namespace cropdl::device {
namespace {

constexpr uint64_t kDeviceSize = uint64_t{256} << 20;
const bool kSet = [] {
  ::setenv("CROPDL_SOFTWARE_GPUS", "2", 1);
  ::setenv("CROPDL_SOFTWARE_GPU_MEMORY", "256M", 1);
  ::setenv("CROPDL_SOFTWARE_GPU_FRESH", "pattern", 1);
  return true;
}();

constexpr unsigned kNone = CU_MEM_ACCESS_FLAGS_PROT_NONE, kRead = CU_MEM_ACCESS_FLAGS_PROT_READ,
                   kBoth = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

class VirtualMemory : public testing::Test {
 protected:
  CUdeviceptr reserve(uint64_t size, uint64_t hint = 0) {
    CUdeviceptr address = 0;
    EXPECT_EQ(reserve_addresses(size, 0, hint, &address), CUDA_SUCCESS);
    return address;
  }
  CUmemGenericAllocationHandle create(uint64_t size, int device = 0) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(create_physical(size, properties, &handle), CUDA_SUCCESS);
    return handle;
  }
  static uint32_t& word(CUdeviceptr address) { return *reinterpret_cast<uint32_t*>(address); }
  Memory memory{0}, other{1};
};

TEST_F(VirtualMemory, IsReservedWhereItWasAskedForWhenThatIsFree) {
#ifdef __SANITIZE_THREAD__
  constexpr uint64_t kFar = uint64_t{0x7e90} << 32;  // of a program's addresses, this sanitizer leaves few
#else
  constexpr uint64_t kFar = uint64_t{0x2a} << 40;  // far from where the system places libraries
#endif
  const CUdeviceptr there = reserve(4 * kPage, kFar);
  EXPECT_EQ(there, kFar);
  const CUdeviceptr elsewhere = reserve(4 * kPage, kFar + 2 * kPage);
  EXPECT_NE(elsewhere, kFar + 2 * kPage) << "it was not free";
  EXPECT_EQ(elsewhere % kPage, 0u);
  EXPECT_NE(reserve(kPage, Area::get().own(0).begin), Area::get().own(0).begin);
  EXPECT_EQ(free_addresses(there, 3 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(free_addresses(there, 4 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(free_addresses(there, 4 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(reserve(2 * kPage, kFar), kFar);
}

TEST_F(VirtualMemory, IsReservedAligned) {
  CUdeviceptr address = 0;
  EXPECT_EQ(reserve_addresses(kPage, uint64_t{1} << 32, 0, &address), CUDA_SUCCESS);
  EXPECT_EQ(address % (uint64_t{1} << 32), 0u);
  EXPECT_EQ(reserve_addresses(kPage, 3 * kPage, 0, &address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(reserve_addresses(kPage + 4096, 0, 0, &address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(reserve_addresses(0, 0, 0, &address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VirtualMemory, IsAccessibleOnlyAsItWasSet) {
  const CUdeviceptr at = reserve(4 * kPage);
  const auto handle = create(2 * kPage);
  EXPECT_FALSE(memory.allows(at, 4, false));
  EXPECT_EQ(set_mapped_access(at, 2 * kPage, 0, kBoth), CUDA_ERROR_INVALID_VALUE) << "nothing is mapped";
  ASSERT_EQ(map_physical(at, 2 * kPage, 0, handle), CUDA_SUCCESS);
  EXPECT_FALSE(memory.allows(at, 4, false)) << "mappings begin without access";
  EXPECT_EQ(set_mapped_access(at, kPage, 0, kBoth), CUDA_ERROR_INVALID_VALUE) << "part of a mapping";
  EXPECT_EQ(set_mapped_access(at, 2 * kPage, 0, kBoth), CUDA_SUCCESS);
  EXPECT_TRUE(memory.allows(at, 2 * kPage, true));
  EXPECT_TRUE(memory.view().allows(at + kPage, 8, true));
  EXPECT_FALSE(memory.allows(at, 2 * kPage + 1, false));
  EXPECT_FALSE(other.allows(at, 4, false));
  EXPECT_EQ(word(at), kPattern);
  EXPECT_EQ(set_mapped_access(at, 2 * kPage, 1, kRead), CUDA_SUCCESS);
  EXPECT_TRUE(other.allows(at, 2 * kPage, false));
  EXPECT_FALSE(other.allows(at, 4, true));
  unsigned flags = 9;
  EXPECT_EQ(get_mapped_access(at + 100, 1, &flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, kRead);
  EXPECT_EQ(set_mapped_access(at, 2 * kPage, 0, kNone), CUDA_SUCCESS);
  EXPECT_FALSE(memory.allows(at, 4, false));
  EXPECT_EQ(unmap_physical(at, 2 * kPage), CUDA_SUCCESS);
  EXPECT_FALSE(other.allows(at, 4, false));
  EXPECT_EQ(get_mapped_access(at, 1, &flags), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(release_physical(handle), CUDA_SUCCESS);
  EXPECT_EQ(free_addresses(at, 4 * kPage), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, MappedTwiceIsTheSameMemory) {
  const CUdeviceptr one = reserve(2 * kPage), two = reserve(2 * kPage);
  const auto handle = create(2 * kPage);
  ASSERT_EQ(map_physical(one, 2 * kPage, 0, handle), CUDA_SUCCESS);
  ASSERT_EQ(map_physical(two, kPage, 0, handle), CUDA_SUCCESS);
  word(one + 8) = 42;
  EXPECT_EQ(word(two + 8), 42u);
  EXPECT_EQ(unmap_physical(one, 2 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(word(two + 8), 42u);
  EXPECT_EQ(unmap_physical(two, kPage), CUDA_SUCCESS);
  ASSERT_EQ(map_physical(two, kPage, 0, handle), CUDA_SUCCESS);
  EXPECT_EQ(word(two + 8), 42u) << "physical memory keeps its content without a mapping";
  EXPECT_EQ(unmap_physical(two, kPage), CUDA_SUCCESS);
  EXPECT_EQ(release_physical(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, CountsUntilTheLastHandleAndTheLastMappingHaveGone) {
  const CUdeviceptr at = reserve(2 * kPage);
  const auto handle = create(kPage);
  EXPECT_EQ(memory.free_bytes(), kDeviceSize - kPage);
  ASSERT_EQ(map_physical(at, kPage, 0, handle), CUDA_SUCCESS);
  CUmemGenericAllocationHandle again = 0;
  EXPECT_EQ(retain_mapped(at + 4711, &again), CUDA_SUCCESS);
  EXPECT_EQ(again, handle);
  EXPECT_EQ(retain_mapped(at + kPage, &again), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(release_physical(handle), CUDA_SUCCESS);
  EXPECT_EQ(release_physical(handle), CUDA_SUCCESS);
  EXPECT_EQ(release_physical(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map_physical(at + kPage, kPage, 0, handle), CUDA_ERROR_INVALID_VALUE) << "all handles released";
  EXPECT_EQ(memory.free_bytes(), kDeviceSize - kPage) << "still mapped";
  EXPECT_EQ(free_addresses(at, 2 * kPage), CUDA_ERROR_INVALID_VALUE) << "still mapped";
  EXPECT_EQ(unmap_physical(at, kPage), CUDA_SUCCESS);
  EXPECT_EQ(memory.free_bytes(), kDeviceSize);
  EXPECT_EQ(free_addresses(at, 2 * kPage), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, IsMappedWhereNothingIsAndUnmappedWhole) {
  const CUdeviceptr at = reserve(4 * kPage);
  const auto handle = create(2 * kPage);
  EXPECT_EQ(map_physical(at, 3 * kPage, 0, handle), CUDA_ERROR_INVALID_VALUE) << "more than there is";
  EXPECT_EQ(map_physical(at + 3 * kPage, 2 * kPage, 0, handle), CUDA_ERROR_INVALID_VALUE)
      << "beyond the reservation";
  EXPECT_EQ(map_physical(at + 4096, kPage, 0, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map_physical(at, kPage, kPage, handle), CUDA_ERROR_INVALID_VALUE) << "offsets must be zero";
  ASSERT_EQ(map_physical(at, 2 * kPage, 0, handle), CUDA_SUCCESS);
  EXPECT_EQ(map_physical(at + kPage, kPage, 0, handle), CUDA_ERROR_INVALID_VALUE) << "mapped already";
  ASSERT_EQ(map_physical(at + 2 * kPage, kPage, 0, handle), CUDA_SUCCESS);
  EXPECT_EQ(set_mapped_access(at, 3 * kPage, 0, kBoth), CUDA_SUCCESS) << "several mappings in a row";
  EXPECT_TRUE(virtual_allows(0, at + kPage, 2 * kPage, true));
  EXPECT_FALSE(virtual_allows(0, at + kPage, 2 * kPage + 1, true));
  EXPECT_EQ(unmap_physical(at, kPage), CUDA_ERROR_INVALID_VALUE) << "part of a mapping";
  EXPECT_EQ(unmap_physical(at, 4 * kPage), CUDA_ERROR_INVALID_VALUE) << "more than is mapped";
  EXPECT_EQ(unmap_physical(at, 3 * kPage), CUDA_SUCCESS);
  EXPECT_FALSE(virtual_allows(0, at, 4, false));
  EXPECT_EQ(release_physical(handle), CUDA_SUCCESS);
}

TEST_F(VirtualMemory, EndsWithTheDevicesMemory) {
  CUmemAllocationProp properties{};
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(create_physical(kDeviceSize + kPage, properties, &handle), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(create_physical(kPage + 1, properties, &handle), CUDA_ERROR_INVALID_VALUE);
  const auto all = create(kDeviceSize, 1);
  EXPECT_EQ(create_physical(kPage, properties, &handle), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory.free_bytes(), kDeviceSize);
  EXPECT_EQ(release_physical(all), CUDA_SUCCESS);
  EXPECT_EQ(other.free_bytes(), kDeviceSize);
}

TEST_F(VirtualMemory, IsKnownByItsAddress) {
  const CUdeviceptr at = reserve(2 * kPage);
  const auto handle = create(kPage, 1);
  EXPECT_FALSE(find_allocation(at));
  ASSERT_EQ(map_physical(at, kPage, 0, handle), CUDA_SUCCESS);
  const auto found = find_allocation(at + 5);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, MemoryKind::kVirtual);
  EXPECT_EQ(found->begin, at);
  EXPECT_EQ(found->size, kPage);
  EXPECT_EQ(found->device, 1);
  EXPECT_TRUE(virtual_contains(at + kPage));
  EXPECT_FALSE(find_allocation(at + kPage));
  CUmemAllocationProp properties{};
  EXPECT_EQ(properties_of(handle, &properties), CUDA_SUCCESS);
  EXPECT_EQ(properties.location.id, 1);
  EXPECT_EQ(unmap_physical(at, kPage), CUDA_SUCCESS);
  EXPECT_EQ(release_physical(handle), CUDA_SUCCESS);
}

}  // namespace
}  // namespace cropdl::device
