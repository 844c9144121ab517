#include "restart/checksum.h"

#define XXH_STATIC_LINKING_ONLY  // the state of a hash under way, on our stack
#include <xxh_x86dispatch.h>  // picks SSE2, AVX2 or AVX-512 at run time

namespace cropdl::restart {

uint64_t checksum(const void* data, size_t bytes) { return XXH3_64bits(data, bytes); }

uint64_t checksum(std::span<const iovec> pieces) {
  if (pieces.size() == 1) return XXH3_64bits(pieces[0].iov_base, pieces[0].iov_len);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (const iovec& piece : pieces) XXH3_64bits_update(&state, piece.iov_base, piece.iov_len);
  return XXH3_64bits_digest(&state);
}

bool is_zero_page(const void* page) {
  // 128 bytes a step: pages in use differ from zero early, and the loop over zeros is bound by memory, not by this.
  typedef uint64_t Block __attribute__((vector_size(16), may_alias));
  const Block* at = static_cast<const Block*>(page);
  for (const Block* end = at + 4096 / sizeof(Block); at != end; at += 8) {
    Block any = (at[0] | at[1] | at[2] | at[3]) | (at[4] | at[5] | at[6] | at[7]);
    if ((any[0] | any[1]) != 0) return false;
  }
  return true;
}

}  // namespace cropdl::restart
