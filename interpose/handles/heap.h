// The persistent heap: memory in the upper half's window whose contents images save and whose code lies in
// the lower half. Handle tables, recipes, counters and drained messages live in it. Its mapping (from
// kHeapBegin, private, anonymous, without reserve) is begun by the loader, or made by the restorer, and grows
// (heap_step.h): addresses are stable, so raw addresses of blocks may be stored in blocks; addresses of the
// LH may not.
//
// LH only, LH FS base, any thread (one spin lock, held for a few instructions; small blocks make no system
// call).
#pragma once

#include <cstddef>
#include <cstdint>

namespace cropdl::handles {

// A library of the lower half (by its number, which is for ever) has two root objects in the heap: one of its
// own, and its handle tables. Append-only: images hold these numbers.
inline constexpr unsigned kLibraries = 16;
enum Root : unsigned { kRootState, kRootTables, kRoots };

void heap_format();        // a fresh heap in zero-filled memory
const char* heap_check();  // after a restore, before anything else: nullptr, or why this heap can not be used

// Zero-filled, 16-byte aligned; never fails except when 60 GiB, or what ulimit -v allows, are used up (then
// nullptr). Blocks above 2 KiB are whole pages; freeing one gives its pages back to the kernel.
void* heap_allocate(size_t bytes);
void heap_free(void* block);  // nullptr is allowed

// Address space that is never freed (tables that grow in place). Only touched pages exist.
void* heap_reserve(size_t bytes);

uint64_t heap_root(unsigned library, Root root);  // address of the root object, 0: none yet
void heap_set_root(unsigned library, Root root, void* object);
uint64_t heap_blocks();  // allocated and not freed

}  // namespace cropdl::handles
