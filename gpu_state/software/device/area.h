// The area: one reservation of addresses for all device, managed and pinned memory of a process, and its
// shadow (engine/memory_view.h). It is where Linux places mappings, as a driver's addresses are (CUDA C++
// Programming Guide, "Unified Virtual Address Space"), at another address in each process. Nothing is
// committed before it is used. Any thread; a thread that changes a range of the shadow owns that range.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/file.h"
#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

// The unit in which device memory is allocated and counted, and the granularity of virtual memory management.
// No CU_DEVICE_ATTRIBUTE has it, but cuMemGetAllocationGranularity returns 2 MiB on all devices with compute
// capability 7 and later.
constexpr uint64_t kPage = uint64_t{2} << 20;
constexpr uint64_t kHostPage = 4096;  // "aligned to CPU page size"

constexpr uint64_t pages_for(uint64_t bytes) { return (bytes + kPage - 1) / kPage; }

// The content of fresh memory with CROPDL_SOFTWARE_GPU_FRESH=pattern, instead of zeros, and of freed memory.
// It is NaN as f32, f64 and (half of it) f16, and far out of range as an index.
constexpr uint32_t kPattern = 0x7fffdead;

class Area {
 public:
  // Made on first use, never destroyed. Ends the process with one line if the addresses are not available.
  static Area& get();

  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  const uint8_t* shadow() const { return shadow_; }
  engine::MemoryView::Range own(int device) const {
    return {begin_ + static_cast<uint64_t>(device) * each_,
            begin_ + static_cast<uint64_t>(device + 1) * each_};
  }
  // The last part of each range is reserved for modules' variables. Their addresses depend only on the area's
  // address and on the order in which modules are loaded, as a driver's do: the same area address gives the
  // same variable addresses.
  static constexpr uint64_t kPartOfModules = 16;
  static engine::MemoryView::Range part_of_modules(engine::MemoryView::Range range) {
    return {range.end - (range.end - range.begin) / kPartOfModules / kPage * kPage, range.end};
  }
  static engine::MemoryView::Range without_modules(engine::MemoryView::Range range) {
    return {range.begin, part_of_modules(range).begin};
  }
  // Managed and pinned memory, behind all devices' own ranges.
  engine::MemoryView::Range common() const { return {end_ - each_, end_}; }
  bool contains(uint64_t address) const { return address >= begin_ && address < end_; }

  // Makes exactly these bytes accessible. `begin` is a multiple of 8.
  void open(uint64_t begin, uint64_t size);
  void close(uint64_t begin, uint64_t size);
  bool accessible(uint64_t begin, uint64_t size) const;

  // Sets memory to the content of fresh memory, zeros or the pattern. Unused whole pages cost nothing. With
  // memory_lock() held.
  void make_fresh(uint64_t begin, uint64_t size);
  // Writes the pattern to freed memory if tests request it. With memory_lock() held.
  void make_freed(uint64_t begin, uint64_t size);
  // Returns whole pages to the operating system.
  void give_back(uint64_t begin, uint64_t size);

  // The page allocator's word for the page at that address: the page's owner.
  void*& owner(uint64_t address) { return owners_[(address - begin_) / kPage]; }

 private:
  Area();
  uint64_t begin_ = 0, end_ = 0, each_ = 0;
  uint8_t* shadow_ = nullptr;
  void** owners_ = nullptr;
  bool write_pattern_file(uint64_t size);
  void fill_with_pattern(uint64_t begin, uint64_t size);
  Descriptor pattern_;         // a file that contains the pattern
  uint64_t pattern_size_ = 0;  // bytes
  uint64_t pieces_ = 0;        // mappings of it ever made
};

}  // namespace cropdl::device
