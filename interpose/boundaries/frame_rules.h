// Return addresses beyond that of the call itself: what tells apart the calls of a function of the program
// that makes its collectives in several places (docs/boundaries.md, "Tokens"). How to step out of a frame
// depends on the return address alone. So the rule is read once, from the unwind tables (.eh_frame) of the
// object that contains the address, and kept; from then on a step costs a comparison and two loads.
//
// A wrong rule would read beyond the end of a stack: code without true unwind tables (a trampoline that
// switches stacks), or other code that was loaded in the same place. So a rule is kept only if it led to a
// return address when it was read, and is forgotten when it leads to none later.
//
// LH, LH FS base, on the thread that calls, also within a signal handler of the program that has interrupted
// another call here: no lock, no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cropdl::boundaries {

// How to step out of the frame whose call returns to `at`.
struct alignas(32) FrameRule {
  uint64_t at = 0;  // 0: an empty slot; kClaimed: one that is being filled
  // The CFA (the caller's stack pointer behind the return) is so many bytes above the stack pointer, or above
  // rbp; both 0: unknown.
  int32_t above_sp = 0, above_bp = 0;
  // The caller's rbp is saved so many bytes below the CFA; 0: it is unchanged; below 0: it is lost.
  int32_t saved_bp = 0;
  // What a compiler's usual frames need, by settle(): how many bytes above the stack pointer the caller's
  // return address is; kByFramePointer: behind the word that rbp points to, which is the caller's rbp.
  // 0: another rule, or in_binding.
  int32_t usual = 0;
  bool in_object = false;   // `at` is in a program or library
  bool in_binding = false;  // in one of the MPI's own (libmpi…), such as its Fortran interface

  static constexpr int32_t kByFramePointer = -1;
  void settle() {
    usual = in_binding                         ? 0
            : above_sp != 0                    ? above_sp - 8
            : above_bp == 16 && saved_bp == 16 ? kByFramePointer
                                               : 0;
  }
};
inline constexpr uint64_t kClaimed = 0x8c1a'13ed'5107'0000;  // no address; unlikely on a stack

// Frames that are larger are not stepped out of.
inline constexpr int32_t kLargestFrame = 1 << 20;

// Reads the rule for a call that returns to `site`, from the sorted table of unwind entries (.eh_frame_hdr)
// of the object that contains it. A rule without a CFA: the table does not tell, or with an expression. Pure,
// apart from reading the tables: no lock, no allocation (read_rule.cpp).
FrameRule read_rule(uint64_t site, uint64_t eh_frame_hdr);

// The state of a thread as a call returns.
struct Frame {
  uint64_t site, sp, bp;  // the return address; the stack pointer behind it; the caller's rbp
};

// `pushed`: the rbp that a function with a frame pointer has pushed, below its return address.
inline Frame frame_of(const uint64_t* pushed) {
  return {pushed[1], reinterpret_cast<uint64_t>(pushed + 2), pushed[0]};
}

// Whether an address that rbp leads to may be in the frame that is outward from `inner`.
inline bool may_be_caller(uint64_t at, uint64_t inner) { return at - inner < kLargestFrame && at % 8 == 0; }

// 0: unknown.
inline uint64_t cfa_of(const FrameRule& rule, const Frame& f) {
  if (__builtin_expect(rule.above_sp != 0, 1)) return f.sp + static_cast<uint64_t>(rule.above_sp);
  const uint64_t cfa = f.bp + static_cast<uint64_t>(rule.above_bp);
  return rule.above_bp == 0 || !may_be_caller(cfa, f.sp) ? 0 : cfa;
}

// Steps to the caller's caller, by the rule of f->site. False: unknown.
inline bool step_out(const FrameRule& rule, Frame* f) {
  const uint64_t cfa = cfa_of(rule, *f);
  if (__builtin_expect(cfa == 0, 0)) return false;
  f->site = reinterpret_cast<const uint64_t*>(cfa)[-1];
  if (rule.saved_bp > 0)
    f->bp = *reinterpret_cast<const uint64_t*>(cfa - static_cast<uint64_t>(rule.saved_bp));
  if (__builtin_expect(rule.saved_bp < 0, 0)) f->bp = 0;
  f->sp = cfa;
  return true;
}

// Returns the address of a function that the program's C library exports; 0: none. Set by the host before the
// program runs.
inline uint64_t (*c_library_symbol)(const char* name) = nullptr;

struct FrameRules {
  static constexpr size_t kRules = 4096;
  static constexpr size_t kProbes = 16;  // slots that a rule may be in
  // The first half of them are neighbours. Libraries that were built alike have calls in the same places of
  // their pages, so the other half are elsewhere.
  static constexpr size_t slot_of(uint64_t site, size_t probe) {
    constexpr int kShift = 64 - 12;
    static_assert(kRules == uint64_t{1} << (64 - kShift));
    const uint64_t first = probe < kProbes / 2 ? site : site * 0x9e37'79b9'7f4a'7c15 >> kShift;
    return (first + probe) % kRules;
  }
  // FrameRule::usual of the rule; 0 also if it is not known, or not in its first slot.
  __attribute__((always_inline)) int32_t usual(uint64_t site) const {
    const FrameRule& rule = rules[slot_of(site, 0)];
    return __atomic_load_n(&rule.at, __ATOMIC_ACQUIRE) == site
               ? __atomic_load_n(&rule.usual, __ATOMIC_RELAXED)
               : 0;
  }
  // The known rule of f.site, or the one that is then read, tried on this frame and kept. Where there is no
  // room: an empty one.
  FrameRule& find(const Frame& f);
  // To be called when a rule that had been kept led to what is no return address.
  static void forget(FrameRule& rule) {
    __atomic_store_n(&rule.usual, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&rule.above_sp, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&rule.above_bp, 0, __ATOMIC_RELAXED);
  }
  std::array<FrameRule, kRules> rules;
  uint64_t object_finder = 0;  // the program's _dl_find_object; 0: not looked for, 1: there is none
};
extern FrameRules frame_rules;

}  // namespace cropdl::boundaries
