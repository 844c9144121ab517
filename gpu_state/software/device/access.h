// What a device may access outside its own memory and the common one: peers' memory, what cuMemMap mapped
// anywhere, memory of the host that was registered. One byte per 2 MiB of the process's addresses, so that
// the arena of a program that maps all its memory itself stays cheap to check. Read by kernels without a
// lock; written under memory_lock().
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu_state/software/engine/memory_view.h"

namespace cropdl::device {

class AccessTable {
 public:
  enum : uint8_t {
    kRead = engine::MemoryView::kMayRead,  // all of the page, by its bytes in the area's shadow if it is in
                                           // the area
    kWrite = engine::MemoryView::kMayWrite,
    kRegistered = 4,  // some of it: ask the list of what is registered, but for pages that one covers whole
    kRegisteredRead = 8,
    kRegisteredWrite = 16,
  };
  AccessTable();

  void set(uint64_t begin, uint64_t size, uint8_t bits);  // replaces kRead and kWrite; whole pages
  // Replaces the others, of the page with that address, in one store: whoever reads meanwhile finds what was
  // or what will be.
  void set_registered(uint64_t address, uint8_t bits);
  bool allows(uint64_t address, uint64_t size, bool write) const;
  uint8_t at(uint64_t address) const;
  const uint8_t* pages() const { return pages_; }  // as engine::MemoryView wants them

 private:
  uint8_t* pages_;
};

}  // namespace cropdl::device
