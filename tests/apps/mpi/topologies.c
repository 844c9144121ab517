// Cartesian, graph and distributed graph topologies, with reordering allowed, and on a communicator with
// reversed ranks. In each step, the MPI's answers about them are those of their creation, and messages arrive
// from the right neighbours.
#include <mpi.h>
#include <stdlib.h>

#include "steplog.h"

enum { kMost = 64 };

static int world, ranks;

// All queries about a communicator, as numbers.
typedef struct {
  int numbers[512], n;
} Answers;

static void note(Answers* a, int number) {
  STEPLOG_CHECK(a->n < 512);
  a->numbers[a->n++] = number;
}

static void ask(MPI_Comm comm, Answers* a) {
  memset(a, 0, sizeof *a);
  int kind, rank, size;
  MPI_Topo_test(comm, &kind);
  note(a, kind == MPI_CART ? 1 : kind == MPI_GRAPH ? 2 : kind == MPI_DIST_GRAPH ? 3 : 0);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  note(a, rank);
  note(a, size);
  MPI_Group mine, all;
  int from[kMost], to[kMost];
  for (int i = 0; i < size; i++) from[i] = i;
  MPI_Comm_group(comm, &mine);
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_translate_ranks(mine, size, from, all, to);
  for (int i = 0; i < size; i++) note(a, to[i]);
  MPI_Group_free(&mine);
  MPI_Group_free(&all);
  if (kind == MPI_CART) {
    int n, dims[kMost], periods[kMost], coords[kMost];
    MPI_Cartdim_get(comm, &n);
    note(a, n);
    if (n > 0) {
      MPI_Cart_get(comm, n, dims, periods, coords);
      for (int i = 0; i < n; i++) note(a, dims[i]), note(a, !!periods[i]), note(a, coords[i]);
      for (int r = 0; r < size; r++) {
        int back;
        MPI_Cart_coords(comm, r, n, coords);
        for (int i = 0; i < n; i++) note(a, coords[i]);
        MPI_Cart_rank(comm, coords, &back);
        STEPLOG_CHECK(back == r);
      }
      for (int i = 0; i < n; i++) {
        int low, high;
        MPI_Cart_shift(comm, i, 1, &low, &high);
        note(a, low == MPI_PROC_NULL ? -1 : low), note(a, high == MPI_PROC_NULL ? -1 : high);
      }
    }
  } else if (kind == MPI_GRAPH) {
    int nodes, edges, index[kMost], edge[kMost], n, neighbours[kMost];
    MPI_Graphdims_get(comm, &nodes, &edges);
    MPI_Graph_get(comm, nodes, edges, index, edge);
    note(a, nodes), note(a, edges);
    for (int i = 0; i < nodes; i++) note(a, index[i]);
    for (int i = 0; i < edges; i++) note(a, edge[i]);
    MPI_Graph_neighbors_count(comm, rank, &n);
    MPI_Graph_neighbors(comm, rank, n, neighbours);
    for (int i = 0; i < n; i++) note(a, neighbours[i]);
  } else if (kind == MPI_DIST_GRAPH) {
    int in, out, weighted, sources[kMost], destinations[kMost];
    int in_weights[kMost] = {0}, out_weights[kMost] = {0};
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    MPI_Dist_graph_neighbors(comm, in, sources, in_weights, out, destinations, out_weights);
    note(a, in), note(a, out), note(a, !!weighted);
    for (int i = 0; i < in; i++) note(a, sources[i]), note(a, weighted ? in_weights[i] : 0);
    for (int i = 0; i < out; i++) note(a, destinations[i]), note(a, weighted ? out_weights[i] : 0);
  }
}

