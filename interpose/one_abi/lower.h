// Parts of the generated lower half of a library with one ABI (interpose/gen/one_abi): the real functions,
// found at their first call; virtual handles; recipes. LH, LH FS base, program threads unless said otherwise.
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
#include "interpose/seam/thread.h"

namespace cropdl::one_abi {

// --- The real library. -------------------------------------------------------------------------------------

// A library of the family; the generator emits this description. AgainFunction makes an object or a state
// again from its recipe and returns the library's result code, 0 for success.
using AgainFunction = int64_t (*)(Again&);
struct RealLibrary {
  const char* name;    // "cudart"
  const char* soname;  // "libcudart.so.13"
  uint32_t number;     // seam::LibraryNumber
  uint32_t count;
  const char* const* names;    // of its functions
  void** functions;            // their addresses in this process, null before the first call
  void* missing;               // replaces a function that the real library lacks: returns an error
  const AgainFunction* again;  // by function; null: such a call has no recipe
  const char* answers;  // by function: 'c' returns the library's code, 't' a text, else a value that may be 0
};
// Replacements for missing functions that do not return a code.
inline const char* missing_text() { return "the library that is installed here does not have this function"; }
inline int64_t missing_value() { return 0; }

// Returns a function's address; prints a line and returns the replacement if it is missing. Takes a lock.
void* find_function(const RealLibrary& library, uint32_t function);

template <class F>
inline F* function_of(const RealLibrary& library, uint32_t function) {
  void* found = __atomic_load_n(&library.functions[function], __ATOMIC_RELAXED);
  if (__builtin_expect(!found, 0)) found = find_function(library, function);
  return reinterpret_cast<F*>(found);
}

// --- The beginning of a call. ------------------------------------------------------------------------------

// The library's per-thread state, which must be restored after a restart before the thread's first call.
struct ThreadMark {
  seam::ThreadRecord* record;  // of the thread that this LH thread lends its FS base to
  uint64_t generation;
  bool settled;  // its current context is recorded (has_settled)
};
inline thread_local constinit ThreadMark thread_mark{};
void begin_thread(bool chooses);  // restores the state
// Set by the family: whether a call has implicitly given the calling thread the library's state (a context).
// If so, keeps it.
inline bool (*has_settled)() = [] { return false; };

class Call {
 public:
  // `chooses`: the call selects the thread's device, so the thread's previous device does not matter.
  explicit Call(bool chooses = false) {
    seam::ThreadRecord* record = seam::current_thread();
    record->in_device_call = 1;
    if (__builtin_expect(thread_mark.record != record || thread_mark.generation != record->generation, 0))
      begin_thread(chooses), first_ = true;
  }
  ~Call() {
    if (__builtin_expect(!thread_mark.settled, 0)) thread_mark.settled = has_settled();
    thread_mark.record->in_device_call = 0;
  }
  Call(const Call&) = delete;
  bool is_first() const { return first_; }  // the thread's first call

