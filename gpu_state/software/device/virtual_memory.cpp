#include "gpu_state/software/device/virtual_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/file.h"
#include "gpu_state/software/device/access.h"
#include "gpu_state/software/device/memory_state.h"
#include "gpu_state/software/device/streams_queue.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

// With the pattern, fresh physical memory contains it up to here and zeros beyond, since all of it would have
// to be written.
constexpr uint64_t kMostFilled = 16 << 20;

struct Physical {
  CUmemGenericAllocationHandle handle = 0;
  uint64_t size = 0, offset = 0;  // in the file
  CUmemAllocationProp properties{};
  uint64_t references = 0, mappings = 0;
};

struct Mapping {
  uint64_t size = 0;
  std::shared_ptr<Physical> physical;
  uint64_t id = 0;
};

struct Virtual {                              // guarded by memory_lock()
  std::map<uint64_t, uint64_t> reservations;  // begin, size
  std::map<uint64_t, Mapping> mappings;       // by begin
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Physical>> physical;
  Descriptor file;
  uint64_t file_size = 0;
  CUmemGenericAllocationHandle last_handle = unforeseen() >> 24 << 12;
};

Virtual& virtual_memory() {
  static auto* kAll = new Virtual;
  return *kAll;
}

bool is_paged(uint64_t value) { return value % kPage == 0; }

bool is_range(uint64_t address, uint64_t size) {
  uint64_t end = 0;
  return size && is_paged(address) && is_paged(size) && !__builtin_add_overflow(address, size, &end);
}

// The entry of a map from start addresses whose range contains the address; `size` returns an entry's size.
template <class Map, class Size>
auto around(Map& map, uint64_t address, Size size) {
  auto at = map.upper_bound(address);
  if (at == map.begin()) return map.end();
  --at;
  return address - at->first < size(at->second) ? at : map.end();
}

auto reservation_around(uint64_t address) {
  return around(virtual_memory().reservations, address, [](uint64_t size) { return size; });
}
auto mapping_around(uint64_t address) {
  return around(virtual_memory().mappings, address, [](const Mapping& mapping) { return mapping.size; });
}

// The first of the adjacent mappings that make up exactly this range; otherwise the map's end.
auto exact_mappings(uint64_t address, uint64_t size) {
  auto first = virtual_memory().mappings.find(address);
  uint64_t at = address;
  for (auto one = first; at < address + size; at += one->second.size, ++one)
    if (one == virtual_memory().mappings.end() || one->first != at) return virtual_memory().mappings.end();
  return at == address + size ? first : virtual_memory().mappings.end();
}

void* empty_memory(uint64_t at, uint64_t size, int fixed) {
  void* got = ::mmap(reinterpret_cast<void*>(at), size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  return got == MAP_FAILED ? nullptr : got;
}

void drop_if_unused(const std::shared_ptr<Physical>& physical) {
  if (physical->references || physical->mappings) return;
  ::fallocate(virtual_memory().file.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(physical->offset), static_cast<off_t>(physical->size));
  if (MemoryBody* body = memory_state().bodies[static_cast<size_t>(physical->properties.location.id)])
    body->budget.credit(physical->size);
  virtual_memory().physical.erase(physical->handle);
}

// File offsets are never reused; a file in memory only costs what it contains.
bool extend(uint64_t size, uint64_t* offset) {
  Virtual& state = virtual_memory();
  if (!state.file) state.file = move_high(Descriptor(::memfd_create("software-gpu-memory", MFD_CLOEXEC)));
  if (!state.file || ::ftruncate(state.file.fd(), static_cast<off_t>(state.file_size + size)) != 0)
    return false;
  *offset = state.file_size;
  state.file_size += size;
  return true;
}

void fill_with_pattern(uint64_t offset, uint64_t size) {
  static const auto* kBytes = new std::vector<uint32_t>(kPage / sizeof(uint32_t), kPattern);
  for (uint64_t done = 0; done < std::min(size, kMostFilled); done += kPage)
    if (::pwrite(virtual_memory().file.fd(), kBytes->data(), kPage, static_cast<off_t>(offset + done)) < 0)
      return;
}

// Ranges that were freed while pending work might still access them.
class Leaving {
 public:
  void add(uint64_t begin, uint64_t size) {
    std::lock_guard lock(mutex_);
    ranges_.push_back({begin, size, marks_of_all(nullptr)});
  }
  // Returns ranges that no work can access any more to the system.
  void sweep() {
    std::lock_guard lock(mutex_);
    std::erase_if(ranges_, [](const Range& one) {
      return all_passed(one.after) && ::munmap(reinterpret_cast<void*>(one.begin), one.size) == 0;
    });
  }

 private:
  struct Range {
    uint64_t begin, size;
    std::vector<MarkPointer> after;
  };
  std::mutex mutex_;
  std::vector<Range> ranges_;
};

Leaving& leaving() {
  static auto* kLeaving = new Leaving;
  return *kLeaving;
}

}  // namespace

