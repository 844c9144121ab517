// Return addresses beyond that of the call itself: what tells apart the calls of a function of the program
// that makes its collectives in several places (docs/boundaries.md, "Tokens"). A frame's layout at a return
// address never changes, so it is read once, from the unwind tables (.eh_frame) of its object, and kept in a
// table. After that a step outwards costs a comparison and two loads. LH, LH FS base, on the thread that
// calls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace cropdl::boundaries {

// How to step out of the frame whose call returns to `at`.
struct alignas(32) FrameRule {
  volatile uint64_t at = 0;
  // The CFA (the caller's stack pointer behind the return) is so many bytes above the stack pointer, or above
  // rbp; 0: unknown.
  int32_t above_sp = 0, above_bp = 0;
  // The caller's rbp is saved so many bytes below the CFA; 0: it is unchanged; below 0: it is lost.
  int32_t saved_bp = 0;
};

// Frames that are larger are not stepped out of.
inline constexpr int32_t kLargestFrame = 1 << 20;

// Reads the rule for a call that returns to `site`, from the sorted table of unwind entries (.eh_frame_hdr)
// of the object that contains it. A rule without a CFA: the table does not tell, or with an expression.
FrameRule read_rule(uint64_t site, uint64_t eh_frame_hdr);

// Returns the address of a function that the program's libraries export; 0: none. Set by the host before the
// program runs.
inline uint64_t (*program_symbol)(const char* name) = nullptr;

struct FrameRules {
  static constexpr size_t kRules = 4096;
  static constexpr size_t slot_of(uint64_t site) { return (site ^ site >> 12) % kRules; }
  // The known rule, or the one that is then read and kept. For a site that finds no room: an empty one.
  const FrameRule& find(uint64_t site);
  // Null: not known yet.
  const FrameRule* known(uint64_t site) const {
    const FrameRule& rule = rules[slot_of(site)];
    const bool is_its = rule.at == site;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // x86-64 keeps the order of loads
    return is_its ? &rule : nullptr;
  }
  std::array<FrameRule, kRules> rules;

 private:
  // .eh_frame_hdr of the object that contains the site; 0: unknown.
  uint64_t unwind_tables_at(uint64_t site);
  std::optional<uint64_t> find_object;  // a function of the program's; 0: it has none
};
extern FrameRules frame_rules;

// The state of a thread as a call returns.
struct Frame {
  uint64_t site, sp, bp;  // the return address; the stack pointer behind it; the caller's rbp
};

// `pushed`: the rbp that a function with a frame pointer has pushed, below its return address.
inline Frame frame_of(const uint64_t* pushed) {
  return {pushed[1], reinterpret_cast<uint64_t>(pushed + 2), pushed[0]};
}

// Steps to the caller's caller, by the rule of f->site. False: unknown.
inline bool step_out(const FrameRule& rule, Frame* f) {
  uint64_t cfa = f->sp + static_cast<uint64_t>(rule.above_sp);
  if (__builtin_expect(rule.above_sp == 0, 0)) {
    cfa = f->bp + static_cast<uint64_t>(rule.above_bp);
    if (rule.above_bp == 0 || cfa - f->sp >= kLargestFrame || cfa % 8 != 0) return false;
  }
  f->site = reinterpret_cast<const uint64_t*>(cfa)[-1];
  if (rule.saved_bp > 0)
    f->bp = *reinterpret_cast<const uint64_t*>(cfa - static_cast<uint64_t>(rule.saved_bp));
  if (__builtin_expect(rule.saved_bp < 0, 0)) f->bp = 0;
  f->sp = cfa;
  return true;
}

}  // namespace cropdl::boundaries
