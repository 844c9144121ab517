// The family's data in the persistent heap, besides its handle tables. Images contain it: append only. LH,
// any thread, under `family_lock`.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "interpose/handles/spin_lock.h"
#include "interpose/one_abi/lower.h"

namespace cropdl::one_abi {

inline constexpr uint32_t kFamilyVersion = 2;  // 1 did not record which threads have the runtime's context
inline constexpr uint32_t kMaxDevices = 64,
                          kMaxThreads = 4096;  // seam::kMaxThreads of this version; fixed
// The first kinds of every family.
inline constexpr uint32_t kStateRecord = 1, kFirstKind = 2;

// State of one thread.
struct ThreadState {
  uint64_t states;  // Handle of the first state record
  int64_t error;    // of the thread's last failed call, for a library that keeps it; 0: none
  uint64_t owner;   // generation of the thread's record + 1; 0: no thread
};

struct FamilyState {
  uint32_t version;
  uint64_t library_states;              // Handle of the first state record
  uint64_t device_states[kMaxDevices];  // the same, by device
  uint32_t unsaved_maker;               // maker_of() + 1 of the first mark_unsaved; 0: none
  char unsaved_why[252];                // its reason
  uint64_t texts;                       // list of kept texts
  uint64_t members[32];                 // addresses of the data of the family's parts, by Member
  ThreadState threads[kMaxThreads];
};
enum Member : uint32_t {
  kMemberDevices,
  kMemberMemory,
  kMemberNccl,
  kMemberThreads,
  kMemberLibraries,
  kMemberCalls = 16,        // interpose/cuda/lower/kept.h
  kMemberCurand = 17,       // interpose/cuda/lower/libraries/curand.cpp
  kMemberCode = 18,         // interpose/cuda/lower/code_order.cpp
  kMemberEnvironment = 19,  // interpose/cuda/lower/environment.cpp
  kMembers = 32
};

extern FamilyState* family;  // null: no object was made yet
extern bool family_failed;   // the heap had no room for what is kept of it: no checkpoints of this run
extern handles::SpinLock family_lock;

// Creates state and handle tables at the family's first object; false: the heap is full. Takes the lock.
bool need_family();

inline uint32_t maker_of(const RealLibrary& library, uint32_t function) {
  return library.number << 16 | function;
}

// Reads a slot's recipe, which it must have: the arguments of the call that made the object, as written.
inline handles::RecipeReader arguments_of(const handles::Slot& slot) {
  handles::RecipeReader from(*reinterpret_cast<const handles::Recipe*>(slot.recipe));
  (void)from.value<int64_t>();  // the device
  return from;
}

// restore_family attaches to the image's data; make_all_again makes all objects and state again.
// `libraries`: by number, null entries for absent libraries. START. The error names the function.
Status restore_family(const RealLibrary* const* libraries);
Status make_all_again(const RealLibrary* const* libraries);
// Why the family cannot be saved, or "". Any thread.
std::string family_refusal(const RealLibrary* const* libraries);
// The number of recipes of objects and of state.
uint32_t recipe_count();

}  // namespace cropdl::one_abi