// Each rank sends its neighbours a number made of sender, step and position; returns a digest of the received
// ones.
static void exchange(MPI_Comm comm, int in, int out, long step) {
  int rank, sent[kMost], got[kMost];
  MPI_Comm_rank(comm, &rank);
  for (int i = 0; i < out; i++) sent[i] = (int)step * 10000 + rank * 100 + i;
  for (int i = 0; i < in; i++) got[i] = -1;
  MPI_Neighbor_alltoall(sent, 1, MPI_INT, got, 1, MPI_INT, comm);
  steplog_mix_bytes(got, (size_t)in * sizeof(int));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  STEPLOG_CHECK(ranks % 2 == 0 && ranks >= 4 && ranks <= 16);
  steplog_open(argc, argv, world);
  enum { kAll = 9 };
  MPI_Comm turned, cart, rows, point, line, graph, adjacent, general, twin, comms[kAll];
  MPI_Comm_split(MPI_COMM_WORLD, 0, ranks - world, &turned);
  int me;
  MPI_Comm_rank(turned, &me);

  int dims[2] = {2, ranks / 2}, periods[2] = {1, 0}, keep_rows[2] = {0, 1}, keep_none[2] = {0, 0};
  MPI_Cart_create(turned, 2, dims, periods, 1, &cart);
  MPI_Comm_set_name(cart, "the grid");
  MPI_Comm_set_name(MPI_COMM_SELF, "");
  MPI_Cart_sub(cart, keep_rows, &rows);
  MPI_Cart_sub(cart, keep_none, &point);  // one process, no dimension
  // Fewer processes than the communicator has: the other ranks get MPI_COMM_NULL.
  int three = 3, round = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &three, &round, 0, &line);
  // A ring whose edges are listed in descending order.
  int index[kMost], edges[2 * kMost];
  for (int i = 0; i < ranks; i++) {
    index[i] = 2 * (i + 1);
    edges[2 * i] = (i + 1) % ranks;
    edges[2 * i + 1] = (i + ranks - 1) % ranks;
  }
  MPI_Graph_create(turned, ranks, index, edges, 1, &graph);
  // Each rank has two sources, unsorted and with different weights.
  int sources[2] = {(me + 2) % ranks, (me + 1) % ranks}, in_weights[2] = {me + 7, 3};
  int destinations[2] = {(me + ranks - 1) % ranks, (me + ranks - 2) % ranks}, out_weights[2] = {9, me};
  MPI_Dist_graph_create_adjacent(turned, 2, sources, in_weights, 2, destinations, out_weights, MPI_INFO_NULL,
                                 1, &adjacent);
  // Rank 0 describes a star, without weights.
  int centre = 0, degree = ranks - 1, leaves[kMost];
  for (int i = 1; i < ranks; i++) leaves[i - 1] = ranks - i;
  int* volatile unweighted = MPI_UNWEIGHTED;  // GCC takes one MPI's MPI_UNWEIGHTED for an array of no length
  MPI_Dist_graph_create(turned, me == 0 ? 1 : 0, &centre, &degree, leaves, unweighted, MPI_INFO_NULL, 0,
                        &general);
  MPI_Comm_dup(adjacent, &twin);
  MPI_Comm_free(&turned);

  MPI_Comm all[kAll] = {cart, rows, point, line, graph, adjacent, general, twin, MPI_COMM_NULL};
  memcpy(comms, all, sizeof all);
  static Answers first[kAll], now;
  for (int i = 0; i < kAll; i++)
    if (comms[i] != MPI_COMM_NULL) ask(comms[i], &first[i]);
  STEPLOG_CHECK((line == MPI_COMM_NULL) == (world >= 3));
  STEPLOG_CHECK(first[0].numbers[0] == 1 && first[4].numbers[0] == 2 && first[7].numbers[0] == 3);

  MPI_Comm brief = MPI_COMM_NULL;
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    for (int i = 0; i < kAll; i++) {
      if (comms[i] == MPI_COMM_NULL) continue;
      ask(comms[i], &now);
      STEPLOG_CHECK(!memcmp(&now, &first[i], sizeof now));
    }
    exchange(cart, 4, 4, step);
    exchange(rows, 2, 2, step);
    if (line != MPI_COMM_NULL) exchange(line, 2, 2, step);
    exchange(graph, 2, 2, step);
    exchange(adjacent, 2, 2, step);
    exchange(twin, 2, 2, step);
    exchange(general, first[6].numbers[3 + ranks], first[6].numbers[4 + ranks], step);
    int low, high, mine = world * 1000 + (int)step, theirs = -1;
    MPI_Cart_shift(cart, 0, 1, &low, &high);
    MPI_Sendrecv(&mine, 1, MPI_INT, high, 5, &theirs, 1, MPI_INT, low, 5, cart, MPI_STATUS_IGNORE);
    steplog_mix((uint64_t)theirs);
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
    STEPLOG_CHECK(length == 0);
    MPI_Comm_get_name(cart, name, &length);
    STEPLOG_CHECK(!strcmp(name, "the grid"));
    // A temporary topology, made and freed repeatedly.
    if (step % 7 == 1) MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &round, 1, &brief);
    if (step % 7 > 1 && step % 7 < 6 && brief != MPI_COMM_NULL) exchange(brief, 2, 2, step);
    if (step % 7 == 6 && brief != MPI_COMM_NULL) MPI_Comm_free(&brief);
    steplog_step();
  }
  if (brief != MPI_COMM_NULL) MPI_Comm_free(&brief);
  for (int i = 0; i < kAll; i++)
    if (comms[i] != MPI_COMM_NULL) MPI_Comm_free(&comms[i]);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
