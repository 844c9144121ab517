// The memory that a grid may access, as its kernels see it. All device, managed and pinned memory of a
// process is in one reservation of addresses, the area. A shadow has one byte per 8 bytes of the area: the
// number of them that are allocated. So one load checks an access, to the byte. Device memory is ordinary
// memory of the process: a device address is a host address. Any thread; the memory's owner writes the
// shadow, kernels only read it.
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
  Range common;       // managed and pinned memory, of all devices
  uint64_t area = 0;  // address of the area's first byte
  uint64_t area_size = 0;
  const uint8_t* shadow = nullptr;  // shadow[(address - area) / 8]: number of accessible bytes, 0 … 8
  // Mapped memory outside the area: pages[address / kPage], for all addresses that a process may have, states
  // whether the whole page may be read (kMayRead) and written (kMayWrite).
  const uint8_t* pages = nullptr;
  static constexpr int kPageShift = 21, kAddressBits = 47;
  enum : uint8_t { kMayRead = 1, kMayWrite = 2 };
  // For all other memory: peers' memory, registered host memory. Slow.
  bool (*elsewhere)(void* owner, uint64_t address, size_t size, bool write) = nullptr;
  // The heap of in-kernel malloc and free; 0: no room.
  uint64_t (*heap_allocate)(void* owner, size_t size) = nullptr;
  bool (*heap_release)(void* owner, uint64_t address) = nullptr;
  void* owner = nullptr;

  // Whether all of [address, address + size) may be accessed. The size must be a power of two up to 16 and
  // the address aligned to it; for others, use range().
  [[gnu::always_inline]] bool allows(uint64_t address, size_t size, bool write) const {
    if (address - own.begin < own.end - own.begin || address - common.begin < common.end - common.begin) {
      const uint8_t* granule = shadow + ((address - area) >> 3);
      if (size <= 8) return granule[0] >= (address & 7) + size;
      return granule[0] == 8 && granule[1] == 8;
    }
    return mapped(address, address + size - 1, write) ||
           (elsewhere && elsewhere(owner, address, size, write));
  }
  // Whether both addresses may be accessed, and all between them. They are less than a page apart.
  [[gnu::always_inline]] bool mapped(uint64_t address, uint64_t last, bool write) const {
    if (!pages || last >> kAddressBits || last < address || address - area < area_size) return false;
    return (__atomic_load_n(&pages[address >> kPageShift], __ATOMIC_RELAXED) &
            __atomic_load_n(&pages[last >> kPageShift], __ATOMIC_RELAXED) & (write ? kMayWrite : kMayRead)) !=
           0;
  }
  bool range(uint64_t address, size_t size, bool write) const;  // any address and size
};

}  // namespace cropdl::engine
