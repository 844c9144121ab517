#include "gpu_state/software/device/memory_host.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "gpu_state/software/device/access.h"
#include "gpu_state/software/device/memory_managed.h"
#include "gpu_state/software/device/memory_state.h"

// Since Linux 5.14; missing in Debian 12's C library headers.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace cropdl::device {

namespace {

Allocation* begins_at(uint64_t address, MemoryKind kind) {
  Allocation* known = allocation_at(address);
  return known && known->begin == address && known->kind == kind ? known : nullptr;
}

CUresult allocate_common(Heap& heap, size_t size, unsigned flags, CUcontext context, int device,
                         bool of_module, uint64_t* address) {
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(memory_lock());
  Area& area = Area::get();
  if (size > area.common().end - area.common().begin) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation* made = heap.allocate(size);
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  made->context = context;
  made->device = device;
  made->flags = flags;
  made->of_module = of_module;
  area.make_fresh(made->begin, size);
  area.open(made->begin, size);
  *address = made->begin;
  return CUDA_SUCCESS;
}

CUresult release_common(Heap& heap, uint64_t address, MemoryKind kind, bool of_module) {
  std::lock_guard lock(memory_lock());
  Allocation* known = begins_at(address, kind);
  if (!known || known->of_module != of_module) return CUDA_ERROR_INVALID_VALUE;
  forget_advice(known->begin, known->size);
  heap.release(known);
  return CUDA_SUCCESS;
}

// Whether the page at that address can be read or written, tested without changing it: a futex operation that
// ORs 0 into the word (FUTEX_WAKE_OP), or one that only compares it.
bool page_allows(uint64_t address, bool write) {
  auto* word = reinterpret_cast<uint32_t*>(address & ~uint64_t{3});
  if (write) {
    static uint32_t nobody_waits;
    return ::syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_OP_PRIVATE, 0, nullptr, word,
                     FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) >= 0;
  }
  // It would wait only if the word had that value, and the timeout is zero: it returns at once.
  timespec none{0, 0};
  return ::syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &none, nullptr, 0) == 0 || errno != EFAULT;
}

// Unregisters it and returns the next entry. With the lock.
auto unregister(std::map<uint64_t, Allocation>::iterator known) {
  const uint64_t begin = known->second.begin, end = known->first;
  known = registered_memory().erase(known);
  show_registered(begin, end);
  return known;
}

