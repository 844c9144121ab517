// Blocking point-to-point around a ring: every send mode, wildcards, probe and matched probe. Any number of
// ranks.
#include <mpi.h>

#include "steplog.h"

enum { kCount = 300 };

static int rank, ranks, left, right;
static int out[kCount], in[kCount];

static int value(int from, long step, int i) { return from * 1000003 + (int)step * 101 + i; }

static void fill(long step) {
  for (int i = 0; i < kCount; i++) out[i] = value(rank, step, i);
}

static void check(int from, long step, int count, const MPI_Status* status, int tag) {
  int got;
  MPI_Get_count(status, MPI_INT, &got);
  STEPLOG_CHECK(got == count);
  STEPLOG_CHECK(status->MPI_SOURCE == from);
  STEPLOG_CHECK(status->MPI_TAG == tag);
  for (int i = 0; i < count; i++) STEPLOG_CHECK(in[i] == value(from, step, i));
  steplog_mix_bytes(in, sizeof in[0] * (size_t)count);
  memset(in, 0xee, sizeof in);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  left = (rank + ranks - 1) % ranks;
  right = (rank + 1) % ranks;
  steplog_open(argc, argv, rank);
  static char attached[4 * (sizeof out + MPI_BSEND_OVERHEAD)];
  MPI_Buffer_attach(attached, sizeof attached);
  MPI_Status status;

  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    int tag = (int)(step % 17);
    fill(step);
    // Even ranks send first. With an odd number of ranks, both the last one and rank 0 send first; rank 1
    // receives, so this is no deadlock.
    int first = rank % 2 == 0;

    for (int turn = 0; turn < 2; turn++) {
      if ((turn == 0) == first)
        MPI_Send(out, 200, MPI_INT, right, tag, MPI_COMM_WORLD);
      else
        MPI_Recv(in, kCount, MPI_INT, left, tag, MPI_COMM_WORLD, &status),
            check(left, step, 200, &status, tag);
    }
    for (int turn = 0; turn < 2; turn++) {
      if ((turn == 0) == first)
        MPI_Ssend(out, 100, MPI_INT, right, tag, MPI_COMM_WORLD);
      else
        MPI_Recv(in, kCount, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status),
            check(left, step, 100, &status, tag);
    }

    // Buffered: all ranks may send before any receives. Probe finds the message by a wildcard.
    MPI_Bsend(out, 1 + (int)(step % 250), MPI_INT, right, 50, MPI_COMM_WORLD);
    // (Only one wildcard at a time: the right neighbour's token, below, may have arrived already.)
    MPI_Probe(step % 2 ? MPI_ANY_SOURCE : left, step % 2 ? 50 : MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    int count;
    MPI_Get_count(&status, MPI_INT, &count);
    STEPLOG_CHECK(count == 1 + (int)(step % 250));
    MPI_Recv(in, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
    check(left, step, count, &status, 50);

    // Ready: the receive is posted before a token tells the sender.
    MPI_Request request;
    char token = 1, other;
    MPI_Irecv(in, kCount, MPI_INT, left, 60, MPI_COMM_WORLD, &request);
    MPI_Sendrecv(&token, 1, MPI_CHAR, left, 61, &other, 1, MPI_CHAR, right, 61, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Rsend(out, 30, MPI_INT, right, 60, MPI_COMM_WORLD);
    MPI_Wait(&request, &status);
    STEPLOG_CHECK(request == MPI_REQUEST_NULL);
    check(left, step, 30, &status, 60);

    // Matched probe: two messages with the same tag; the first one is matched before the second is received.
    // A cut may come between Mprobe and Mrecv.
    MPI_Bsend(out, 11, MPI_INT, right, 70, MPI_COMM_WORLD);
    MPI_Bsend(out, 22, MPI_INT, right, 70, MPI_COMM_WORLD);
    MPI_Message message;
    int found = 0;
    while (!found) MPI_Improbe(MPI_ANY_SOURCE, 70, MPI_COMM_WORLD, &found, &message, &status);
    steplog_pass(steplog_pace / 4);
    MPI_Recv(in, kCount, MPI_INT, left, 70, MPI_COMM_WORLD, &status);
    check(left, step, 22, &status, 70);
    MPI_Mrecv(in, kCount, MPI_INT, &message, &status);
    STEPLOG_CHECK(message == MPI_MESSAGE_NULL);
    check(left, step, 11, &status, 70);
    MPI_Bsend(out, 5, MPI_INT, right, 71, MPI_COMM_WORLD);
    MPI_Mprobe(left, 71, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(in, kCount, MPI_INT, &message, MPI_STATUS_IGNORE);

    memcpy(in, out, sizeof out);
    MPI_Sendrecv_replace(in, 77, MPI_INT, right, 80, left, 80, MPI_COMM_WORLD, &status);
    check(left, step, 77, &status, 80);
    MPI_Sendrecv(out, 4, MPI_INT, MPI_PROC_NULL, 1, in, 4, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD,
                 &status);
    STEPLOG_CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    steplog_step();
  }
  void* back;
  int size;
  MPI_Buffer_detach(&back, &size);
  STEPLOG_CHECK(back == (void*)attached && size == (int)sizeof attached);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
