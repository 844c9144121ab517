// Communicators: rank and size without a call to the lower half; duplicating and freeing. UH, any thread.
#include "interpose/mpi/upper/attributes.h"
#include "interpose/mpi/upper/error_handlers.h"
#include "interpose/mpi/upper/info_lists.h"
#include "interpose/mpi/upper/rank_cache.h"

namespace cropdl::shim {
namespace {

struct Membership {
  int rank, size, inter;
};
// Asks the lower half, and fills the cache. Returns the neutral error.
int ask(Vid comm, Membership* m) {
  int error = call_library<int>(seam::kFn_MPI_Comm_rank, comm, &m->rank);
  if (!error) error = call_library<int>(seam::kFn_MPI_Comm_size, comm, &m->size);
  if (!error) error = call_library<int>(seam::kFn_MPI_Comm_test_inter, comm, &m->inter);
  if (error) return error;
  cache_rank(comm, m->rank, m->size, m->inter != 0);
  return seam::kSuccess;
}
// For MPI_Comm_rank and MPI_Comm_size: sets *value to `member`.
int ask_for(int Membership::*member, Vid comm, int* value, seam::Fn fn) {
  Membership m{};
  if (const int error = ask(comm, &m)) return fail_mpi_call(comm, error, fn);
  *value = m.*member;
  return MPI_SUCCESS;
}

// Runs the copy callbacks before the communicator is made: if one fails, none is made.
template <class Make>
int duplicate(MPI_Comm comm, MPI_Comm* newcomm, seam::Fn fn, Make make) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  if (!newcomm) return fail_mpi_call(vid, seam::kErrArg, fn);
  *newcomm = MPI_COMM_NULL;
  CopiedAttributes copies;
  if (const int r = copy_attributes(vid, &copies)) return fail_mpi_call_with(vid, r, fn);
  Vid made = make_vid(Kind::kComm, 0);
  if (const int r = make(vid, &made)) return fail_mpi_call(vid, r, fn);
  inherit_errhandler(vid, made, fn);
  attach_attributes(made, &copies);
  *newcomm = handle_out<Kind::kComm>(made);
  return MPI_SUCCESS;
}

}  // namespace

bool is_root(MPI_Comm comm, int root) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  Membership m{};
  if (const uint64_t e = cached_rank(vid); __builtin_expect(e != 0, 1))
    m = {rank_of(e), size_of(e), is_inter(e)};
  else if (ask(vid, &m))
    return false;
  return root == (m.inter ? MPI_ROOT : m.rank);
}

MPI_FUNCTION(int, Comm_rank, MPI_Comm comm, int* rank) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  if (__builtin_expect(!rank, 0)) return fail_mpi_call(vid, seam::kErrArg, seam::kFn_MPI_Comm_rank);
  const uint64_t e = cached_rank(vid);
  if (__builtin_expect(!e, 0)) return ask_for(&Membership::rank, vid, rank, seam::kFn_MPI_Comm_rank);
  *rank = rank_of(e);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Comm_size, MPI_Comm comm, int* size) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  if (__builtin_expect(!size, 0)) return fail_mpi_call(vid, seam::kErrArg, seam::kFn_MPI_Comm_size);
  const uint64_t e = cached_rank(vid);
  if (__builtin_expect(!e, 0)) return ask_for(&Membership::size, vid, size, seam::kFn_MPI_Comm_size);
  *size = size_of(e);
  return MPI_SUCCESS;
}

MPI_FUNCTION(int, Comm_dup, MPI_Comm comm, MPI_Comm* newcomm) {
  return duplicate(comm, newcomm, seam::kFn_MPI_Comm_dup,
                   [](Vid from, Vid* made) { return call_library<int>(seam::kFn_MPI_Comm_dup, from, made); });
}
MPI_FUNCTION(int, Comm_dup_with_info, MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  {
    // Some hints count only here (interpose/mpi/lower/topologies.cpp).
    const LowerInfo lower(info);
    const int r = duplicate(comm, newcomm, seam::kFn_MPI_Comm_dup_with_info, [&](Vid from, Vid* made) {
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
  return duplicate(comm, newcomm, fn, [request](Vid from, Vid* made) {
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
