// Messages in flight: each rank sends a window of messages ahead of its receiver, small ones and ones too
// large to be buffered, so that a cut meets many sent but not received. Checks order, tags and lengths.
#include <mpi.h>

#include "steplog.h"

enum { kAhead = 24, kLarge = 400000 };

static int rank, ranks, left, right;
static int* buffers[kAhead];
static MPI_Request sends[kAhead];

static int length(long step) { return step % 8 == 7 ? kLarge : 1 + (int)(step * 37 % 900); }
static int tag(long step) { return (int)(step % 3); }

static void send(long step) {
  int slot = (int)(step % kAhead);
  MPI_Wait(&sends[slot], MPI_STATUS_IGNORE);
  for (int i = 0; i < length(step); i++) buffers[slot][i] = rank * 11 + (int)step * 13 + i;
  MPI_Isend(buffers[slot], length(step), MPI_INT, right, tag(step), MPI_COMM_WORLD, &sends[slot]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  left = (rank + ranks - 1) % ranks;
  right = (rank + 1) % ranks;
  steplog_open(argc, argv, rank);
  int* in = malloc(sizeof(int) * kLarge);
  for (int i = 0; i < kAhead; i++) {
    buffers[i] = malloc(sizeof(int) * kLarge);
    sends[i] = MPI_REQUEST_NULL;
  }
  long sent = 0;
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    while (sent < steplog_steps && sent < step + kAhead) send(sent++);
    MPI_Status status;
    int got;
    // Every third receive accepts any tag; MPI's message order makes it this step's.
    MPI_Recv(in, kLarge, MPI_INT, step % 2 ? MPI_ANY_SOURCE : left, step % 3 ? tag(step) : MPI_ANY_TAG,
             MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &got);
    STEPLOG_CHECK(got == length(step) && status.MPI_TAG == tag(step) && status.MPI_SOURCE == left);
    for (int i = 0; i < got; i++) STEPLOG_CHECK(in[i] == left * 11 + (int)step * 13 + i);
    steplog_mix_bytes(in, sizeof(int) * (size_t)(got < 1000 ? got : 1000));
    steplog_step();
  }
  MPI_Waitall(kAhead, sends, MPI_STATUSES_IGNORE);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
