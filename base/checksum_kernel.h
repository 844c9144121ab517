// XXH3-64 with the including file's vector instructions: Debian's static libxxhash cannot choose at run time,
// but its header contains the whole algorithm. Only checksum*.cpp may include this file.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sys/uio.h>

namespace cropdl {

static inline uint64_t checksum_with_this_vector_width(const iovec* pieces, size_t count) {
  if (count == 1) return XXH3_64bits(pieces[0].iov_base, pieces[0].iov_len);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (size_t i = 0; i < count; ++i) XXH3_64bits_update(&state, pieces[i].iov_base, pieces[i].iov_len);
  return XXH3_64bits_digest(&state);
}

}  // namespace cropdl
