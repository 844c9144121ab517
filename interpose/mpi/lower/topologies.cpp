// Topologies of communicators. The topology is read when the MPI has made the communicator and ordered its
// ranks; a restart lays it over a communicator of the same members in that order, without reordering. So it
// is the same under another MPI, however it was made (also by MPI_Cart_sub or MPI_Comm_dup). LH, LH FS base,
// threads of the program.
//
// Before a topology there may be the hint by which Open MPI chose the algorithms of collectives, and so the
// order of additions (mca_coll_base_comm_select). Open MPI reads it only while it makes a communicator
// (MPI_Comm_dup_with_info, MPI_Comm_split_type, MPI_Dist_graph_create); no other one inherits it.
#include <cstring>

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {
namespace {

// A topology's first number in a recipe. After kHint: the hint's number of ints, and it with its final zero.
enum : int { kGraph = 1, kGrid = 2, kNeighbours = 3, kHint = 4 };
constexpr size_t kBeforeHint = 2;

// The ints of the hint; 0: there is none.
size_t size_of_hint(std::span<const int> t) {
  return t.empty() || t[0] != kHint ? 0 : kBeforeHint + static_cast<size_t>(t[1]);
}

#if defined(OPEN_MPI)
constexpr const char* kHintName = "ompi_comm_coll_preference";

// Appends the hint with which `comm` was made. Call before the program can set others.
int read_hint(MPI_Comm comm, std::vector<int>* t) {
  MPI_Info info = MPI_INFO_NULL;
  if (const int code = MPI_Comm_get_info(comm, &info); code != MPI_SUCCESS) return code;
  char hint[MPI_MAX_INFO_VAL + 1] = {};
  int there = 0;
  const int code = MPI_Info_get(info, kHintName, MPI_MAX_INFO_VAL, hint, &there);
  MPI_Info_free(&info);
  if (code != MPI_SUCCESS || !there) return code;
  const size_t ints = strlen(hint) / sizeof(int) + 1;
  t->insert(t->end(), {kHint, static_cast<int>(ints)});
  t->resize(t->size() + ints);
  memcpy(&(*t)[t->size() - ints], hint, strlen(hint));
  return MPI_SUCCESS;
}

// Replaces `comm` by a duplicate with the hint (nullptr: with none) if any member has one.
int give_hint(const char* hint, MPI_Comm* comm) {
  int any = hint != nullptr;
  int code = MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, *comm);
  if (code != MPI_SUCCESS || !any) return code;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Comm made = MPI_COMM_NULL;
  if (hint) {
    code = MPI_Info_create(&info);
    if (code == MPI_SUCCESS) code = MPI_Info_set(info, kHintName, hint);
  }
  if (code == MPI_SUCCESS) code = MPI_Comm_dup_with_info(*comm, info, &made);
  if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_free(comm);
  *comm = made;
  return MPI_SUCCESS;
}
#else
int read_hint(MPI_Comm, std::vector<int>*) { return MPI_SUCCESS; }
int give_hint(const char*, MPI_Comm*) { return MPI_SUCCESS; }
#endif

void append(std::vector<int>* to, std::initializer_list<std::span<const int>> lists) {
  for (const auto& list : lists) to->insert(to->end(), list.begin(), list.end());
}

int read_grid(MPI_Comm comm, std::vector<int>* t) {
  int n = 0;
  if (const int code = MPI_Cartdim_get(comm, &n); code != MPI_SUCCESS) return code;
  std::vector<int> sizes(static_cast<size_t>(n)), periods(sizes), coordinates(sizes);
  if (n > 0) {
    const int code = MPI_Cart_get(comm, n, sizes.data(), periods.data(), coordinates.data());
    if (code != MPI_SUCCESS) return code;
  }
  const int begins[] = {kGrid, n};
  append(t, {begins, sizes, periods});
  return MPI_SUCCESS;
}

int read_graph(MPI_Comm comm, std::vector<int>* t) {
  int nodes = 0, edges = 0;
  if (const int code = MPI_Graphdims_get(comm, &nodes, &edges); code != MPI_SUCCESS) return code;
  std::vector<int> ends(static_cast<size_t>(nodes)), to(static_cast<size_t>(edges));
  if (const int code = MPI_Graph_get(comm, nodes, edges, ends.data(), to.data()); code != MPI_SUCCESS)
    return code;
  const int begins[] = {kGraph, nodes, edges};
  append(t, {begins, ends, to});
  return MPI_SUCCESS;
}

// MPI_Dist_graph_create_adjacent keeps the order of neighbours (MPI-3.1, 7.5.5).
int read_neighbours(MPI_Comm comm, std::vector<int>* t) {
  int in = 0, out = 0, weighted = 0;
  if (const int code = MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted); code != MPI_SUCCESS)
    return code;
  std::vector<int> from(static_cast<size_t>(in)), from_weights(from);
  std::vector<int> to(static_cast<size_t>(out)), to_weights(to);
  const int code =
      MPI_Dist_graph_neighbors(comm, in, from.data(), weighted ? from_weights.data() : MPI_UNWEIGHTED, out,
                               to.data(), weighted ? to_weights.data() : MPI_UNWEIGHTED);
  if (code != MPI_SUCCESS) return code;
  const int begins[] = {kNeighbours, in, out, weighted};
  append(t, {begins, from, from_weights, to, to_weights});
  return MPI_SUCCESS;
}

