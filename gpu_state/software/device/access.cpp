#include "gpu_state/software/device/access.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/say.h"
#include "gpu_state/software/device/allocation.h"
#include "gpu_state/software/device/area.h"

namespace cropdl::device {

namespace {
// of a process's address space
constexpr uint64_t kAddresses = uint64_t{1} << engine::MemoryView::kAddressBits;
static_assert(kPage == uint64_t{1} << engine::MemoryView::kPageShift);
constexpr uint8_t kOwn = AccessTable::kRead | AccessTable::kWrite;

// A table's entry for the page that starts there, from the list. With the lock.
uint8_t registered_bits(uint64_t page) {
  const auto& all = registered_memory();
  const auto first = all.upper_bound(page);
  if (first == all.end() || first->second.begin >= page + kPage) return 0;
  const auto& [end, one] = *first;
  if (one.begin > page || end < page + kPage) return AccessTable::kRegistered;
  return AccessTable::kRegistered | AccessTable::kRegisteredRead |
         (one.flags & CU_MEMHOSTREGISTER_READ_ONLY ? 0 : AccessTable::kRegisteredWrite);
}

}  // namespace

AccessTable::AccessTable() {
  void* got = ::mmap(nullptr, kAddresses / kPage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) {
    say("software GPU: 64 MiB of addresses cannot be had: is there a limit on addresses (ulimit -v)?");
    std::_Exit(1);
  }
  pages_ = static_cast<uint8_t*>(got);
}

uint8_t AccessTable::at(uint64_t address) const {
  return address < kAddresses ? __atomic_load_n(&pages_[address / kPage], __ATOMIC_RELAXED) : uint8_t{0};
}

void AccessTable::set(uint64_t begin, uint64_t size, uint8_t bits) {
  for (uint64_t page = begin / kPage; page < (begin + size) / kPage; ++page)
    __atomic_store_n(&pages_[page], static_cast<uint8_t>((pages_[page] & ~kOwn) | bits), __ATOMIC_RELAXED);
}

void AccessTable::set_registered(uint64_t address, uint8_t bits) {
  uint8_t& page = pages_[address / kPage];
  __atomic_store_n(&page, static_cast<uint8_t>((page & kOwn) | bits), __ATOMIC_RELAXED);
}

bool AccessTable::allows(uint64_t address, uint64_t size, bool write) const {
  if (size == 0) return true;
  if (address >= kAddresses || size > kAddresses - address) return false;
  const uint8_t wanted = write ? kWrite | kRegisteredWrite : kRead | kRegisteredRead;
  const Area& area = Area::get();
  const uint64_t end = address + size;
  for (uint64_t at_ = address; at_ < end;) {
    const uint64_t next = std::min(end, (at_ / kPage + 1) * kPage);
    const uint8_t bits = at(at_);
    const bool given = bits & wanted && (!area.contains(at_) || area.accessible(at_, next - at_));
    if (!given && !(bits & kRegistered && registered_allows(at_, next - at_, write))) return false;
    at_ = next;
  }
  return true;
}

std::array<AccessTable*, 16>& access_tables() {
  static std::array<AccessTable*, 16> tables{};
  return tables;
}

AccessTable* access_table(int device) {
  return device >= 0 && device < 16 ? access_tables()[static_cast<size_t>(device)] : nullptr;
}

void show_registered(uint64_t begin, uint64_t end) {
  for (uint64_t page = begin / kPage * kPage; page < end; page += kPage) {
    const uint8_t bits = registered_bits(page);
    for (AccessTable* table : access_tables())
      if (table) table->set_registered(page, bits);
  }
}

}  // namespace cropdl::device
