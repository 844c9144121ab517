// State records: what set-state calls leave, each a recipe without an object, in the list of what it belongs
// to. Within the folder; under family_lock.
#pragma once

#include "interpose/one_abi/state.h"

namespace cropdl::one_abi {

inline constexpr uint64_t kEndsWith = 0;  // instead of what is set: owner[2] is a child's handle

// A new record in the list, whose first is *list (a Handle in 64 or 32 bits).
handles::Handle add_record(uint64_t* list, uint32_t maker, uint64_t what, uint64_t key,
                           const RecipeWriter& recipe, int device, handles::Handle of);
void drop_record(handles::Handle record);
void drop_states_of(uint64_t* list);                           // all records of a list
void drop_states_of_gone(std::vector<handles::Handle>& gone);  // Tables::free's
void drop_states_until(handles::Handle ended);                 // those that name it as what they last until
// `device`: which is current when the call is made again. `of`: whose state it is; it does not hold on to
// that.
bool give_recipe(handles::Handle h, const RecipeWriter& recipe, int device, handles::Handle of);
void note_unsaved(uint32_t maker, const char* why);
void rebind(handles::Handle h, uint64_t real);
bool restarted();                               // the family came with an image
void make_state_again(handles::Handle record);  // not under the lock

}  // namespace cropdl::one_abi
