// What the family keeps in the persistent heap beside its handle tables. Images hold it: append-only.
// LH, any thread, under `family_lock`.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "interpose/handles/spin_lock.h"
#include "interpose/one_abi/lower.h"

namespace cropdl::one_abi {

inline constexpr uint32_t kFamilyVersion = 2;  // 1 did not note which threads have the runtime's context
inline constexpr uint32_t kMaxDevices = 64,
                          kMaxThreads = 4096;  // seam::kMaxThreads of this version, for ever
// The first kinds of every family.
inline constexpr uint32_t kStateRecord = 1, kFirstKind = 2;

// What belongs to a thread: which one by the generation of its record.
struct ThreadState {
  uint64_t states;  // Handle of the first state record
  int64_t error;    // of its last call that failed, of the library that keeps one; 0: none
  uint64_t owner;   // 1 more than that; 0: nobody's
};

struct FamilyState {
  uint32_t version;
  uint64_t library_states;              // Handles of first state records
  uint64_t device_states[kMaxDevices];  //
  uint32_t unsaved_maker;  // library << 16 | function, of which mark_unsaved spoke first; 0: none
  char unsaved_why[252];   //
  uint64_t texts;          // list of kept texts
  uint64_t members[32];    // addresses of what the parts of the plug-in keep, by Member
  ThreadState threads[kMaxThreads];
};
enum Member : uint32_t {
  kMemberDevices,
  kMemberMemory,
  kMemberNccl,
  kMemberThreads,
  kMemberLibraries,
  kMemberCalls = 16,   // interpose/cuda/lower/kept.h
  kMemberCurand = 17,  // interpose/cuda/lower/libraries/curand.cpp
  kMemberCode = 18,    // interpose/cuda/lower/code_order.cpp
  kMembers = 32
};

extern FamilyState* family;  // null: nothing was made yet
extern bool family_failed;   // in this run there was no room for it: real handles have gone out
extern handles::SpinLock family_lock;

// Makes both, on the family's first object; false: the heap is full. Takes the lock.
bool need_family();

inline uint32_t maker_of(const RealLibrary& library, uint32_t function) {
  return library.number << 16 | function;
}

// The arguments of the call that made it, of a slot with a recipe, in the order of writing.
inline handles::RecipeReader arguments_of(const handles::Slot& slot) {
  handles::RecipeReader from(*reinterpret_cast<const handles::Recipe*>(slot.recipe));
  (void)from.value<int64_t>();  // the device
  return from;
}

// What there is, in the order in which a restart makes it again. `libraries`: by number, null where there is
// none. START. The error names the function.
Status restore_family(const RealLibrary* const* libraries);
Status make_all_again(const RealLibrary* const* libraries);
// Why it can not be saved, or "". Any thread.
std::string family_refusal(const RealLibrary* const* libraries);
// Recipes of objects and of state, for tests and for people.
uint32_t recipe_count();

}  // namespace cropdl::one_abi
