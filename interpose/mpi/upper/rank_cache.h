// The calling rank and the size of communicators, without a call to the lower half. Neither ever changes, not
// even over a restart. UH, any thread.
#pragma once

#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {

// One word per entry, for atomic access: the communicator's index, rank and size (20 bits each), and whether
// it is an inter-communicator (1 bit); 0: empty. Larger communicators are not cached.
constexpr unsigned kRankEntries = 256;
constexpr uint64_t kRankLimit = 1u << 20;
constexpr unsigned kIndexShift = 44, kRankShift = 24, kSizeShift = 4;
constexpr uint64_t kInter = 1;
inline uint64_t rank_entries[kRankEntries];

inline int rank_of(uint64_t entry) { return static_cast<int>(entry >> kRankShift & (kRankLimit - 1)); }
inline int size_of(uint64_t entry) { return static_cast<int>(entry >> kSizeShift & (kRankLimit - 1)); }
inline int is_inter(uint64_t entry) { return static_cast<int>(entry & kInter); }

// The entry of `comm`, or 0.
inline uint64_t cached_rank(Vid comm) {
  const uint64_t e = __atomic_load_n(&rank_entries[vid_index(comm) % kRankEntries], __ATOMIC_RELAXED);
  return e >> kIndexShift == vid_index(comm) ? e : 0;
}

inline void cache_rank(Vid comm, int rank, int size, bool inter) {
  if (vid_index(comm) == 0 || static_cast<uint64_t>(size) >= kRankLimit) return;
  const uint64_t e = static_cast<uint64_t>(vid_index(comm)) << kIndexShift |
                     static_cast<uint64_t>(rank) << kRankShift | static_cast<uint64_t>(size) << kSizeShift |
                     (inter ? kInter : 0);
  __atomic_store_n(&rank_entries[vid_index(comm) % kRankEntries], e, __ATOMIC_RELAXED);
}

// The communicator is about to end.
inline void forget_rank(Vid comm) {
  __atomic_store_n(&rank_entries[vid_index(comm) % kRankEntries], 0, __ATOMIC_RELAXED);
}
// MPI ends.
inline void forget_ranks() {
  for (uint64_t& e : rank_entries) __atomic_store_n(&e, 0, __ATOMIC_RELAXED);
}

}  // namespace cropdl::shim
