// Which function cuGetProcAddress means by a name and a version. The table is made by table/make_table.py.
#pragma once

#include <cstddef>

namespace cropdl::driver {

struct Procedure {
  const char* name;  // without _v2, _ptsz
  int introduced;    // CUDA version: 11020
  bool per_thread;   // its default stream is the thread's own
  void (*function)();
};

extern const Procedure kProcedures[];  // sorted by name, then legacy before per thread, then by version
extern const size_t kProcedureCount;

}  // namespace cropdl::driver
