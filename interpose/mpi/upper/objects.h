// What the program attached to its MPI objects: error handler, attributes, name; and the objects that live in
// the upper half altogether (error handlers, user-defined operations). UH, any thread; each call takes the
// table's lock, none runs a function of the program under it.
#pragma once

#include <sched.h>

#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {

class SpinLock {
 public:
  void lock() {
    constexpr int kRounds = 100;  // longer than any holder takes that has a processor
    for (int round = 0; __atomic_exchange_n(&taken_, 1, __ATOMIC_ACQUIRE); ++round) {
      if (round < kRounds)
        __builtin_ia32_pause();
      else
        sched_yield();
    }
  }
  void unlock() { __atomic_store_n(&taken_, 0, __ATOMIC_RELEASE); }

 private:
  int taken_ = 0;
};

class Locked {
 public:
  explicit Locked(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  SpinLock& lock_;
};

// How a callback wants to be called: languages differ in arguments and in the width of attributes.
enum class Language : int { kC, kCxx, kFortranInt, kFortranAddress };

struct Attribute {
  Attribute* next;
  int keyval;
  Language language;     // how the value was set
  int64_t value;         // a pointer (C, C++) or an integer (Fortran)
  const void* changing;  // the thread that runs the delete callback for it: others that change it come after
};

struct Object {
  Vid vid;
  Vid errhandler;         // 0: the kind's default
  Attribute* attributes;  // newest first
  char* name;
  Vid hints;               // an Info: what the MPI made of the program's
  int64_t* window_values;  // of predefined attributes, which programs keep pointers to (attributes.cpp)
};
void drop_info(Vid vid);  // info.cpp

// What a pointer handle of a program's communicator, datatype or window points to. Companion libraries read
// the fields at fixed offsets (Open MPI 4.1: c_flags and c_keyhash of ompi_communicator_t, d_keyhash of
// ompi_datatype_t, w_keyhash of ompi_win_t): the hash leads them back to the object, and so to
// ompi_attr_get_*.
struct alignas(16) HandleObject {
  Vid vid;
  HandleObject* next_free;
  char reserved[496];
};
inline constexpr size_t kFlagsOffset = 232;  // 1 between two groups, 0x100 cartesian, 0x200 graph
// c_local_group and c_remote_group, and in these grp_proc_count; what they point to lies in the object, too.
inline constexpr size_t kLocalGroupOffset = 248, kRemoteGroupOffset = 256, kGroupSizeOffset = 16;
inline constexpr size_t kGroupsOffset = 320, kGroupSpace = 32;
inline constexpr size_t kHashOffsetComm = 272, kHashOffsetDatatype = 208, kHashOffsetWin = 240;

// The record of `vid`, made if `create`; nullptr if there is none. Stays at its address until it is dropped.
Object* object(Vid vid, bool create);

// The name the program gave it, of at most MPI_MAX_OBJECT_NAME - 1 characters. False: none.
void set_object_name(Vid vid, const char* name);
bool object_name(Vid vid, char* to, int* length);

// An error handler or operation of the program. It begins like the objects behind predefined handles, and the
// fields at fixed offsets are those that Open MPI's companion libraries write into
// (ompi/errhandler/errhandler.h, ompi/op/op.h of Open MPI 4.1): the C++ dispatcher of an error handler, the
// flags of an operation.
struct Callback {
  Vid vid;
  Language language;
  void (*function)();
  void (*proxy)();  // C++ bindings: calls `function` the C++ way
  Kind kind;        // of the objects an error handler is for
  int references;
  char reserved0[52];
  uint32_t op_flags;  // offset 84; 2: a Fortran function
  char reserved1[32];
  void (*cxx_dispatch)();  // offset 120; set by libmpi_cxx
  char reserved2[64];
};
static_assert(__builtin_offsetof(Callback, op_flags) == 84);
static_assert(__builtin_offsetof(Callback, cxx_dispatch) == 120);

// Gives an error handler a vid of its own; nullptr: there are too many.
Callback* new_callback(Kind kind, void (*function)(), Language language);
void bind_callback(Vid vid, Callback* callback);  // ... or one the lower half gave
Callback* callback_of(Vid vid);
bool copy_callback(Vid vid, Callback* copy);  // to be used while another thread may free it; false: is none
bool hold_callback(Vid vid);                  // one reference more, for free_callback; false: is none
void free_callback(Vid vid);
void drop_callback(Callback* callback);  // an operation's, whose vid another one may have by now

}  // namespace cropdl::shim
