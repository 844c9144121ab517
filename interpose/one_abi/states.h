// State records: one per setter call to repeat, each a recipe without an object, in its owner's list. Used
// within this folder; under family_lock.
#pragma once

#include "interpose/one_abi/state.h"

namespace cropdl::one_abi {

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
