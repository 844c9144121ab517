// Nonblocking point-to-point requests that stay pending over long computations, completed by every form of
// Wait and Test.
#include <mpi.h>

#include "steplog.h"

enum { kRequests = 6, kCount = 500 };

static int rank, ranks, left, right;
static int out[kRequests][kCount], in[kRequests][kCount];

static int value(int from, long step, int r, int i) { return from * 7919 + (int)step * 31 + r * 5 + i; }

static void check(long step, int r) {
  for (int i = 0; i < kCount; i++) STEPLOG_CHECK(in[r][i] == value(left, step, r, i));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  left = (rank + ranks - 1) % ranks;
  right = (rank + 1) % ranks;
  steplog_open(argc, argv, rank);
  static char attached[2 * kRequests * (sizeof out[0] + MPI_BSEND_OVERHEAD)];
  MPI_Buffer_attach(attached, sizeof attached);

  // Matched only at the end, so pending at every cut.
  int late = 0;
  MPI_Request late_request;
  MPI_Irecv(&late, 1, MPI_INT, left, 999, MPI_COMM_WORLD, &late_request);

  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    MPI_Request receive[kRequests], send[kRequests];
    MPI_Status statuses[kRequests];
    int indices[kRequests], index, flag, number, finished = 0;
    for (int r = 0; r < kRequests; r++) {
      MPI_Irecv(in[r], kCount, MPI_INT, r % 2 ? MPI_ANY_SOURCE : left, r, MPI_COMM_WORLD, &receive[r]);
      for (int i = 0; i < kCount; i++) out[r][i] = value(rank, step, r, i);
    }
    if (step % 2) steplog_pass(steplog_pace / 2);  // only receives are pending
    for (int r = 0; r < kRequests; r++) {
      if (r == 1)
        MPI_Issend(out[r], kCount, MPI_INT, right, r, MPI_COMM_WORLD, &send[r]);
      else if (r == 2)
        MPI_Ibsend(out[r], kCount, MPI_INT, right, r, MPI_COMM_WORLD, &send[r]);
      else
        MPI_Isend(out[r], kCount, MPI_INT, right, r, MPI_COMM_WORLD, &send[r]);
    }
    steplog_pass(steplog_pace / 2);  // sends and receives are pending

    switch (step % 7) {
      case 0:
        for (int r = 0; r < kRequests; r++) {
          MPI_Wait(&receive[r], &statuses[r]);
          STEPLOG_CHECK(statuses[r].MPI_SOURCE == left && statuses[r].MPI_TAG == r);
        }
        break;
      case 1:
        MPI_Waitall(kRequests, receive, statuses);
        for (int r = 0; r < kRequests; r++) STEPLOG_CHECK(statuses[r].MPI_TAG == r);
        break;
      case 2:
        for (int r = 0; r < kRequests; r++) {
          MPI_Waitany(kRequests, receive, &index, &statuses[0]);
          STEPLOG_CHECK(index >= 0 && index < kRequests && statuses[0].MPI_TAG == index);
        }
        MPI_Waitany(kRequests, receive, &index, MPI_STATUS_IGNORE);
        STEPLOG_CHECK(index == MPI_UNDEFINED);
        break;
      case 3:
        while (finished < kRequests) {
          MPI_Waitsome(kRequests, receive, &number, indices, statuses);
          STEPLOG_CHECK(number > 0);
          for (int k = 0; k < number; k++) STEPLOG_CHECK(statuses[k].MPI_TAG == indices[k]);
          finished += number;
        }
        break;
      case 4:
        for (int r = 0; r < kRequests; r++)
          for (flag = 0; !flag;) {
            MPI_Request_get_status(receive[r], &flag, MPI_STATUS_IGNORE);
            MPI_Test(&receive[r], &flag, &statuses[r]);
          }
        break;
      case 5:
        for (flag = 0; !flag;) MPI_Testall(kRequests, receive, &flag, statuses);
        for (int r = 0; r < kRequests; r++) STEPLOG_CHECK(statuses[r].MPI_SOURCE == left);
        break;
      default:
        while (finished < kRequests) {
          if (finished % 2) {
            MPI_Testany(kRequests, receive, &index, &flag, MPI_STATUS_IGNORE);
            finished += flag && index != MPI_UNDEFINED;
          } else {
            MPI_Testsome(kRequests, receive, &number, indices, MPI_STATUSES_IGNORE);
            if (number != MPI_UNDEFINED) finished += number;
          }
        }
    }
    for (int r = 0; r < kRequests; r++) {
      STEPLOG_CHECK(receive[r] == MPI_REQUEST_NULL);
      check(step, r);
    }
    MPI_Waitall(kRequests, send, MPI_STATUSES_IGNORE);
    steplog_mix_bytes(in, sizeof in);
    memset(in, 0, sizeof in);

    // A cancelled receive.
    MPI_Request cancelled;
    MPI_Irecv(in[0], kCount, MPI_INT, left, 777, MPI_COMM_WORLD, &cancelled);
    MPI_Cancel(&cancelled);
    MPI_Wait(&cancelled, &statuses[0]);
    MPI_Test_cancelled(&statuses[0], &flag);
    STEPLOG_CHECK(flag);
    steplog_step();
  }
  int token = rank + 4000;
  MPI_Send(&token, 1, MPI_INT, right, 999, MPI_COMM_WORLD);
  MPI_Status status;
  MPI_Wait(&late_request, &status);
  STEPLOG_CHECK(late == left + 4000 && status.MPI_SOURCE == left && status.MPI_TAG == 999);
  void* back;
  int size;
  MPI_Buffer_detach(&back, &size);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
