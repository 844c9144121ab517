// Attribute caching for the other files of the shim, and for the C++ and Fortran libraries above it. UH, any
// thread.
#pragma once

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {

// The attributes of a duplicate that is not made yet: a callback that fails means that there will be none.
struct CopiedAttributes {
  Attribute* first = nullptr;
  CopiedAttributes() = default;
  ~CopiedAttributes();
  CopiedAttributes(const CopiedAttributes&) = delete;
  CopiedAttributes& operator=(const CopiedAttributes&) = delete;
};
// Runs the copy callbacks of `from`'s attributes; the delete callbacks of an object that goes away. They
// return the program's error code, for which no error handler was called.
int copy_attributes(Vid from, CopiedAttributes* to);
void attach_attributes(Vid to, CopiedAttributes* copies);
int delete_attributes(Vid vid);

int create_keyval(Kind kind, void (*copy)(), void (*remove)(), void* extra, Language language, int* keyval);
int free_keyval(Kind kind, int* keyval);
void set_keyval_proxies(int keyval, void (*copy)(), void (*remove)());
int set_attribute(Vid vid, int keyval, int64_t value, Language language, seam::Fn fn);
int get_attribute(Vid vid, int keyval, void* value, int* flag, Language language, seam::Fn fn);

}  // namespace cropdl::shim
