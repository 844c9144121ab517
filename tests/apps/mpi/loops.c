// Main loops of training programs and simulations: --shape WORD. One step is one iteration as the loop's
// author would count it. Each step's result depends on all earlier ones.
#include <mpi.h>

#include "../steplog.h"

enum { kMost = 64 };
static int rank, ranks;
static double model[kMost];
static uint64_t shared_random = 5, own_random;  // shared_random: equal on all ranks

static void compute(long microseconds) { steplog_pass(microseconds); }

static void reduce_on(MPI_Comm comm, int at, int count) {
  double in[kMost], out[kMost];
  for (int i = 0; i < count; i++)
    in[i] = model[(at + i) % kMost] * 0.5 + (double)(steplog_random(&own_random) % 100);
  MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm);
  for (int i = 0; i < count; i++) model[(at + i) % kMost] = out[i] / ranks;
}
static void reduce(int at, int count) { reduce_on(MPI_COMM_WORLD, at, count); }

static void loss(void) {
  double mine = model[0], all;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  steplog_mix((uint64_t)all);
}

static void evaluate(int batches) {
  for (int i = 0; i < batches; i++) {
    double mine = model[i % kMost], all = 0;
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    steplog_mix((uint64_t)all);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Gradient buckets that become ready in a different order each time, as in an overlapped backward pass; only
// the order of waiting is fixed.
static void overlapped_buckets(void) {
  enum { kBuckets = 6 };
  MPI_Request requests[kBuckets];
  double out[kBuckets][kMost];
  int order[kBuckets];
  for (int i = 0; i < kBuckets; i++) order[i] = i;
  for (int i = kBuckets - 1; i > 0; i--) {
    const int j = (int)(steplog_random(&shared_random) % (uint64_t)(i + 1)), was = order[i];
    order[i] = order[j], order[j] = was;
  }
  for (int i = 0; i < kBuckets; i++)
    MPI_Iallreduce(model + order[i], out[order[i]], order[i] + 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD,
                   &requests[i]);
  MPI_Waitall(kBuckets, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kBuckets; i++) model[i] = out[i][0] / ranks + 1;
}

// As in conjugate gradients (HPCG): all sums of a step are made by one function, of one number each.
__attribute__((noinline)) static double dot(int first, int second) {
  double mine = model[first] * model[second] / kMost, all;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}
static void conjugate_gradients(void) {
  const double rz = dot(0, 1);
  model[2] += rz / 2 + 1;
  const double alpha = rz / (1 + dot(2, 2));
  model[1] -= alpha / 4;
  model[0] += dot(1, 1) / 8;
  for (int i = 0; i < 3; i++) model[i] -= (double)(long)model[i];
}

static void through_the_pipeline(void) {
  for (int batch = 0; batch < 4; batch++) {
    double passing = model[batch];
    if (rank > 0) MPI_Recv(&passing, 1, MPI_DOUBLE, rank - 1, batch, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    passing = passing * 0.25 + rank;
    if (rank + 1 < ranks) MPI_Send(&passing, 1, MPI_DOUBLE, rank + 1, batch, MPI_COMM_WORLD);
    model[batch] = passing;
  }
}

int main(int argc, char** argv) {
  const char* shape = "plain";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--shape")) shape = argv[i + 1];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  own_random = (uint64_t)rank + 1;
  MPI_Comm others[3];
  for (int i = 0; i < 3; i++)
    MPI_Comm_split(MPI_COMM_WORLD, i == 2 ? rank % 2 : 0, i == 1 ? -rank : rank, &others[i]);
  // Warm-up.
  MPI_Bcast(model, kMost, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 2; i++)
    MPI_Allgather(&model[rank], 1, MPI_DOUBLE, model + 8, 1, MPI_DOUBLE, MPI_COMM_WORLD);

  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    if (!strcmp(shape, "plain")) {
      for (int layer = 0; layer < 5; layer++) reduce(layer, layer + 3);
      loss();
    } else if (!strcmp(shape, "work_between_calls")) {
      for (int layer = 0; layer < 3; layer++) {
        reduce(layer, layer + 3);
        compute(steplog_pace);
      }
      loss();
    } else if (!strcmp(shape, "one_call")) {
      reduce(0, 8);
    } else if (!strcmp(shape, "conjugate_gradients")) {
      conjugate_gradients();
    } else if (!strcmp(shape, "equal_layers")) {
      for (int layer = 0; layer < 20; layer++) reduce(layer, layer / 4 + 1);
      loss();
    } else if (!strcmp(shape, "overlapped_buckets")) {
      overlapped_buckets();
      loss();
    } else if (!strcmp(shape, "accumulation")) {
      for (int micro = 0; micro < 4; micro++) {
        compute(steplog_pace / 8);
        loss();
      }
      reduce(0, 16);
      reduce(16, 7);
    } else if (!strcmp(shape, "evaluation")) {
      reduce(0, 16);
      reduce(4, 5);
      loss();
      if (step % 6 == 5) evaluate(3);
    } else if (!strcmp(shape, "long_evaluation")) {
      reduce(0, 16);
      reduce(4, 5);
      loss();
      if (step % 16 == 15) evaluate(40);
    } else if (!strcmp(shape, "first_rank_evaluates")) {
      reduce(0, 16);
      reduce(4, 5);
      loss();
      if (step % 6 == 5) {
        if (rank == 0) compute(3 * steplog_pace);
        MPI_Barrier(MPI_COMM_WORLD);
      }
    } else if (!strcmp(shape, "first_rank_runs_ahead")) {  // the root of a broadcast waits for nobody
      loss();
      if (rank != 0) compute(6 * steplog_pace);
      MPI_Bcast(model, 8, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    } else if (!strcmp(shape, "small_last_batch")) {
      const int batch = step % 8 == 7 ? 5 : 16;
      reduce(0, batch);
      reduce(1, batch);
      loss();
    } else if (!strcmp(shape, "alternating")) {
      reduce(0, 9);
      reduce(9, 4);
      compute(steplog_pace / 4);
      reduce(20, 12);
      loss();
    } else if (!strcmp(shape, "nested")) {  // the inner loop is the iteration
      reduce(0, 6);
      loss();
      if (step % 10 == 9) MPI_Bcast(model, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    } else if (!strcmp(shape, "random_lengths")) {
      reduce(0, 1 + (int)(steplog_random(&shared_random) % 60));
      reduce(1, 1 + (int)(steplog_random(&shared_random) % 60));
      loss();
    } else if (!strcmp(shape, "pipeline")) {
      through_the_pipeline();
      loss();
    } else if (!strcmp(shape, "communicators")) {
      reduce_on(others[0], 0, 9);
      reduce_on(others[2], 10, 3);
      reduce_on(others[1], 20, 5);
      loss();
    } else if (!strcmp(shape, "communicator_each_step")) {
      MPI_Comm mine;
      MPI_Comm_dup(MPI_COMM_WORLD, &mine);
      reduce_on(mine, 0, 9);
      MPI_Comm_free(&mine);
      reduce(1, 4);
      loss();
    } else if (!strcmp(shape, "ends")) {  // in the middle of an iteration; from then on only messages
      if (step <= steplog_steps / 2) reduce(0, 9);
      if (step < steplog_steps / 2) {
        reduce(1, 2);
        loss();
      } else {
        if (step == steplog_steps / 2) steplog_at("end");
        compute(10 * steplog_pace);
        through_the_pipeline();
      }
    } else if (!strcmp(shape, "two_phases")) {
      if (step < 12) {
        reduce(0, 9);
        reduce(1, 2);
        loss();
      } else {
        for (int i = 0; i < 4; i++) reduce(i, 3 * i + 1);
        MPI_Bcast(model, 2, MPI_DOUBLE, (int)(step % ranks), MPI_COMM_WORLD);
      }
    } else {
      steplog_fail("no such shape: %s", shape);
    }
    steplog_step();
  }
  for (int i = 0; i < kMost; i++) steplog_mix((uint64_t)model[i]);
  for (int i = 0; i < 3; i++) MPI_Comm_free(&others[i]);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
