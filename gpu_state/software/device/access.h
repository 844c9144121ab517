// What a device may access outside its own and the common memory: peers' memory, mappings made by cuMemMap
// anywhere, registered host memory. One byte per 2 MiB of the process's addresses, so that checks stay cheap
// for a program that maps all its memory itself. Kernels read it without a lock; writers hold memory_lock().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

class AccessTable {
 public:
  enum : uint8_t {
    // the whole page; in the area, as its shadow states
    kRead = engine::MemoryView::kMayRead,
    kWrite = engine::MemoryView::kMayWrite,
    // part of the page: ask the list of registered memory, unless one registration covers the page
    kRegistered = 4,
    kRegisteredRead = 8,
    kRegisteredWrite = 16,
  };
  AccessTable();

  void set(uint64_t begin, uint64_t size, uint8_t bits);  // replaces kRead and kWrite; whole pages
  // Replaces the other bits of the page with that address in one store: concurrent readers see the old or the
  // new value.
  void set_registered(uint64_t address, uint8_t bits);
  bool allows(uint64_t address, uint64_t size, bool write) const;
  uint8_t at(uint64_t address) const;
  const uint8_t* pages() const { return pages_; }  // for engine::MemoryView

 private:
  uint8_t* pages_;
};

// By device; null: its memory has not been made. Under memory_lock().
std::array<AccessTable*, 16>& access_tables();
AccessTable* access_table(int device);  // also null: there is no such device

// Updates the tables of all devices for these addresses from the list of registered memory. With
// memory_lock() held.
void show_registered(uint64_t begin, uint64_t end);

}  // namespace cropdl::device