CUresult reserve_addresses(uint64_t size, uint64_t alignment, uint64_t hint, CUdeviceptr* address) {
  if (!is_range(0, size) || (alignment & (alignment - 1))) return CUDA_ERROR_INVALID_VALUE;
  leaving().sweep();
  alignment = std::max(alignment, kPage);
  std::lock_guard lock(memory_lock());
  uint64_t begin = 0;
  if (hint && hint % alignment == 0 && empty_memory(hint, size, MAP_FIXED_NOREPLACE)) begin = hint;
  if (!begin) {
    // A random distance behind the system's next address.
    const uint64_t gap = kPage * (unforeseen() % 64);
    uint64_t room = 0;
    if (__builtin_add_overflow(size, alignment + gap, &room)) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto first = reinterpret_cast<uint64_t>(empty_memory(0, room, 0));
    if (!first) return CUDA_ERROR_OUT_OF_MEMORY;
    begin = (first + alignment - 1) / alignment * alignment;
    if (begin > first) ::munmap(reinterpret_cast<void*>(first), begin - first);
    if (const uint64_t rest = first + room - (begin + size))
      ::munmap(reinterpret_cast<void*>(begin + size), rest);
  }
  virtual_memory().reservations[begin] = size;
  *address = begin;
  return CUDA_SUCCESS;
}

CUresult free_addresses(CUdeviceptr address, uint64_t size) {
  {
    std::lock_guard lock(memory_lock());
    auto known = virtual_memory().reservations.find(address);
    if (known == virtual_memory().reservations.end() || known->second != size)
      return CUDA_ERROR_INVALID_VALUE;
    auto mapping = virtual_memory().mappings.lower_bound(address);
    if (mapping != virtual_memory().mappings.end() && mapping->first < address + size)
      return CUDA_ERROR_INVALID_VALUE;
    virtual_memory().reservations.erase(known);
  }
  leaving().add(address, size);
  leaving().sweep();
  return CUDA_SUCCESS;
}

