// The persistent heap, in the upper half's window: handle tables, recipes, counters, drained messages. Images
// save its contents; its code is in the lower half. The loader maps its beginning, or the restorer maps what
// the image holds (from kHeapBegin, private, anonymous, without reserve); then it grows. Blocks may store
// addresses of blocks, which are stable, but not addresses of the LH. LH only, LH FS base, any thread. One
// spin lock, held for a few instructions. Small blocks make no system call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cropdl::handles {

// Each library has two root objects, its state and its handle tables. Images hold the numbers: append-only.
inline constexpr unsigned kLibraries = 16;
enum Root : unsigned { kRootState, kRootTables, kRoots };

// The loader maps the first step, the heap more as it grows: ulimit -v and strict overcommit count it all.
inline constexpr size_t kHeapStep = 64 << 20;

void heap_format();  // makes an empty heap in zero-filled memory
// After a restore: whether there is a heap to check. Images of builds without libraries hold none.
bool heap_exists();
// Call first after a restore. Returns nullptr, or why this heap cannot be used.
const char* heap_check();

// Returns zero-filled memory, 16-byte aligned. Returns nullptr only when 60 GiB, or the limit of ulimit -v,
// are used up. Blocks above 2 KiB are whole pages; freeing one returns all but its first page to the kernel.
void* heap_allocate(size_t bytes);
void heap_free(void* block);  // nullptr is allowed

// Returns address space that is never freed (tables that grow in place). Only touched pages use memory.
void* heap_reserve(size_t bytes);

uint64_t heap_root(unsigned library, Root root);  // address of the root object, 0: none yet
void heap_set_root(unsigned library, Root root, void* object);
uint64_t heap_blocks();  // number of blocks allocated and not freed

}  // namespace cropdl::handles
