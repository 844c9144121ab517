// What the program attached to its MPI objects: error handler, attributes, name; and the objects that live in the
// upper half altogether (error handlers, user-defined operations). UH, any thread; each call takes the table's
// lock, none runs a function of the program under it.
#pragma once

#include "interpose/mpi/upper/shim.h"

namespace cropdl::upper {

class SpinLock {
 public:
  void lock() {
    while (__atomic_exchange_n(&taken_, 1, __ATOMIC_ACQUIRE)) __builtin_ia32_pause();
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
  Language language;  // how the value was set
  int64_t value;      // a pointer (C, C++) or an integer (Fortran)
};

struct Object {
  Vid vid;
  Vid errhandler;         // 0: the kind's default
  Attribute* attributes;  // newest first
  char* name;
};

// The record of `vid`, made if `create`; nullptr if there is none. Stays at its address until drop_object.
Object* object(Vid vid, bool create);
void drop_object(Vid vid);

// An error handler or operation of the program. It begins like the objects behind predefined handles, and the
// fields at fixed offsets are those that Open MPI's companion libraries write into (ompi/errhandler/errhandler.h,
// ompi/op/op.h of Open MPI 4.1): the C++ dispatcher of an error handler, the flags of an operation.
struct Callback {
  Vid vid;
  Language language;
  void (*function)();
  void (*proxy)();         // C++ bindings: calls `function` the C++ way
  Kind kind;               // of the objects an error handler is for
  int references;
  char reserved0[52];
  uint32_t op_flags;       // offset 84; 2: a Fortran function
  char reserved1[32];
  void (*cxx_dispatch)();  // offset 120; set by libmpi_cxx
  char reserved2[64];
};
static_assert(__builtin_offsetof(Callback, op_flags) == 84);
static_assert(__builtin_offsetof(Callback, cxx_dispatch) == 120);

Callback* new_callback(Kind kind, void (*function)(), Language language);  // gives it a vid of its own
void bind_callback(Vid vid, Callback* callback);                            // ... or one the lower half gave
Callback* callback_of(Vid vid);
void free_callback(Vid vid);

}  // namespace cropdl::upper