CUresult create_physical(uint64_t size, const CUmemAllocationProp& properties,
                         CUmemGenericAllocationHandle* handle) {
  if (!is_range(0, size)) return CUDA_ERROR_INVALID_VALUE;
  MemoryBody* body = body_of(properties.location.id);
  if (!body) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(memory_lock());
  Budget& budget = body->budget;
  if (!budget.charge(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  auto physical = std::make_shared<Physical>();
  if (!extend(size, &physical->offset)) {
    budget.credit(size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (settings::settings().pattern) fill_with_pattern(physical->offset, size);
  physical->size = size;
  physical->properties = properties;
  physical->references = 1;
  physical->handle = *handle = ++virtual_memory().last_handle;
  virtual_memory().physical[*handle] = std::move(physical);
  return CUDA_SUCCESS;
}

CUresult release_physical(CUmemGenericAllocationHandle handle) {
  std::lock_guard lock(memory_lock());
  auto known = virtual_memory().physical.find(handle);
  if (known == virtual_memory().physical.end() || known->second->references == 0)
    return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Physical> physical = known->second;
  --physical->references;
  drop_if_unused(physical);
  return CUDA_SUCCESS;
}

CUresult properties_of(CUmemGenericAllocationHandle handle, CUmemAllocationProp* properties) {
  std::lock_guard lock(memory_lock());
  auto known = virtual_memory().physical.find(handle);
  if (known == virtual_memory().physical.end() || known->second->references == 0)
    return CUDA_ERROR_INVALID_VALUE;
  *properties = known->second->properties;
  return CUDA_SUCCESS;
}

CUresult retain_mapped(uint64_t address, CUmemGenericAllocationHandle* handle) {
  std::lock_guard lock(memory_lock());
  auto mapping = mapping_around(address);
  if (mapping == virtual_memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  ++mapping->second.physical->references;
  *handle = mapping->second.physical->handle;
  return CUDA_SUCCESS;
}

CUresult map_physical(CUdeviceptr address, uint64_t size, uint64_t offset,
                      CUmemGenericAllocationHandle handle) {
  if (!is_range(address, size) || offset != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(memory_lock());
  auto known = virtual_memory().physical.find(handle);
  if (known == virtual_memory().physical.end() || known->second->references == 0 ||
      size > known->second->size)
    return CUDA_ERROR_INVALID_VALUE;
  auto reservation = reservation_around(address);
  if (reservation == virtual_memory().reservations.end() ||
      size > reservation->second - (address - reservation->first))
    return CUDA_ERROR_INVALID_VALUE;
  auto behind = virtual_memory().mappings.lower_bound(address + size);
  if (behind != virtual_memory().mappings.begin()) {
    auto before = std::prev(behind);
    if (before->first + before->second.size > address) return CUDA_ERROR_INVALID_VALUE;  // already mapped
  }
  const std::shared_ptr<Physical>& physical = known->second;
  if (::mmap(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
             virtual_memory().file.fd(), static_cast<off_t>(physical->offset)) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;  // the process has too many mappings
  ++physical->mappings;
  virtual_memory().mappings[address] = {size, physical, next_allocation_id()};
  return CUDA_SUCCESS;
}

CUresult unmap_physical(CUdeviceptr address, uint64_t size) {
  if (!is_range(address, size)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(memory_lock());
  auto one = exact_mappings(address, size);
  if (one == virtual_memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  for (AccessTable* table : access_tables())
    if (table) table->set(address, size, 0);
  empty_memory(address, size, MAP_FIXED);
  while (one != virtual_memory().mappings.end() && one->first < address + size) {
    const std::shared_ptr<Physical> physical = one->second.physical;
    one = virtual_memory().mappings.erase(one);
    --physical->mappings;
    drop_if_unused(physical);
  }
  return CUDA_SUCCESS;
}

CUresult set_mapped_access(CUdeviceptr address, uint64_t size, int device, unsigned flags) {
  if (!is_range(address, size)) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
      flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(memory_lock());
  AccessTable* table = access_table(device);
  if (!table) return CUDA_ERROR_INVALID_DEVICE;
  if (exact_mappings(address, size) == virtual_memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  table->set(address, size, static_cast<uint8_t>(flags));
  return CUDA_SUCCESS;
}

CUresult get_mapped_access(CUdeviceptr address, int device, unsigned* flags) {
  std::lock_guard lock(memory_lock());
  AccessTable* table = access_table(device);
  if (!table) return CUDA_ERROR_INVALID_DEVICE;
  if (mapping_around(address) == virtual_memory().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  *flags = table->at(address) & (AccessTable::kRead | AccessTable::kWrite);
  return CUDA_SUCCESS;
}

bool virtual_contains(uint64_t address) {
  std::lock_guard lock(memory_lock());
  return reservation_around(address) != virtual_memory().reservations.end();
}

bool virtual_allows(int device, uint64_t address, uint64_t size, bool write) {
  std::lock_guard lock(memory_lock());
  const AccessTable* table = access_table(device);
  const uint8_t wanted = write ? AccessTable::kWrite : AccessTable::kRead;
  for (uint64_t at = address; at < address + size; at = (at / kPage + 1) * kPage)
    if (!table || !(table->at(at) & wanted)) return false;
  return true;
}

std::optional<Allocation> mapping_at(uint64_t address) {
  auto mapping = mapping_around(address);
  if (mapping == virtual_memory().mappings.end()) return std::nullopt;
  Allocation made;
  made.begin = mapping->first;
  made.size = mapping->second.size;
  made.kind = MemoryKind::kVirtual;
  made.device = mapping->second.physical->properties.location.id;
  made.id = mapping->second.id;
  return made;
}

}  // namespace cropdl::device
