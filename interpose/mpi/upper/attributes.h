// Attribute caching, for the rest of the shim and the C++ and Fortran libraries above it. UH, any thread.
#pragma once

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {

// The attributes of a duplicate not yet made. If a copy callback fails, it is not made.
struct CopiedAttributes {
  Attribute* first = nullptr;
  CopiedAttributes() = default;
  ~CopiedAttributes();
  CopiedAttributes(const CopiedAttributes&) = delete;
  CopiedAttributes& operator=(const CopiedAttributes&) = delete;
};
// Run the copy callbacks of `from`'s attributes, and the delete callbacks of an object being freed. Both
// return the program's error code without calling an error handler.
int copy_attributes(Vid from, CopiedAttributes* to);
void attach_attributes(Vid to, CopiedAttributes* copies);
int delete_attributes(Vid vid);

int set_attribute(Vid vid, int keyval, int64_t value, Language language, seam::Fn fn);
int get_attribute(Vid vid, int keyval, void* value, int* flag, Language language, seam::Fn fn);

}  // namespace cropdl::shim
