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
};

inline FamilyState* family = nullptr;  // null: no object was made yet
inline bool family_failed = false;  // the heap had no room for what is kept of it: no checkpoints of this run
inline handles::SpinLock family_lock;

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

// --- Within this folder, under family_lock. A state record is one setter call to repeat: a recipe without an
// object, in its owner's list.
inline constexpr uint64_t kEndsWith = 0;  // value of `what` for a child: owner[2] is the child's handle

// Adds a record to the list whose first record is *list (a Handle).
handles::Handle add_record(uint64_t* list, uint32_t maker, uint64_t what, uint64_t key,
                           const RecipeWriter& recipe, int device, handles::Handle of);
// The place in a list of the first record that is `wanted`; nullptr: there is none.
template <class F>
uint64_t* find_record(uint64_t* list, F wanted) {
  for (uint64_t* at = list; *at;) {
    handles::Slot& record = *tables->slot(static_cast<handles::Handle>(*at));
    if (wanted(record)) return at;
    at = &record.owner[0];
  }
  return nullptr;
}
void take_out(uint64_t* at);                                   // removes the record at this place
void drop_states_of(uint64_t* list);                           // all records of a list
void drop_states_of_gone(std::vector<handles::Handle>& gone);  // Tables::free's
void drop_states_until(handles::Handle ended);                 // records whose `until` is the object
// `device`: current when the call is repeated. `of`: the state's owner, which does not become a dependency.
bool give_recipe(handles::Handle h, const RecipeWriter& recipe, int device, handles::Handle of);
void note_unsaved(uint32_t maker, const char* why);
uint32_t uncertain_maker();  // of a record with kUncertain, + 1; 0: there is none
void rebind(handles::Handle h, uint64_t real);
void make_state_again(handles::Handle record);  // not under the lock

}  // namespace cropdl::one_abi
