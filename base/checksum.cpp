#include "base/checksum.h"

#include <sys/platform/x86.h>

#include "base/checksum_kernel.h"

namespace cropdl {

uint64_t checksum_avx2(const iovec* pieces, size_t count);  // checksum_avx2.cpp

uint64_t checksum(std::span<const iovec> pieces) {
  // From the dynamic linker's data: in a virtual machine, querying the processor (libgcc's
  // __builtin_cpu_supports) takes tens of microseconds at the start of each process.
  static const bool has_avx2 = x86_cpu_active(x86_cpu_AVX2);
  return has_avx2 ? checksum_avx2(pieces.data(), pieces.size())
                  : checksum_with_this_vector_width(pieces.data(), pieces.size());
}

uint64_t checksum(const void* data, size_t bytes) {
  iovec piece{const_cast<void*>(data), bytes};
  return checksum(std::span<const iovec>(&piece, 1));
}

bool is_zero_page(const void* page) {
  // 128 bytes a step. More gains nothing: used pages differ from zero early, and memory limits zeros.
  typedef uint64_t Block __attribute__((vector_size(16), may_alias));
  const Block* at = static_cast<const Block*>(page);
  for (const Block* end = at + 4096 / sizeof(Block); at != end; at += 8) {
    Block any = (at[0] | at[1] | at[2] | at[3]) | (at[4] | at[5] | at[6] | at[7]);
    if ((any[0] | any[1]) != 0) return false;
  }
  return true;
}

}  // namespace cropdl
