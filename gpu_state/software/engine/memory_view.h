// What a grid may touch, as its kernels see it. All device, managed and pinned memory of a process lies in
// one reservation of addresses, the area, and each 8 bytes of the area have a byte that says how many of them
// are allocated (the shadow), so that an access costs one load to check and is checked to the byte. Device
// memory is ordinary memory of the process: a device address is a host address. Any thread; the memory's
// owner keeps the shadow, kernels only read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cropdl::engine {

struct MemoryView {
  struct Range {
    uint64_t begin = 0, end = 0;
  };
  Range own;          // this device's own memory
  Range common;       // managed and pinned memory: every device's
  uint64_t area = 0;  // address of the area's first byte
  uint64_t area_size = 0;
  const uint8_t* shadow = nullptr;  // shadow[(address - area) / 8]: 0 … 8 of its bytes may be accessed
  // Mapped memory outside the area: pages[address / kPage], of all addresses that a process may have, says
  // whether all of the page may be read (kMayRead) and written (kMayWrite).
  const uint8_t* pages = nullptr;
  static constexpr int kPageShift = 21, kAddressBits = 47;
  enum : uint8_t { kMayRead = 1, kMayWrite = 2 };
  // Everything else: peers' memory, registered host memory. Slow.
  bool (*elsewhere)(void* owner, uint64_t address, size_t size, bool write) = nullptr;
  // The heap of in-kernel malloc and free; 0: no room.
  uint64_t (*heap_allocate)(void* owner, size_t size) = nullptr;
  bool (*heap_release)(void* owner, uint64_t address) = nullptr;
  void* owner = nullptr;

  // Whether all of [address, address + size) may be accessed. The size is a power of two up to 16 and the
  // address is aligned to it: of others, ask range().
  [[gnu::always_inline]] bool allows(uint64_t address, size_t size, bool write) const {
    if (address - own.begin < own.end - own.begin || address - common.begin < common.end - common.begin) {
      const uint8_t* granule = shadow + ((address - area) >> 3);
      if (size <= 8) return granule[0] >= (address & 7) + size;
      return granule[0] == 8 && granule[1] == 8;
    }
    return mapped(address, address + size - 1, write) ||
           (elsewhere && elsewhere(owner, address, size, write));
  }
  // Whether both may be accessed, and with them what lies between, of less than a page.
  [[gnu::always_inline]] bool mapped(uint64_t address, uint64_t last, bool write) const {
    if (!pages || last >> kAddressBits || last < address || address - area < area_size) return false;
    return (__atomic_load_n(&pages[address >> kPageShift], __ATOMIC_RELAXED) &
            __atomic_load_n(&pages[last >> kPageShift], __ATOMIC_RELAXED) & (write ? kMayWrite : kMayRead)) !=
           0;
  }
  bool range(uint64_t address, size_t size, bool write) const;  // any address and size
};

}  // namespace cropdl::engine
