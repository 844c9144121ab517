// The AVX2 build of the checksum; called only where the CPU has AVX2. Compile nothing else in this file: its
// inline functions would bring AVX2 instructions into the rest of the program.
#include "base/checksum_kernel.h"

namespace cropdl {

uint64_t checksum_avx2(const iovec* pieces, size_t count) {
  return checksum_with_this_vector_width(pieces, count);
}

}  // namespace cropdl
