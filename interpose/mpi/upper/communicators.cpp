// Communicators: rank and size without a call to the lower half; duplicating and freeing. UH, any thread.
#include "interpose/mpi/upper/attributes.h"
#include "interpose/mpi/upper/info_lists.h"

namespace cropdl::shim {
namespace {

// The calling rank and the size of communicators, which never change, not even over a restart. One word per
// entry, for atomic access: the communicator's index, rank and size (20 bits each), and whether it is an
// inter-communicator (1 bit); 0: empty. Larger communicators are not cached.
constexpr unsigned kRankEntries = 256;
constexpr uint64_t kRankLimit = 1u << 20;
constexpr unsigned kIndexShift = 44, kRankShift = 24, kSizeShift = 4;
uint64_t rank_entries[kRankEntries];

uint64_t* entry_of(Vid comm) { return &rank_entries[vid_index(comm) % kRankEntries]; }

struct Membership {
  int rank, size, inter;
};
// Asks the lower half, and fills the cache. Returns the neutral error.
__attribute__((cold, noinline)) int ask(Vid comm, Membership* m) {
  int error = call_library<int>(seam::kFn_MPI_Comm_rank, comm, &m->rank);
  if (!error) error = call_library<int>(seam::kFn_MPI_Comm_size, comm, &m->size);
  if (!error) error = call_library<int>(seam::kFn_MPI_Comm_test_inter, comm, &m->inter);
  if (error || vid_index(comm) == 0 || static_cast<uint64_t>(m->size) >= kRankLimit) return error;
  const uint64_t e = static_cast<uint64_t>(vid_index(comm)) << kIndexShift |
                     static_cast<uint64_t>(m->rank) << kRankShift |
                     static_cast<uint64_t>(m->size) << kSizeShift | (m->inter ? 1 : 0);
  __atomic_store_n(entry_of(comm), e, __ATOMIC_RELAXED);
  return seam::kSuccess;
}
// From the cache, or else from the lower half. Returns the neutral error.
inline int find_membership(Vid comm, Membership* m) {
  const uint64_t e = __atomic_load_n(entry_of(comm), __ATOMIC_RELAXED);
  if (__builtin_expect(e == 0 || e >> kIndexShift != vid_index(comm), 0)) return ask(comm, m);
  *m = {static_cast<int>(e >> kRankShift & (kRankLimit - 1)),
        static_cast<int>(e >> kSizeShift & (kRankLimit - 1)), static_cast<int>(e & 1)};
  return seam::kSuccess;
}

}  // namespace

void forget_rank(Vid comm) { __atomic_store_n(entry_of(comm), 0, __ATOMIC_RELAXED); }
void forget_ranks() {
  for (uint64_t& e : rank_entries) __atomic_store_n(&e, 0, __ATOMIC_RELAXED);
}

bool is_root(MPI_Comm comm, int root) {
  Membership m;
  return !find_membership(handle_in<Kind::kComm>(comm), &m) && root == (m.inter ? MPI_ROOT : m.rank);
}

MPI_FUNCTION(int, Comm_rank, MPI_Comm comm, int* rank) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  Membership m;
  const int error = __builtin_expect(rank != nullptr, 1) ? find_membership(vid, &m) : seam::kErrArg;
  if (__builtin_expect(error, 0)) return fail_mpi_call(vid, error, seam::kFn_MPI_Comm_rank);
  *rank = m.rank;
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Comm_size, MPI_Comm comm, int* size) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  Membership m;
  const int error = __builtin_expect(size != nullptr, 1) ? find_membership(vid, &m) : seam::kErrArg;
  if (__builtin_expect(error, 0)) return fail_mpi_call(vid, error, seam::kFn_MPI_Comm_size);
  *size = m.size;
  return MPI_SUCCESS;
}

MPI_FUNCTION(int, Comm_dup, MPI_Comm comm, MPI_Comm* newcomm) {
  return duplicate<Kind::kComm>(comm, newcomm, seam::kFn_MPI_Comm_dup, [](Vid from, Vid* made) {
    return call_library<int>(seam::kFn_MPI_Comm_dup, from, made);
  });
}
MPI_FUNCTION(int, Comm_dup_with_info, MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  {
    // Some hints count only here (interpose/mpi/lower/topologies.cpp).
    const LowerInfo lower(info);
    const int r =
        duplicate<Kind::kComm>(comm, newcomm, seam::kFn_MPI_Comm_dup_with_info, [&](Vid from, Vid* made) {
          return call_library<int>(seam::kFn_MPI_Comm_dup_with_info, from, lower.vid(), made);
        });
    if (r != MPI_SUCCESS) return r;
  }
  // Keeps the hints; on ranks without any, too: the call is a counted collective, and hints may differ.
  MPI_Info hints = info;
  if (info == MPI_INFO_NULL)
    if (const int none = PMPI_Info_create(&hints); none != MPI_SUCCESS) return none;
  const int set = PMPI_Comm_set_info(*newcomm, hints);
  if (info == MPI_INFO_NULL) PMPI_Info_free(&hints);
  return set;
}
static int begin_duplicate(MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request, seam::Fn fn) {
  if (!request) return fail_mpi_call(handle_in<Kind::kComm>(comm), null_result(Kind::kRequest, fn), fn);
  return duplicate<Kind::kComm>(comm, newcomm, fn, [request](Vid from, Vid* made) {
    Vid pending = make_vid(Kind::kRequest, 0);
    const int r = call_library<int>(seam::kFn_MPI_Comm_idup, from, made, &pending);
    if (r == seam::kSuccess) *request = handle_out<Kind::kRequest>(pending);
    return r;
  });
}
MPI_FUNCTION(int, Comm_idup, MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  return begin_duplicate(comm, newcomm, request, seam::kFn_MPI_Comm_idup);
}
#if defined(CROPDL_ABI_MPICH)
// The hints stay in the upper half: MPI_Comm_set_info is collective and needs a complete communicator.
MPI_FUNCTION(int, Comm_idup_with_info, MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm,
             MPI_Request* request) {
  constexpr seam::Fn kFn = seam::kFn_MPI_Comm_idup_with_info;
  const Vid parent = handle_in<Kind::kComm>(comm);
  Vid hints = 0;
  if (const int r = known_hints(parent, info, &hints)) return fail_mpi_call(parent, r, kFn);
  const int r = begin_duplicate(comm, newcomm, request, kFn);
  if (r != MPI_SUCCESS)
    drop_info(hints);
  else if (hints)
    object(handle_in<Kind::kComm>(*newcomm), true)->asked_hints = hints;
  return r;
}
#endif
MPI_FUNCTION(int, Comm_free, MPI_Comm* comm) {
  return free_with_attributes<Kind::kComm>(comm, seam::kFn_MPI_Comm_free);
}
MPI_FUNCTION(int, Comm_disconnect, MPI_Comm* comm) {
  return free_with_attributes<Kind::kComm>(comm, seam::kFn_MPI_Comm_disconnect);
}

}  // namespace cropdl::shim
