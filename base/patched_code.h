// Replaces the entries of loaded functions with jumps. Either half, or any program; any thread, also before
// libc's constructors. No thread may be executing the function; none is, since its object was just loaded.
#pragma once

#include <cstddef>
#include <vector>

namespace cropdl {

// Whether `needed` bytes at `code` may be overwritten: `own` bytes are the function's, only padding follows.
bool has_room(const unsigned char* code, size_t own, size_t needed);

// Returns whether the function at `code` does nothing, and `needed` bytes of it may be overwritten. Compilers
// begin it with endbr64 (-fcf-protection), and set up a frame (-fno-omit-frame-pointer).
bool is_empty_function(const unsigned char* code, size_t needed);

struct Patch {
  unsigned char* entry;
  void* const* slot;  // holds the new target; read at each call
};
constexpr size_t kPatchBytes = 12;
// Makes each entry `mov $slot, %rax; jmp *(%rax)`. The callee finds its slot in %rax, so the first call can
// look up the function; %rax carries no argument without `...`. False: the pages cannot be written to.
bool write_patches(const std::vector<Patch>& patches);

// Returns the slot of a patched entry; null if it is not patched.
void* const* slot_of(const unsigned char* entry);

constexpr size_t kJumpBytes = 14;
// Writes `jmp *0(%rip)` followed by the target; changes no register.
bool write_jump(unsigned char* entry, void (*target)());

}  // namespace cropdl