int lay(std::span<const int> t, MPI_Comm over, MPI_Comm* made) {
  const int* at = t.data() + 1;
  constexpr int kInOrder = 0;
  switch (t[0]) {
    case kGrid: {
      const int n = *at++;
      return MPI_Cart_create(over, n, at, at + n, kInOrder, made);
    }
    case kGraph: {
      const int nodes = *at++;
      ++at;
      return MPI_Graph_create(over, nodes, at, at + nodes, kInOrder, made);
    }
    case kNeighbours: {
      const int in = *at++, out = *at++, weighted = *at++;
      auto weights = [&](const int* w, int n) {
        return !weighted ? MPI_UNWEIGHTED : n == 0 ? MPI_WEIGHTS_EMPTY : const_cast<int*>(w);
      };
      const int* const ins = at + in;
      const int* const outs = ins + in;
      return MPI_Dist_graph_create_adjacent(over, in, at, weights(ins, in), out, outs,
                                            weights(outs + out, out), MPI_INFO_NULL, kInOrder, made);
    }
    default:
      return MPI_ERR_INTERN;
  }
}

}  // namespace

int read_topology(MPI_Comm comm, std::vector<int>* topology) {
  topology->clear();
  if (const int code = read_hint(comm, topology); code != MPI_SUCCESS) return code;
  int kind = MPI_UNDEFINED;
  if (const int code = MPI_Topo_test(comm, &kind); code != MPI_SUCCESS) return code;
  if (kind == MPI_CART) return read_grid(comm, topology);
  if (kind == MPI_GRAPH) return read_graph(comm, topology);
  if (kind == MPI_DIST_GRAPH) return read_neighbours(comm, topology);
  return MPI_SUCCESS;
}

std::span<const int> without_hint(std::span<const int> topology) {
  return topology.subspan(size_of_hint(topology));
}

int lay_topology(std::span<const int> topology, MPI_Comm* comm) {
  MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
  if (const auto shape = without_hint(topology); !shape.empty()) {
    MPI_Comm made = MPI_COMM_NULL;
    if (const int code = lay(shape, *comm, &made); code != MPI_SUCCESS) return code;
    if (made == MPI_COMM_NULL) return MPI_ERR_INTERN;
    MPI_Comm_free(comm);
    *comm = made;
  }
  const bool hinted = size_of_hint(topology) != 0;
  return give_hint(hinted ? reinterpret_cast<const char*>(&topology[kBeforeHint]) : nullptr, comm);
}

}  // namespace cropdl::mpi