 private:
  bool first_ = false;
};

// Set by the family: return the calling thread's current device, and change it. Used for the devices of
// objects and of state that are made again. They call the library: not under family_lock.
inline int (*current_device)() = [] { return 0; };
inline bool (*make_current)(int device) = [](int) { return true; };
// Resets the library's state of the calling thread to that of a thread which has made no call yet.
inline void (*make_fresh)(bool chooses) = [](bool) {};

// Records an error code that the library returned: the threads' last errors survive a restart.
void note_error(const RealLibrary& library, int64_t code);
inline std::atomic<uint64_t> errors_noted{0};  // by all threads of this run
int64_t noted_error(bool forget);              // of the calling thread; 0: none

// --- Handles. ----------------------------------------------------------------------------------------------

// A virtual handle instead of a pointer: a non-canonical address that contains the object's number. If the
// library's type is a 32-bit integer: the index alone, with kSmallTag, so that it is not a small number.
// Other values pass unchanged: null, and numbers with a meaning (streams 0, 1, 2).
inline constexpr uint64_t kTag = 0x7a7aull << 48;
inline constexpr uint32_t kSmallTag = 0x5a00'0000;

inline handles::Tables* tables = nullptr;  // of the family; null until the first object is made

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
// Numbers with a meaning, which the library also returns: cudaStreamLegacy and cudaStreamPerThread.
inline bool names_itself(uint64_t real, uint32_t kind) { return kind == kind::cudaStream && real <= 2; }
inline handles::Slot* slot_of(uint64_t word) {
  return is_virtual(word) && tables ? tables->slot(static_cast<handles::Handle>(word)) : nullptr;
}
// Returns the real handle in this run. Any other word is returned unchanged: the library checks it.
inline uint64_t real_word(uint64_t word) {
  const handles::Slot* slot = slot_of(word);
  return slot && slot->state == handles::kLive ? slot->owner[0] : word;
}
// Passed to libraries for a handle whose object has ended: a readable address of no object.
inline const uint64_t ended_object[512] = {};
template <class H>
__attribute__((always_inline)) inline H real(H handle, uint32_t kind) {
  const uint64_t word = word_of(handle, kind);
  if (!is_virtual(word)) return handle;
  const handles::Slot* slot = slot_of(word);
  if (__builtin_expect(slot && slot->state == handles::kLive, 1)) return handle_of<H>(slot->owner[0]);
  if constexpr (std::is_pointer_v<H>)
    return reinterpret_cast<H>(reinterpret_cast<uint64_t>(ended_object));
  else
    return handle;
}
// Whether the result of real() stands for an object that has ended.
template <class H>
bool is_ended_object(H real) {
  if constexpr (std::is_pointer_v<H>)
    return reinterpret_cast<uint64_t>(real) == reinterpret_cast<uint64_t>(ended_object);
  else
    return is_virtual(word_of(real, 1));
}

// Returns the virtual handle of a known object; 0: unknown.
uint64_t virtual_of(uint64_t real, uint32_t kind);
// Returns the virtual handle of a new object. `recipe` null: the object cannot be made again, and refuses
// checkpoints while it exists. If `real` was known as another object's handle, it is now the new object's.
uint64_t made_word(uint64_t real, uint32_t kind, const RealLibrary& library, uint32_t function,
                   const RecipeWriter* recipe);
// The same for an object that existed before the call; a restart finds it again by the same call.
uint64_t known_word(uint64_t real, uint32_t kind, const RealLibrary& library, uint32_t function,
                    const RecipeWriter* recipe);
// Assigns another real object of this run to the handle.
void rebind_word(uint64_t word, uint64_t real);
// Removes the object, its kept state, and the objects that end with it.
void forget_word(uint64_t word);
// hide_word: before the call that ends an object which other calls may find (known_word). During that call
// the library may reuse its real handle, and those of the objects that end with it, for an object that
// another thread makes, which must not be taken for this one. show_word: undoes it if the call failed.
void hide_word(uint64_t word);
void show_word(uint64_t word);
// The call has put state into the object that no recipe records: it refuses checkpoints while it exists.
void lose_recipe(uint64_t word, const RealLibrary& library, uint32_t function);
// The child (a handle) ends when the parent does, or earlier. No effect on a child that has a parent.
void ends_with(uint64_t child, uint64_t parent);
uint64_t parent_of(uint64_t child);  // 0: none

// Marks of objects (Slot::flags) for their restart.
inline constexpr uint32_t kTouched = 1;  // changed by a call that is not repeated (an event was recorded)
inline constexpr uint32_t kTouchedBefore = 2;  // the same, last in a former run; owner[2] has the rest
inline constexpr uint32_t kLingers = 4;        // linger_word; owner[2] is when it ended
inline constexpr uint32_t kNamedByState = 8;   // given to keep_state() as `until`: a state ends with it
inline constexpr uint32_t kCaptured = 16;      // an event that was recorded into a graph only
inline constexpr uint32_t kUncertain = 32;     // a state that two threads set to two values at one time
inline void mark_object(uint64_t word, uint32_t flag) {
  if (handles::Slot* slot = slot_of(word)) slot->flags = (slot->flags & ~kTouchedBefore) | flag;
}
// The live objects of a kind, oldest first. START, or MAIN while the program is stopped.
std::vector<uint64_t> living(uint32_t kind);
// ends_with() for an object that a call found through `parent`. No effect if the object is older than the
// parent: a module that the program loaded does not end with its function.
inline void found_within(uint64_t child, uint64_t parent) {
  const handles::Slot *its = slot_of(child), *of = slot_of(parent);
  if (its && of && its->serial > of->serial) ends_with(child, parent);
}
// The device that was current when the object was made; -1: it belongs to none (kind::is_of_no_device).
inline int device_of(const handles::Slot& slot) { return static_cast<int>(slot.next) - 1; }
// Removes all objects and all state of the device.
void forget_device(int device);

// --- Code of the program that the library loads on the devices at its first use. `handle`: the host address
// by which the library finds the code, or an object's handle. used_code is a cache that each call looks into.
inline constexpr size_t kUsedCode = 4096;
inline uint64_t used_code[kUsedCode];  // words; code_is_used finds words that another has displaced
inline void (*code_is_used)(uint64_t word) = [](uint64_t) {};  // set by the family
inline void (*device_is_chosen)() = [] {};  // set by the family: the thread's device may have changed
// Set by the family: the object registered with the address; 0: none.
inline uint64_t (*code_of_address)(uint64_t address) = [](uint64_t) { return uint64_t{0}; };
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
// An object that ends, but was loaded on the devices before live objects that lie behind it: its recipe
// stays. A restart makes it again at its position in the order, and ends it (end_again) at that of its end.
void linger_word(uint64_t word);
// The same for something made elsewhere: records an object that never existed, with the age `serial`.
void linger_instead(uint32_t kind, const RealLibrary& library, uint32_t function, const RecipeWriter& recipe,
                    uint64_t serial);
struct Lingering {
  handles::Handle handle;
  uint64_t began, ended;
};
std::vector<Lingering> lingering();  // oldest first
void stop_lingering(handles::Handle h);
inline int64_t (*end_again)(handles::Handle h) = nullptr;  // returns the library's code

// --- State: the last call of each setter, by the thing that it sets. --------------------------------------

// `of`: the owner of the state, an object (its word) or one of these.
inline constexpr uint64_t kOfLibrary = 1, kOfThread = 2, kOfCurrent = 3;
// Around a setter's call of the library. Two threads' calls may take effect in one order and be recorded in
// the other. No lock is held meanwhile: a setter may load code, and so wait for a kernel that waits for
// another thread. Instead, keep_state() finds that another thread has recorded another value since, and the
// state refuses checkpoints until it is set again.
inline constexpr uint64_t kNoSetting = ~uint64_t{0};
// Serial number of the newest object or record when it began.
inline thread_local constinit uint64_t setting_began = kNoSetting;
class Setting {
 public:
  Setting() : before_(setting_began) { setting_began = tables ? tables->newest() : 0; }
  ~Setting() { setting_began = before_; }
  Setting(const Setting&) = delete;

 private:
  const uint64_t before_;
};
// A restart makes an object's state again with the object's device current; a thread's and the library's with
// any device. `until`: an object that the call names; when it ends, the library itself undoes the call.
// `once`: state that is set once, in an order that matters: no change if it is recorded already.
void keep_state(uint64_t of, const RealLibrary& library, uint32_t function, uint64_t what, const Key& key,
                const RecipeWriter& recipe, uint64_t until = 0, bool once = false);
void undo_state(uint64_t of, uint64_t what, const Key& key);
void undo_state_of_devices(uint64_t what, const Key& key);  // of all of them

// --- Others. -----------------------------------------------------------------------------------------------

// A permanent copy of a text of the library, whose address changes at a restart; equal texts share one.
const char* kept_text(const char* text);
// From now on this process cannot be checkpointed; refusals name the function and `why`.
void mark_unsaved(const RealLibrary& library, uint32_t function, const char* why);
// Prints once that a function is not offered, and why.
void say_not_offered(const char* function, const char* why);

// The real handles of an array of virtual ones; null for null.
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
void Key::handles(const H* from, int64_t n, uint32_t kind) {
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

// Table entry of a function that no shim calls.
inline int unwritten() { return -1; }

}  // namespace cropdl::one_abi
