// What the generated lower half of a library with one ABI (interpose/gen/one_abi) is made of: the real
// library's functions, found when they are first called; virtual handles; recipes. LH, LH FS base, a thread
// of the program, if nothing else is said.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "interpose/handles/table.h"
#include "interpose/one_abi/held.h"
#include "interpose/one_abi/kinds.h"
#include "interpose/one_abi/recipe.h"
#include "interpose/seam/layout.h"

namespace cropdl::one_abi {

// --- The real library.
// ---------------------------------------------------------------------------------------

// One of the family, as the generator writes it down. What makes an object or a state again by its recipe is
// an entry of `again`: the library's result code, 0 for success; null: such a call has no recipe.
using AgainFunction = int64_t (*)(Again&);
struct RealLibrary {
  const char* name;    // "cudart"
  const char* soname;  // "libcudart.so.13"
  uint32_t number;     // seam::LibraryNumber
  uint32_t count;
  const char* const* names;  // of its functions
  void** functions;          // of this process, null as long as nobody called
  void* missing;             // in the place of one that the real library lacks: returns an error
  const AgainFunction* again;
  const char* answers;  // of each function: 'c' the library's code, 't' a text, else something that zeros are
};
// In the place of those that answer no code.
inline const char* missing_text() { return "the library that is installed here does not have this function"; }
inline int64_t missing_value() { return 0; }

// The address of a function; `missing`, after a line for people, if there is none. Takes a lock.
void* find_function(const RealLibrary& library, uint32_t function);

template <class F>
inline F* function_of(const RealLibrary& library, uint32_t function) {
  void* found = __atomic_load_n(&library.functions[function], __ATOMIC_RELAXED);
  if (__builtin_expect(!found, 0)) found = find_function(library, function);
  return reinterpret_cast<F*>(found);
}

// --- A call: what it begins with. --------------------------------------------------------------------------

// The thread's part of a library: what a restart must make true again before the thread's first call.
struct ThreadMark {
  seam::ThreadRecord* record;  // of the thread that this LH thread lends its FS base to
  uint64_t generation;
  bool settled;  // what calls that are not about it may give a thread (settle_thread), it has and it is kept
};
extern thread_local constinit ThreadMark thread_mark;
void begin_thread(bool chooses);  // makes it so
void settle_thread();             // looks whether it has come to that

class Call {
 public:
  // `chooses`: it chooses the thread's device, so that it does not matter which one the thread has.
  explicit Call(bool chooses = false) {
    seam::ThreadRecord* record;
    __asm__ volatile("mov %%gs:0, %0" : "=r"(record));
    record->in_device_call = 1;
    if (__builtin_expect(thread_mark.record != record || thread_mark.generation != record->generation, 0))
      begin_thread(chooses), first_ = true;
  }
  ~Call() {
    if (__builtin_expect(!thread_mark.settled, 0)) settle_thread();
    thread_mark.record->in_device_call = 0;
  }
  Call(const Call&) = delete;
  bool is_first() const { return first_; }  // of this thread

