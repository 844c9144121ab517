// Functions not offered yet (interpose/gen/mpi/annotations.toml). Each says so once and returns an error. UH,
// any thread.
#include <unistd.h>
#include <cstdio>

#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {

int refuse(seam::Fn fn) {
  static int said[seam::kFnCount / 8 + 1];
  if (!(__atomic_fetch_or(&said[fn / 8], 1 << fn % 8, __ATOMIC_RELAXED) & 1 << fn % 8)) {
    char line[160];
    const int n =
        snprintf(line, sizeof line, "cropdl: %s is not offered in this version; the call returns an error\n",
                 seam::kFunctionNames[fn]);
    if (write(2, line, static_cast<size_t>(n)) < 0) {
      // Standard error is closed; the error code remains.
    }
  }
  return fail_mpi_call(kNoObject, seam::kErrUnsupportedOperation, fn);
}

}  // namespace cropdl::shim
