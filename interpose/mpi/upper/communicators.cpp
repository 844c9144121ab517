// Communicators: rank and size without leaving the upper half, and what goes with duplicating and freeing. UH, any
// thread.
#include "interpose/mpi/upper/attributes.h"
#include "interpose/mpi/upper/communicators.h"
#include "interpose/mpi/upper/errors.h"

namespace cropdl::upper {
namespace {

// Rank and size of a communicator never change while it lives, over restarts neither. One word per entry, so that it
// is read and written at once: index of the communicator (24 bits), rank and size (20 bits each). 0: empty. Larger
// communicators are not cached.
constexpr unsigned kEntries = 256;
constexpr uint64_t kLimit = 1u << 20;
uint64_t cache[kEntries];

bool cached(Vid comm, int* rank, int* size) {
  const uint64_t e = __atomic_load_n(&cache[vid_index(comm) % kEntries], __ATOMIC_RELAXED);
  if (e >> 40 != vid_index(comm) || e == 0) return false;
  if (rank) *rank = static_cast<int>(e >> 20 & (kLimit - 1));
  if (size) *size = static_cast<int>(e & (kLimit - 1));
  return true;
}

int ask(Vid comm, int* rank, int* size, seam::Fn fn) {
  int r = 0, n = 0;
  int error = call<int>(seam::kFn_MPI_Comm_rank, comm, &r);
  if (!error) error = call<int>(seam::kFn_MPI_Comm_size, comm, &n);
  if (error) return fail(comm, error, fn);
  if (vid_index(comm) != 0 && static_cast<uint64_t>(n) < kLimit) {
    const uint64_t e = static_cast<uint64_t>(vid_index(comm)) << 40 | static_cast<uint64_t>(r) << 20 |
                       static_cast<uint64_t>(n);
    __atomic_store_n(&cache[vid_index(comm) % kEntries], e, __ATOMIC_RELAXED);
  }
  if (rank) *rank = r;
  if (size) *size = n;
  return MPI_SUCCESS;
}

int after_dup(Vid from, Vid to, MPI_Comm* newcomm) {
  inherit_errhandler(from, to);
  *newcomm = handle_out<Kind::kComm>(to);
  return copy_attributes(from, to);
}

int release(MPI_Comm* comm, seam::Fn fn) {
  Vid vid = handle_in<Kind::kComm>(*comm);
  const Vid freed = vid;
  const int deleted = delete_attributes(vid);
  if (deleted != MPI_SUCCESS) return deleted;
  const int r = call<int>(fn, &vid);
  if (r) return fail(freed, r, fn);
  forget_rank(freed);
  drop_object(freed);
  *comm = handle_out<Kind::kComm>(vid);
  return MPI_SUCCESS;
}

}  // namespace

void forget_rank(Vid comm) { __atomic_store_n(&cache[vid_index(comm) % kEntries], 0, __ATOMIC_RELAXED); }
void forget_ranks() {
  for (uint64_t& e : cache) __atomic_store_n(&e, 0, __ATOMIC_RELAXED);
}

int peers(MPI_Comm comm) {
  int inter = 0, n = 0;
  PMPI_Comm_test_inter(comm, &inter);
  inter ? PMPI_Comm_remote_size(comm, &n) : PMPI_Comm_size(comm, &n);
  return n;
}
static void neighbors(MPI_Comm comm, int* in, int* out) {
  int topology = MPI_UNDEFINED, n = 0, rank = 0;
  *in = *out = 0;
  PMPI_Topo_test(comm, &topology);
  if (topology == MPI_CART) {
    PMPI_Cartdim_get(comm, &n);
    *in = *out = 2 * n;
  } else if (topology == MPI_GRAPH) {
    PMPI_Comm_rank(comm, &rank);
    PMPI_Graph_neighbors_count(comm, rank, &n);
    *in = *out = n;
  } else if (topology == MPI_DIST_GRAPH) {
    PMPI_Dist_graph_neighbors_count(comm, in, out, &n);
  }
}
int neighbors_in(MPI_Comm comm) {
  int in, out;
  neighbors(comm, &in, &out);
  return in;
}
int neighbors_out(MPI_Comm comm) {
  int in, out;
  neighbors(comm, &in, &out);
  return out;
}

}  // namespace cropdl::upper

using namespace cropdl;
using namespace cropdl::upper;

MPI_FUNCTION(int, Comm_rank, MPI_Comm comm, int* rank) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  return __builtin_expect(cached(vid, rank, nullptr), 1) ? MPI_SUCCESS
                                                         : ask(vid, rank, nullptr, seam::kFn_MPI_Comm_rank);
}
MPI_FUNCTION(int, Comm_size, MPI_Comm comm, int* size) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  return __builtin_expect(cached(vid, nullptr, size), 1) ? MPI_SUCCESS
                                                         : ask(vid, nullptr, size, seam::kFn_MPI_Comm_size);
}

MPI_FUNCTION(int, Comm_dup, MPI_Comm comm, MPI_Comm* newcomm) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  Vid made = make_vid(Kind::kComm, 0);
  const int r = call<int>(seam::kFn_MPI_Comm_dup, vid, &made);
  return r ? fail(vid, r, seam::kFn_MPI_Comm_dup) : after_dup(vid, made, newcomm);
}
MPI_FUNCTION(int, Comm_dup_with_info, MPI_Comm comm, MPI_Info, MPI_Comm* newcomm) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  Vid made = make_vid(Kind::kComm, 0);
  const int r = call<int>(seam::kFn_MPI_Comm_dup_with_info, vid, make_vid(Kind::kInfo, 0), &made);
  return r ? fail(vid, r, seam::kFn_MPI_Comm_dup_with_info) : after_dup(vid, made, newcomm);
}
MPI_FUNCTION(int, Comm_idup, MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request) {
  const Vid vid = handle_in<Kind::kComm>(comm);
  Vid made = make_vid(Kind::kComm, 0), pending = make_vid(Kind::kRequest, 0);
  const int r = call<int>(seam::kFn_MPI_Comm_idup, vid, &made, &pending);
  if (r) return fail(vid, r, seam::kFn_MPI_Comm_idup);
  *request = handle_out<Kind::kRequest>(pending);
  return after_dup(vid, made, newcomm);
}
#if defined(CROPDL_ABI_MPICH)
MPI_FUNCTION(int, Comm_idup_with_info, MPI_Comm comm, MPI_Info, MPI_Comm* newcomm, MPI_Request* request) {
  return PMPI_Comm_idup(comm, newcomm, request);
}
#endif
MPI_FUNCTION(int, Comm_free, MPI_Comm* comm) { return release(comm, seam::kFn_MPI_Comm_free); }
MPI_FUNCTION(int, Comm_disconnect, MPI_Comm* comm) { return release(comm, seam::kFn_MPI_Comm_disconnect); }
