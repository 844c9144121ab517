// Entries of functions that are running code, replaced by jumps. Either half, or any program. Any thread,
// also before libc's own constructors; nobody else may be in the function meanwhile (nobody is: its object
// was just loaded).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cropdl {

// Whether that many bytes from there on may be overwritten: `own` bytes are the function's, after them only
// what pads it.
bool has_room(const unsigned char* code, size_t own, size_t needed);

struct Patch {
  unsigned char* entry;
  void* const* slot;  // where the function goes from now on: read at each call
};
constexpr size_t kPatchBytes = 12;
// Each entry becomes `mov $slot, %rax; jmp *(%rax)`: the callee finds its slot in %rax, which carries no
// argument of a function without `...`, so that the first call can find the function. False: the pages cannot
// be written to.
bool write_patches(const std::vector<Patch>& patches);

// The slot of a patched entry; null: it is not patched.
void* const* slot_of(const unsigned char* entry);

constexpr size_t kJumpBytes = 14;
// `jmp *0(%rip)` with the target behind it: no register changes.
bool write_jump(unsigned char* entry, void (*target)());

}  // namespace cropdl
