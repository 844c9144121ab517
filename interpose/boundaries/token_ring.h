// Tokens of the collectives that the program's threads begin, for the agent's thread to read
// (docs/boundaries.md). LH, LH FS base. Writing is inline: a few loads and stores, no lock or allocation;
// system calls only at a new call site.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "interpose/boundaries/frame_rules.h"
#include "interpose/seam/layout.h"

namespace cropdl::boundaries {

struct Token {
  volatile uint64_t number;  // position + 1; 0 while it is written
  volatile uint64_t call;    // library and function (kFn_...): call_of
  volatile uint64_t what;    // hash of count and datatype, if the function has them
  // The communicator's, from its counting::Record; 0: no other members.
  volatile uint64_t identity;
  volatile uint64_t begun;   // collectives begun there by this rank, with this one
  volatile uint64_t caller;  // return address in the program; 0: unknown
  volatile uint64_t outer;   // return address of the function that calls; 0: unknown
  volatile uint64_t stack;   // hash of the depth of the stack and of the next return address
};
static_assert(sizeof(Token) == 64);

struct alignas(64) TokenRing {
  static constexpr uint64_t kTokens = 8192;
  volatile uint64_t written;  // tokens ever written
  Token tokens[kTokens];
};
extern TokenRing ring;

constexpr uint64_t call_of(seam::LibraryNumber library, unsigned function) {
  return static_cast<uint64_t>(library) << 32 | function;
}
constexpr uint32_t library_of(uint64_t call) { return static_cast<uint32_t>(call >> 32); }
// Marks functions that make communicators or other objects (also MPI_Init). They count on their communicator
// but are no call of a loop: libraries make objects where they are first called.
constexpr unsigned kMakesObjects = 1u << 31;
constexpr uint32_t function_of(uint64_t call) { return static_cast<uint32_t>(call) & (kMakesObjects - 1); }
inline uint64_t what_of(uint64_t count, uint64_t type) { return count * 0x9e37'79b9'7f4a'7c15 + type; }

constexpr uint64_t depth_and(uint64_t stack, uint64_t site) { return (stack ^ site) * 0x9e37'79b9'7f4a'7c15; }

// Completes a token whose program called from the function with this frame, by rules of any kind, which may
// have to be read.
void note_callers_slowly(Token* t, const uint64_t* frame, uint64_t number);

// The same if the rules are known and both frames are a compiler's usual ones, of one kind; false: nothing
// was done.
__attribute__((always_inline)) inline bool note_callers_quickly(Token* t, const uint64_t* frame) {
  const auto left = reinterpret_cast<uint64_t>(frame);
  const uint64_t caller = frame[1];
  const int32_t usual = frame_rules.usual(caller);
  uint64_t at, beyond;  // of the return addresses
  if (__builtin_expect(usual > 0, 1)) {
    at = left + 2 * sizeof *frame + static_cast<uint32_t>(usual);
    const int32_t next = frame_rules.usual(*reinterpret_cast<const uint64_t*>(at));
    if (__builtin_expect(next <= 0, 0)) return false;
    beyond = at + sizeof *frame + static_cast<uint32_t>(next);
  } else {
    const uint64_t pointer = frame[0];
    if (usual != FrameRule::kByFramePointer || !may_be_caller(pointer, left)) return false;
    at = pointer + sizeof *frame;
    const uint64_t further = *reinterpret_cast<const uint64_t*>(pointer);
    if (frame_rules.usual(*reinterpret_cast<const uint64_t*>(at)) != FrameRule::kByFramePointer ||
        !may_be_caller(further, pointer))
      return false;
    beyond = further + sizeof *frame;
  }
  t->caller = caller;
  t->outer = *reinterpret_cast<const uint64_t*>(at);
  t->stack = depth_and(left, *reinterpret_cast<const uint64_t*>(beyond));
  return true;
}

// Completes the token with where the program made the call, and then its number: the shim's function has left
// the address of its frame, which is on this stack, for one token. (In an image of an older build, it has
// left its return address.) `reads`: false for a token of which nobody reads that, and whose shim may have
// left nothing.
__attribute__((always_inline)) inline void note_callers(Token* t, bool reads, uint64_t number) {
  uint64_t left, stack;
  __asm__ volatile("movq %%gs:%c1, %0" : "=r"(left) : "i"(offsetof(seam::ThreadRecord, caller)));
  __asm__ volatile("movq $0, %%gs:%c0" ::"i"(offsetof(seam::ThreadRecord, caller)) : "memory");
  __asm__ volatile("movq %%rsp, %0" : "=r"(stack));
  if (__builtin_expect(!reads || left - stack >= kLargestFrame, 0)) {
    t->caller = left;
    t->outer = 0;
    t->stack = stack;
  } else if (const auto* frame = reinterpret_cast<const uint64_t*>(left);
             __builtin_expect(!note_callers_quickly(t, frame), 0)) {
    return note_callers_slowly(t, frame, number);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);  // x86-64 keeps the order of stores
  t->number = number;
}

// Writes a token, after the call is counted. `identity` and `begun` are its record's, 0 if nothing is
// counted. `several`: more than one thread may write.
__attribute__((always_inline)) inline void note(uint64_t call, uint64_t what, uint64_t identity,
                                                uint64_t begun, bool several) {
  uint64_t at;
  if (__builtin_expect(several, 0)) {
    at = __atomic_fetch_add(&ring.written, 1, __ATOMIC_RELAXED);
  } else {
    at = ring.written;
    ring.written = at + 1;
    // The ring is larger than the first-level cache. (Processors without the instruction do nothing.)
    __asm__ volatile("prefetchw %0" : : "m"(ring.tokens[(at + 1) % TokenRing::kTokens]));
  }
  Token& t = ring.tokens[at % TokenRing::kTokens];
  t.number = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t.call = call;
  t.what = what;
  t.identity = identity;
  t.begun = begun;
  note_callers(&t, (call & kMakesObjects) == 0, at + 1);
}

}  // namespace cropdl::boundaries
