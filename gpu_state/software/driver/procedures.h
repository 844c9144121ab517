// The function that cuGetProcAddress returns for a name and version. table/make_table.py makes the table.
#pragma once

#include <cstddef>

namespace cropdl::driver {

struct Procedure {
  const char* name;  // without _v2, _ptsz
  int introduced;    // CUDA version: 11020
  bool per_thread;   // for the per-thread default stream
  void (*function)();
};

extern const Procedure kProcedures[];  // sorted by name, then legacy before per-thread, then version
extern const size_t kProcedureCount;

}  // namespace cropdl::driver
