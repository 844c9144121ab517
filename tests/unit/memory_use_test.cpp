// links: cropdl_commands
// How `cropdl inspect` classifies the regions of an image.
#include "restart/cli/memory_use.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "interpose/seam/layout.h"

namespace cropdl::cli {
namespace {

using restart::Region;
using restart::RegionKind;

constexpr uint64_t kPage = restart::kImagePage, kMap = seam::kMapBegin;

Region region(uint64_t begin, uint64_t pages, uint64_t stored, const std::string& name = "",
              uint32_t prot = PROT_READ | PROT_WRITE, RegionKind kind = RegionKind::kHostMemory) {
  Region one{begin, begin + pages * kPage, prot, name, {}};
  if (stored != 0) one.present.push_back({begin, begin + stored * kPage});
  one.kind = kind;
  return one;
}

MemoryUse found(const std::vector<MemoryUse>& uses, Use use, const std::string& name = "") {
  for (const MemoryUse& one : uses)
    if (one.use == use && one.name == name) return one;
  return {};
}

TEST(MemoryUse, RegionsAreToldApartByAddressFileAndStackPointer) {
  const uint64_t program = kMap, library = kMap + 0x10'0000, data = kMap + 0x20'0000,
                 main_stack = kMap + 0x30'0000, thread = kMap + 0x50'0000, other = kMap + 0x60'0000;
  AddressFacts facts;
  facts.program = "/bin/train";
  facts.files = {{program, "/bin/train"},
                 {library, "/lib/libc.so.6"},
                 {library + 4 * kPage, "/lib/libc.so.6"},
                 {data, "/data/set"}};
  facts.stack_pointers = {thread + kPage + 8, seam::kBrkBegin + 8};
  facts.main_stack_below = kMap + 0x40'0000;
  std::vector<MemoryUse> uses;
  add_memory(
      uses,
      {region(program, 3, 2, "/bin/train", PROT_READ | PROT_EXEC),
       region(library, 4, 4, "/lib/libc.so.6", PROT_READ | PROT_EXEC),
       region(library + 4 * kPage, 1, 1, "/lib/libc.so.6"), region(data, 8, 8, "/data/set", PROT_READ),
       region(main_stack, 5, 1), region(thread, 2, 1), region(other, 1, 0),
       region(other + kPage, 1, 1, "[anon:pool]"), region(seam::kBrkBegin, 7, 6), region(seam::kState, 9, 2),
       region(0x7000'0000'0000, 6, 6, "[device 0]", 0, RegionKind::kDeviceMemory)},
      facts);
  sort_memory(uses);
  EXPECT_EQ(uses.front().use, Use::kHeap);  // although a handler's stack is in it
  EXPECT_EQ(found(uses, Use::kHeap).zero(), kPage);
  EXPECT_EQ(found(uses, Use::kStacks).regions, 2u);
  EXPECT_EQ(found(uses, Use::kStacks).stored, 2 * kPage);
  EXPECT_EQ(found(uses, Use::kProgram, "/bin/train").stored, 2 * kPage);
  EXPECT_EQ(found(uses, Use::kLibrary, "/lib/libc.so.6").stored, 5 * kPage);
  EXPECT_EQ(found(uses, Use::kFile, "/data/set").stored, 8 * kPage);
  EXPECT_EQ(found(uses, Use::kAnonymous).zero(), kPage);
  EXPECT_EQ(found(uses, Use::kAnonymous, "[anon:pool]").stored, kPage);
  EXPECT_EQ(found(uses, Use::kDevice, "[device 0]").stored, 6 * kPage);
  EXPECT_EQ(found(uses, Use::kCropdl).zero(), 7 * kPage);
  EXPECT_EQ(sum_of(uses).regions, 11u);
}

TEST(MemoryUse, RanksAddUpAndReferencesAreNotStored) {
  AddressFacts facts;
  facts.files = {{kMap, "/lib/libc.so.6"}};
  Region code = region(kMap, 4, 1, "/lib/libc.so.6", PROT_READ | PROT_EXEC);
  code.referenced.push_back({kMap + kPage, kMap + 3 * kPage});
  code.in_file = 100;
  std::vector<MemoryUse> uses;
  add_memory(uses, {code}, facts);
  add_memory(uses, {code}, facts);
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].regions, 2u);
  EXPECT_EQ(uses[0].stored, 2 * kPage);
  EXPECT_EQ(uses[0].in_file, 200u);
  EXPECT_EQ(uses[0].by_reference, 4 * kPage);
  EXPECT_EQ(uses[0].zero(), 2 * kPage);
}

TEST(MemoryUse, ContentsLeftInAFileAreNeitherStoredNorZero) {
  AddressFacts facts;
  facts.files = {{kMap, "/data/set"}};
  facts.left_in_files = {kMap};
  std::vector<MemoryUse> uses;
  add_memory(uses, {region(kMap, 8, 0, "/data/set", PROT_READ)}, facts);
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].by_reference, 8 * kPage);
  EXPECT_EQ(uses[0].zero(), 0u);
}

}  // namespace
}  // namespace cropdl::cli