// Large managed memory: separate mappings outside of the area, at addresses chosen by the system, as a
// driver's are. The list of registered memory states, to the byte, what devices may access of them.
constexpr uint64_t kLargeManaged = uint64_t{32} << 20;

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// A multiple of kPage; 0: no room.
uint64_t map_anywhere(uint64_t size) {
  void* got = ::mmap(nullptr, size + kPage, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return 0;
  const auto first = reinterpret_cast<uint64_t>(got);
  const uint64_t begin = (first + kPage - 1) / kPage * kPage;
  if (begin > first) ::munmap(got, begin - first);
  ::munmap(pointer(begin + size), first + kPage - begin);
  return begin;
}

// Adds it to the list of registered memory. With the lock.
void enlist(MemoryKind kind, uint64_t begin, uint64_t size, unsigned flags, CUcontext context, int device) {
  Allocation made;
  made.begin = begin;
  made.size = size;
  made.kind = kind;
  made.device = device;
  made.context = context;
  made.flags = flags;
  made.id = next_allocation_id();
  registered_memory()[begin + size] = made;
  show_registered(begin, begin + size);
}

// Takes the lock.
CUresult allocate_large_managed(uint64_t size, unsigned flags, CUcontext context, int device,
                                CUdeviceptr* address) {
  MemoryState& state = memory_state();
  std::lock_guard lock(memory_lock());
  if (size > state.managed_budget.total) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t whole = pages_for(size) * kPage;
  if (!state.managed_budget.charge(whole)) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t begin = map_anywhere(whole);
  if (begin == 0) {
    state.managed_budget.credit(whole);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Area::get().make_fresh(begin, size);
  enlist(MemoryKind::kManaged, begin, size, flags, context, device);
  *address = begin;
  return CUDA_SUCCESS;
}

// With the lock.
std::map<uint64_t, Allocation>::iterator release_large_managed(
    std::map<uint64_t, Allocation>::iterator known) {
  MemoryState& state = memory_state();
  const uint64_t begin = known->second.begin, size = known->second.size;
  const uint64_t whole = pages_for(size) * kPage;
  forget_advice(begin, size);
  const auto next = registered_memory().erase(known);
  show_registered(begin, begin + size);
  ::munmap(pointer(begin), whole);
  state.managed_budget.credit(whole);
  return next;
}

// Takes the lock. False: not the beginning of large managed memory.
bool release_large_managed(CUdeviceptr address) {
  std::lock_guard lock(memory_lock());
  const Allocation* known = large_managed_at(address);
  if (!known || known->begin != address) return false;
  release_large_managed(registered_memory().find(known->begin + known->size));
  return true;
}

}  // namespace

bool host_allows(uint64_t address, uint64_t size, bool write) {
  if (size == 0) return true;
  uint64_t end = 0;
  if (__builtin_add_overflow(address, size, &end) || end > uint64_t{1} << 47) return false;
  const uint64_t first = address & ~(kHostPage - 1);
  const uint64_t pages = (end - first + kHostPage - 1) / kHostPage;
  constexpr uint64_t kFew = 4;
  if (pages > kFew && ::madvise(reinterpret_cast<void*>(first), pages * kHostPage,
                                write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
    return true;
  // Unmapped, or memory that cannot be populated: tests each page.
  for (uint64_t page = first; page < end; page += kHostPage)
    if (!page_allows(std::max(page, address), write)) return false;
  return true;
}

CUresult allocate_pinned(size_t size, unsigned flags, CUcontext context, int device, void** address) {
  uint64_t at = 0;
  const CUresult result = allocate_common(memory_state().pinned, size, flags, context, device, false, &at);
  if (result == CUDA_SUCCESS) *address = reinterpret_cast<void*>(at);
  return result;
}

CUresult release_pinned(void* address) {
  return release_common(memory_state().pinned, reinterpret_cast<uint64_t>(address), MemoryKind::kPinned,
                        false);
}

CUresult allocate_managed(size_t size, unsigned flags, CUcontext context, int device, CUdeviceptr* address,
                          bool of_module) {
  if (size >= kLargeManaged && !of_module)
    return allocate_large_managed(size, flags, context, device, address);
  uint64_t at = 0;
  const CUresult result =
      allocate_common(of_module ? memory_state().managed_of_modules : memory_state().managed, size, flags,
                      context, device, of_module, &at);
  if (result == CUDA_SUCCESS) *address = at;
  return result;
}

CUresult release_managed(CUdeviceptr address, bool of_module) {
  if (!of_module && release_large_managed(address)) return CUDA_SUCCESS;
  return release_common(of_module ? memory_state().managed_of_modules : memory_state().managed, address,
                        MemoryKind::kManaged, of_module);
}

CUresult register_host(void* address, size_t size, unsigned flags, CUcontext context, int device) {
  const auto begin = reinterpret_cast<uint64_t>(address);
  uint64_t end = 0;
  if (size == 0 || !begin || __builtin_add_overflow(begin, size, &end)) return CUDA_ERROR_INVALID_VALUE;
  if (Area::get().contains(begin)) {
    std::lock_guard lock(memory_lock());
    const Allocation* known = allocation_at(begin);
    return known && known->kind == MemoryKind::kPinned && begin - known->begin < known->size
               ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
               : CUDA_ERROR_INVALID_VALUE;
  }
  if (!host_allows(begin, size, (flags & CU_MEMHOSTREGISTER_READ_ONLY) == 0)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(memory_lock());
  auto& all = registered_memory();
  auto next = all.upper_bound(begin);
  if (next != all.end() && next->second.begin < end)
    return next->second.kind == MemoryKind::kManaged ? CUDA_ERROR_INVALID_VALUE
                                                     : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  enlist(MemoryKind::kRegistered, begin, size, flags, context, device);
  return CUDA_SUCCESS;
}

CUresult unregister_host(void* address) {
  const auto begin = reinterpret_cast<uint64_t>(address);
  std::lock_guard lock(memory_lock());
  auto known = registered_memory().upper_bound(begin);
  if (known == registered_memory().end() || known->second.begin != begin ||
      known->second.kind != MemoryKind::kRegistered)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  unregister(known);
  return CUDA_SUCCESS;
}

void unregister_all(CUcontext context) {
  auto& all = registered_memory();
  for (auto one = all.begin(); one != all.end();) {
    if (one->second.context != context)
      ++one;
    else
      one = one->second.kind == MemoryKind::kManaged ? release_large_managed(one) : unregister(one);
  }
}

}  // namespace cropdl::device
