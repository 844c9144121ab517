#include "base/patched_code.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/page.h"

namespace cropdl {
namespace {

// The bytes before and after the slot's address: mov $slot, %rax; jmp *(%rax).
constexpr unsigned char kMove[] = {0x48, 0xb8}, kJump[] = {0xff, 0x20};
static_assert(sizeof kMove + sizeof(void*) + sizeof kJump == kPatchBytes);

// Makes the pages of [first, last) writable for its lifetime, still executable: other code there may run.
class Writable {
 public:
  Writable(uintptr_t first, uintptr_t last)
      : at_(reinterpret_cast<void*>(page_down(first))),
        size_(page_up(last) - page_down(first)),
        is_(mprotect(at_, size_, PROT_READ | PROT_WRITE | PROT_EXEC) == 0) {}
  ~Writable() {
    if (is_) mprotect(at_, size_, PROT_READ | PROT_EXEC);
  }
  Writable(const Writable&) = delete;
  explicit operator bool() const { return is_; }

 private:
  void* at_;
  size_t size_;
  bool is_;
};

// Returns the length of the padding no-operation at `code`; 0 if there is none. (Intel's manual, "NOP"; GNU
// as pads with 66 … 2e 0f 1f 84 00 00 00 00 00.)
size_t no_operation(const unsigned char* code) {
  if (code[0] == 0x90 || code[0] == 0xcc) return 1;
  size_t at = 0;
  while (at < 8 && (code[at] == 0x66 || code[at] == 0x2e)) at++;
  if (code[at] == 0x90) return at + 1;
  if (code[at] != 0x0f || code[at + 1] != 0x1f) return 0;
  constexpr struct {
    unsigned char operand, length;
  } kForms[] = {{0x00, 3}, {0x40, 4}, {0x44, 5}, {0x80, 7}, {0x84, 8}};
  for (const auto& form : kForms)
    if (code[at + 2] == form.operand) return at + form.length;
  return 0;
}

}  // namespace

bool has_room(const unsigned char* code, size_t own, size_t needed) {
  size_t at = own;
  while (at < needed) {
    size_t length = no_operation(code + at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

bool is_empty_function(const unsigned char* code, size_t needed) {
  constexpr unsigned char kEndbr64[] = {0xf3, 0x0f, 0x1e, 0xfa}, kReturn = 0xc3;
  constexpr unsigned char kFrame[] = {0x55, 0x48, 0x89, 0xe5, 0x5d};  // push %rbp; mov %rsp, %rbp; pop %rbp
  size_t at = 0;
  if (memcmp(code, kEndbr64, sizeof kEndbr64) == 0) at += sizeof kEndbr64;
  if (memcmp(code + at, kFrame, sizeof kFrame) == 0) at += sizeof kFrame;
  return code[at] == kReturn && has_room(code, at + 1, needed);
}

bool write_patches(const std::vector<Patch>& patches) {
  if (patches.empty()) return true;
  auto by_entry = [](const Patch& a, const Patch& b) { return a.entry < b.entry; };
  auto [first, last] = std::minmax_element(patches.begin(), patches.end(), by_entry);
  Writable pages(reinterpret_cast<uintptr_t>(first->entry),
                 reinterpret_cast<uintptr_t>(last->entry) + kPatchBytes);
  if (!pages) return false;
  for (const Patch& patch : patches) {
    std::memcpy(patch.entry, kMove, sizeof kMove);
    std::memcpy(patch.entry + sizeof kMove, &patch.slot, sizeof patch.slot);
    std::memcpy(patch.entry + sizeof kMove + sizeof patch.slot, kJump, sizeof kJump);
  }
  return true;
}

void* const* slot_of(const unsigned char* entry) {
  void* const* slot = nullptr;
  if (std::memcmp(entry, kMove, sizeof kMove) != 0 ||
      std::memcmp(entry + sizeof kMove + sizeof slot, kJump, sizeof kJump) != 0)
    return nullptr;
  std::memcpy(&slot, entry + sizeof kMove, sizeof slot);
  return slot;
}

bool write_jump(unsigned char* entry, void (*target)()) {
  auto at = reinterpret_cast<uintptr_t>(entry);
  Writable pages(at, at + kJumpBytes);
  if (!pages) return false;
  unsigned char code[kJumpBytes] = {0xff, 0x25, 0, 0, 0, 0};
  std::memcpy(code + 6, &target, sizeof target);
  std::memcpy(entry, code, sizeof code);
  return true;
}

}  // namespace cropdl
