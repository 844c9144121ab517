// The area: the one reservation of addresses in which all device, managed and pinned memory of a process
// lies, and its shadow (engine/memory_view.h). It lies where the system places mappings, as a driver's
// addresses do (CUDA C++ Programming Guide, "Unified Virtual Address Space"), at another place in each
// process. Nothing is committed before it is used. Any thread; who changes a range of the shadow owns that
// range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/file.h"
#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

// What device memory is handed out and counted in, and the granularity of virtual memory management:
// CU_DEVICE_ATTRIBUTE… none says so, but cuMemGetAllocationGranularity answers 2 MiB on all devices with
// compute capability 7 and later.
constexpr uint64_t kPage = uint64_t{2} << 20;

constexpr uint64_t pages_for(uint64_t bytes) { return (bytes + kPage - 1) / kPage; }

// What memory nobody has written to contains with CROPDL_SOFTWARE_GPU_FRESH=pattern, instead of zeros: not a
// number as f32, f64 and (half of it) f16, far out of every range as an index. Freed memory contains it too.
constexpr uint32_t kPattern = 0x7fffdead;

class Area {
 public:
  // Made on first use, never taken down. Ends the process with one line when the addresses cannot be had.
  static Area& get();

  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  const uint8_t* shadow() const { return shadow_; }
  engine::MemoryView::Range own(int device) const {
    return {begin_ + static_cast<uint64_t>(device) * each_,
            begin_ + static_cast<uint64_t>(device + 1) * each_};
  }
  // Variables of modules have the last part of each range to themselves, and their places in it follow from
  // where the area lies and in which order modules are loaded, as a driver's do: a process that has the area
  // at the same place has them at the same addresses.
  static constexpr uint64_t kPartOfModules = 16;
  static engine::MemoryView::Range part_of_modules(engine::MemoryView::Range range) {
    return {range.end - (range.end - range.begin) / kPartOfModules / kPage * kPage, range.end};
  }
  static engine::MemoryView::Range without_modules(engine::MemoryView::Range range) {
    return {range.begin, part_of_modules(range).begin};
  }
  // Managed and pinned memory. Behind all devices' own ranges.
  engine::MemoryView::Range common() const { return {end_ - each_, end_}; }
  bool contains(uint64_t address) const { return address >= begin_ && address < end_; }

  // From now on exactly these bytes may be accessed. `begin` is a multiple of 8.
  void open(uint64_t begin, uint64_t size);
  void close(uint64_t begin, uint64_t size);
  bool accessible(uint64_t begin, uint64_t size) const;

  // Makes memory contain what fresh memory does, zeros or the pattern; of whole pages what is not used costs
  // nothing. With memory_lock() held.
  void make_fresh(uint64_t begin, uint64_t size);
  // Puts the pattern, if that is what tests want, where memory was freed. With memory_lock() held.
  void make_freed(uint64_t begin, uint64_t size);
  // Whole pages: gives their memory back to the system.
  void give_back(uint64_t begin, uint64_t size);

  // A word per page for whoever hands pages out: whose is the page at that address.
  void*& owner(uint64_t address) { return owners_[(address - begin_) / kPage]; }

 private:
  Area();
  uint64_t begin_ = 0, end_ = 0, each_ = 0;
  uint8_t* shadow_ = nullptr;
  void** owners_ = nullptr;
  bool write_pattern_file(uint64_t size);
  void fill_with_pattern(uint64_t begin, uint64_t size);
  Descriptor pattern_;         // a file of the pattern
  uint64_t pattern_size_ = 0;  // bytes
  uint64_t pieces_ = 0;        // mappings of it that were ever made
};

}  // namespace cropdl::device
