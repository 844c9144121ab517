// The keys of attributes, and what else the files of attributes share. UH, any thread.
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
  bool freed;       // freed by the program; a copy of it works as long as attributes use it
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

// Call the program's copy and delete functions of an attribute, without a lock (attribute_callbacks.cpp).
// Return the program's error code.
int run_copy(const Keyval& k, int keyval, Vid from, const Attribute& a, int64_t* out, int* flag);
int run_remove(const Keyval& k, int keyval, Vid from, const Attribute& a);

// The attributes that MPI itself gives its objects (predefined_attributes.cpp). Returns false if the keyval
// is not predefined. Else answers, or sets *error to the lower half's error.
bool get_predefined_attribute(Vid vid, int keyval, void** pointer, int64_t* number, int* flag, int* error);

// For a key that is unknown or of another kind, Open MPI has MPI_ERR_KEYVAL only when MPI_KEYVAL_INVALID is
// read.
#if defined(CROPDL_ABI_OPENMPI)
constexpr int kWrongKeyval = seam::kErrOther;
#else
constexpr int kWrongKeyval = seam::kErrKeyval;
#endif

}  // namespace cropdl::shim
