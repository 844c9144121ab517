// Functions not offered yet (interpose/gen/mpi/annotations.toml). Each says so once and returns an error. UH,
// any thread.
#include <cstdio>

#include "interpose/mpi/upper/shim.h"
#include "interpose/seam/message.h"

namespace cropdl::shim {

int refuse(seam::Fn fn) {
  static int said[seam::kFnCount / 8 + 1];
  if (!(__atomic_fetch_or(&said[fn / 8], 1 << fn % 8, __ATOMIC_RELAXED) & 1 << fn % 8)) {
    char line[160];
    snprintf(line, sizeof line, "cropdl: %s is not offered in this version; the call returns an error\n",
             seam::kFunctionNames[fn]);
    seam::say_by_c_library(line);
  }
  return fail_mpi_call(kNoObject, seam::kErrUnsupportedOperation, fn);
}

}  // namespace cropdl::shim
