// The keys of attributes. UH, any thread.
#pragma once

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {

struct Keyval {
  Kind kind;
  Language language;
  void (*copy)();
  void (*remove)();
  // MPICH's C++ and Fortran libraries: these call the user's function.
  void (*copy_proxy)();
  void (*remove_proxy)();
  void* extra;
  int references;   // one for the program, and one per attribute
  bool freed;       // freed by the program, which may not use it again
  int freed_again;  // number of further frees
};

// Guards the keys and the lists of attributes.
extern SpinLock attributes_lock;

// Under the lock. nullptr: there is no such key.
Keyval* keyval_of(int keyval);
// Under the lock. Returns the reference of an attribute.
void release_keyval(int keyval);
// Copies the keyval, because callbacks may create others and move the table.
bool copy_keyval(int keyval, Keyval* out);

int create_keyval(Kind kind, void (*copy)(), void (*remove)(), void* extra, Language language, int* keyval);
int free_keyval(Kind kind, int* keyval);
void set_keyval_proxies(int keyval, void (*copy)(), void (*remove)());

// For a key that is unknown or of another kind, Open MPI has MPI_ERR_KEYVAL only when MPI_KEYVAL_INVALID is
// read.
#if defined(CROPDL_ABI_OPENMPI)
constexpr int kWrongKeyval = seam::kErrOther;
#else
constexpr int kWrongKeyval = seam::kErrKeyval;
#endif

}  // namespace cropdl::shim