 private:
  bool first_ = false;
};

// Which device is current in the calling thread, and another one: the family's. Devices of objects and of
// state that are made again. Calls of the library: not under family_lock.
extern int (*current_device)();
extern bool (*make_current)(int device);
// What the calling thread of the library holds becomes that of a thread which has called nothing yet.
extern void (*make_fresh)(bool chooses);
// Whether a call has given the calling thread what the library gives by itself (a context); keeps it then.
extern bool (*has_settled)();

// The library said so: its threads' last errors outlive it.
void note_error(const RealLibrary& library, int64_t code);
extern std::atomic<uint64_t> errors_noted;  // by all threads of this run
int64_t noted_error(bool forget);           // of the calling thread; 0: none

// --- Handles.
// ------------------------------------------------------------------------------------------------

// A virtual handle in the place of a pointer: an address that no processor has, with the number of the object
// in it. Where the library's type is an integer of 32 bits: the index alone, below a bit that makes it no
// small number. What is neither passes through: null, and numbers with a meaning (streams 0, 1, 2).
inline constexpr uint64_t kTag = 0x7a7aull << 48;
inline constexpr uint32_t kSmallTag = 0x5a00'0000;
inline bool is_virtual(uint64_t word) { return word >> 48 == 0x7a7a; }

extern handles::Tables* tables;  // of the family; null as long as none of its objects was made

template <class H>
uint64_t word_of(H handle, uint32_t kind = 0) {
  if constexpr (std::is_pointer_v<H>) {
    return reinterpret_cast<uint64_t>(handle);
  } else if constexpr (sizeof(H) == 8) {
    return static_cast<uint64_t>(handle);
  } else {
    const auto n = static_cast<uint32_t>(handle);
    return (n & 0xff00'0000) == kSmallTag && kind ? kTag | handles::make_handle(kind, n & 0xff'ffff) : n;
  }
}
template <class H>
H handle_of(uint64_t word) {
  if constexpr (std::is_pointer_v<H>) {
    return reinterpret_cast<H>(word);
  } else if constexpr (sizeof(H) == 8) {
    return static_cast<H>(word);
  } else {
    return static_cast<H>(is_virtual(word) ? kSmallTag | (word & 0xff'ffff) : word);
  }
}
// Numbers with a meaning: the streams cudaStreamLegacy and cudaStreamPerThread. The library gives them back
// as well.
inline bool names_itself(uint64_t real, uint32_t kind) { return kind == kind::cudaStream && real <= 2; }
// What libraries get for a handle whose object has ended: an address that can be read, and is no object's.
extern const uint64_t ended_object[512];
inline bool has_ended(uint64_t word) {
  if (!is_virtual(word) || __builtin_expect(!tables, 0)) return false;
  const handles::Slot* slot = tables->slot(static_cast<handles::Handle>(word));
  return !slot || slot->state != handles::kLive;
}
// A handle's object in this run. What is no live virtual handle is the library's to judge.
inline uint64_t real_word(uint64_t word) {
  if (!is_virtual(word) || __builtin_expect(!tables, 0)) return word;
  const handles::Slot* slot = tables->slot(static_cast<handles::Handle>(word));
  return slot && slot->state == handles::kLive ? slot->owner[0] : word;
}
template <class H>
H real(H handle, uint32_t kind) {
  const uint64_t word = real_word(word_of(handle, kind));
  if constexpr (std::is_pointer_v<H>)
    if (__builtin_expect(is_virtual(word), 0))
      return reinterpret_cast<H>(reinterpret_cast<uint64_t>(ended_object));
  return handle_of<H>(word);
}

// The virtual handle of an object that was there before; 0: nobody knows it yet.
uint64_t virtual_of(uint64_t real, uint32_t kind);
// That of a new one; `recipe`: how it is made again, null: it can not, and refuses checkpoints as long as it
// lives. (A real handle that was known as another object's is that object's no more.)
uint64_t made_word(uint64_t real, uint32_t kind, const RealLibrary& library, uint32_t function,
                   const RecipeWriter* recipe);
// ... or of one that was there, which the call finds again at a restart.
uint64_t known_word(uint64_t real, uint32_t kind, const RealLibrary& library, uint32_t function,
                    const RecipeWriter* recipe);
// The handle's object is another one of this run from now on.
void rebind_word(uint64_t word, uint64_t real);
// The object ends, and the state that was kept of it, and what ends with it.
void forget_word(uint64_t word);
// Before the call that ends it, of an object that another call may find (known_word): from within that call
// the library may give its real handle, and those of what ends with it, to what another thread makes, which
// must not be taken for this one. show_word: the call has failed.
void hide_word(uint64_t word);
void show_word(uint64_t word);
// The call has left in the object what no recipe has: it refuses checkpoints from now on, as long as it
// lives.
void lose_recipe(uint64_t word, const RealLibrary& library, uint32_t function);
// The child (a handle) ends when the parent does, if not before. What has a parent keeps it.
void ends_with(uint64_t child, uint64_t parent);
uint64_t parent_of(uint64_t child);  // 0: none

// Marks of objects (Slot::flags) for their restart: a call that changes it and is never made again was made
// (an event was recorded).
inline constexpr uint32_t kTouched = 1;
inline constexpr uint32_t kTouchedBefore = 2;  // ... last in a former run, of which owner[2] has the rest
inline constexpr uint32_t kLingers = 4;        // linger_word; owner[2] is when it ended
inline constexpr uint32_t kNamedByState = 8;   // keep_state's `until`
inline constexpr uint32_t kCaptured = 16;      // an event that was recorded into a graph only
inline void mark_object(uint64_t word, uint32_t flag) {
  if (!is_virtual(word) || !tables) return;
  if (handles::Slot* slot = tables->slot(static_cast<handles::Handle>(word)))
    slot->flags = (slot->flags & ~kTouchedBefore) | flag;
}
// The objects of a kind that live, oldest first. START, or MAIN while the program is stopped.
std::vector<uint64_t> living(uint32_t kind);
inline handles::Slot* slot_of(uint64_t word) {
  return is_virtual(word) && tables ? tables->slot(static_cast<handles::Handle>(word)) : nullptr;
}
// ends_with() of an object that a call has found by the parent, but for one that was known before the parent
// was: a module that the program loaded does not end with its function.
inline void found_within(uint64_t child, uint64_t parent) {
  const handles::Slot *its = slot_of(child), *of = slot_of(parent);
  if (its && of && its->serial > of->serial) ends_with(child, parent);
}
// The device that was current when the object had been made; -1: it belongs to none (kind::is_of_no_device).
inline int device_of(const handles::Slot& slot) { return static_cast<int>(slot.next) - 1; }
// All objects of the device end, and what was set of it.
void forget_device(int device);

// --- Code of the program that the library brings to the devices by itself, when it is first used.
// `handle`: an address by which the library finds it, or an object's handle. On a call's way: a look at what
// was used.
inline constexpr size_t kUsedCode = 4096;
extern uint64_t used_code[kUsedCode];  // words; what another one has displaced is found again in code_is_used
extern void (*code_is_used)(uint64_t word);  // the family's
extern void (*device_is_chosen)();           // ... when the thread may have another device than before
extern uint64_t (*code_of_address)(uint64_t address);  // the object that was registered with it; 0: none
inline uint64_t& used_code_at(uint64_t word) { return used_code[(word ^ word >> 4) % kUsedCode]; }
template <class H>
inline void use_code(H handle) {
  const auto word = reinterpret_cast<uint64_t>(handle);
  if (__builtin_expect(__atomic_load_n(&used_code_at(word), __ATOMIC_RELAXED) != word, 0)) code_is_used(word);
}
template <class H>
inline uint64_t code_object(H handle) {
  const auto word = reinterpret_cast<uint64_t>(handle);
  return is_virtual(word) ? word : code_of_address(word);
}
// An object that ends, but came to the devices before others that live and lie behind it: its recipe stays. A
// restart makes it again in its place and ends it (end_again) where it ended.
void linger_word(uint64_t word);
// The same of what was made elsewhere: an object that never was, as old as `serial` says.
void linger_instead(uint32_t kind, const RealLibrary& library, uint32_t function, const RecipeWriter& recipe,
                    uint64_t serial);
struct Lingering {
  handles::Handle handle;
  uint64_t began, ended;
};
std::vector<Lingering> lingering();  // oldest first
void stop_lingering(handles::Handle h);
extern int64_t (*end_again)(handles::Handle h);  // the library's code

// --- State: the last call of each setter, by what it sets. ------------------------------------------------

// Of an object (its word), or of
inline constexpr uint64_t kOfLibrary = 1, kOfThread = 2, kOfCurrent = 3;
// An object's is made again with its device current; a thread's and the library's with whichever is.
// `until`: an object that the call names; when that ends the library itself takes the call back.
void keep_state(uint64_t of, const RealLibrary& library, uint32_t function, uint64_t what, const Key& key,
                const RecipeWriter& recipe, uint64_t until = 0);
// What happens once, in an order that counts: no change if it is there.
void keep_first(uint64_t of, const RealLibrary& library, uint32_t function, uint64_t what, const Key& key,
                const RecipeWriter& recipe);
void undo_state(uint64_t of, uint64_t what, const Key& key);
void undo_state_of_devices(uint64_t what, const Key& key);  // of all of them

// --- Others. -----------------------------------------------------------------------------------------------

// A text of the library's, which is elsewhere after a restart: a copy of it that stays, the same for the same
// text.
const char* kept_text(const char* text);
// From now on this process can not be checkpointed; refusals name the function and `why`.
void mark_unsaved(const RealLibrary& library, uint32_t function, const char* why);
// Says once that a function is not offered, and why.
void say_not_offered(const char* function, const char* why);

// The real handles of an array, null for null.
template <class H>
class Reals {
 public:
  Reals(const H* from, size_t n, uint32_t kind) : null_(!from) {
    for (size_t i = 0; from && i < n; ++i) reals_.push_back(real(from[i], kind));
  }
  Reals(std::vector<H> reals, bool null) : null_(null), reals_(std::move(reals)) {}
  H* data() const { return null_ ? nullptr : const_cast<H*>(reals_.data()); }

 private:
  bool null_;
  std::vector<H> reals_;
};

template <class H>
void RecipeWriter::handles(const H* from, int64_t n, uint32_t kind) {
  value<int64_t>(from ? n : -1);
  for (int64_t i = 0; from && i < n; ++i) handle(word_of(from[i], kind));
}
template <class H>
Reals<H> Again::handles() {
  const auto n = value<int64_t>();
  std::vector<H> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(handle_of<H>(handle()));
  return Reals<H>(std::move(all), n < 0);
}

// The entry of a function that no shim calls.
inline int unwritten() { return -1; }

}  // namespace cropdl::one_abi
