// Persistent requests of every kind, inactive and started, over long computations; freed and cancelled while
// in use. At least two ranks.
#include <mpi.h>

#include "steplog.h"

enum { kCount = 300, kKinds = 4, kLarge = 30000 };

static int rank, ranks, left, right;
static int out[kKinds][kCount], in[kKinds][kCount], columns[2 * kCount], large_out[kLarge], large_in[kLarge];

static int value(int from, long step, int k, int i) { return from * 7919 + (int)step * 31 + k * 5 + i; }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  left = (rank + ranks - 1) % ranks;
  right = (rank + 1) % ranks;
  steplog_open(argc, argv, rank);
  static char attached[8 * (sizeof out[0] + MPI_BSEND_OVERHEAD)];
  MPI_Buffer_attach(attached, sizeof attached);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);

  MPI_Request send[kKinds], receive[kKinds], large[2], column, idle, nobody[2];
  MPI_Send_init(out[0], kCount, MPI_INT, right, 0, comm, &send[0]);
  MPI_Ssend_init(out[1], kCount, MPI_INT, right, 1, comm, &send[1]);
  MPI_Bsend_init(out[2], kCount, MPI_INT, right, 2, MPI_COMM_WORLD, &send[2]);
  MPI_Rsend_init(out[3], kCount, MPI_INT, right, 3, comm, &send[3]);
  MPI_Recv_init(in[0], kCount, MPI_INT, left, 0, comm, &receive[0]);
  MPI_Recv_init(in[1], kCount, MPI_INT, MPI_ANY_SOURCE, 1, comm, &receive[1]);
  MPI_Recv_init(in[2], kCount, MPI_INT, left, 2, MPI_COMM_WORLD, &receive[2]);
  MPI_Recv_init(in[3], kCount, MPI_INT, left, 3, comm, &receive[3]);
  MPI_Send_init(large_out, kLarge, MPI_INT, right, 7, comm, &large[0]);
  MPI_Recv_init(large_in, kLarge, MPI_INT, left, 7, comm, &large[1]);
  MPI_Send_init(out, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &nobody[0]);
  MPI_Recv_init(in, 1, MPI_INT, MPI_PROC_NULL, 0, comm, &nobody[1]);
  // A freed datatype that only the request still uses.
  MPI_Datatype every_second;
  MPI_Type_vector(kCount, 1, 2, MPI_INT, &every_second);
  MPI_Type_commit(&every_second);
  MPI_Recv_init(columns, 1, every_second, left, 4, comm, &column);
  MPI_Type_free(&every_second);
  MPI_Recv_init(columns, 1, MPI_INT, left, 99, comm, &idle);  // never started

  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    MPI_Status statuses[kKinds], status;
    int flag = 0, count = 0;
    for (int k = 0; k < kKinds; k++)
      for (int i = 0; i < kCount; i++) out[k][i] = value(rank, step, k, i);
    for (int i = 0; i < kLarge; i++) large_out[i] = value(rank, step, 9, i);
    MPI_Startall(kKinds, receive);
    MPI_Start(&column);
    if (step % 2)
      MPI_Startall(2, large);  // a rendezvous; in other steps the send starts long after the receive
    else
      MPI_Start(&large[1]);
    MPI_Startall(2, nobody);
    steplog_pass(steplog_pace / 3);  // only receives are started
    MPI_Barrier(comm);               // the ready send needs started receives
    if (step % 2 == 0) MPI_Start(&large[0]);
    MPI_Startall(2, send);
    MPI_Start(&send[2]);
    MPI_Start(&send[3]);
    MPI_Send(out[0], kCount, MPI_INT, right, 4, comm);
    if (step % 3) steplog_pass(steplog_pace / 3);  // complete or pending

    MPI_Waitall(kKinds, receive, statuses);
    MPI_Wait(&column, &status);
    MPI_Waitall(kKinds, send, MPI_STATUSES_IGNORE);
    MPI_Waitall(2, large, MPI_STATUSES_IGNORE);
    MPI_Waitall(2, nobody, MPI_STATUSES_IGNORE);
    for (int k = 0; k < kKinds; k++) {
      STEPLOG_CHECK(receive[k] != MPI_REQUEST_NULL && send[k] != MPI_REQUEST_NULL);
      for (int i = 0; i < kCount; i++) STEPLOG_CHECK(in[k][i] == value(left, step, k, i));
    }
    STEPLOG_CHECK(statuses[1].MPI_SOURCE == left && statuses[1].MPI_TAG == 1);
    MPI_Get_count(&statuses[0], MPI_INT, &count);
    STEPLOG_CHECK(count == kCount);
    for (int i = 0; i < kCount; i++) STEPLOG_CHECK(columns[2 * i] == value(left, step, 0, i));
    for (int i = 0; i < kLarge; i++) STEPLOG_CHECK(large_in[i] == value(left, step, 9, i));
    steplog_mix_bytes(in, sizeof in);
    memset(in, 0, sizeof in), memset(columns, 0, sizeof columns), memset(large_in, 0, sizeof large_in);

    // An inactive request completes at once, with an empty status.
    MPI_Test(&idle, &flag, &status);
    STEPLOG_CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE && idle != MPI_REQUEST_NULL);
    // Started and cancelled, then started again in the next step.
    MPI_Start(&idle);
    steplog_pass(steplog_pace / 6);
    MPI_Cancel(&idle);
    MPI_Wait(&idle, &status);
    MPI_Test_cancelled(&status, &flag);
    STEPLOG_CHECK(flag);
    // Freed while started: the message still arrives.
    static int late[2];
    MPI_Request brief;
    late[step % 2] = -1;
    MPI_Recv_init(&late[step % 2], 1, MPI_INT, left, 5, comm, &brief);
    MPI_Start(&brief);
    MPI_Request_free(&brief);
    STEPLOG_CHECK(brief == MPI_REQUEST_NULL);
    steplog_pass(steplog_pace / 6);
    int token = value(rank, step, 6, 0), other = -1;
    MPI_Send_init(&token, 1, MPI_INT, right, 5, comm, &brief);
    MPI_Start(&brief);
    MPI_Request_free(&brief);
    MPI_Sendrecv(&token, 1, MPI_INT, right, 6, &other, 1, MPI_INT, left, 6, comm, MPI_STATUS_IGNORE);
    volatile int* arrived = &late[step % 2];
    for (int found; *arrived == -1;) MPI_Iprobe(MPI_ANY_SOURCE, 98, comm, &found, MPI_STATUS_IGNORE);
    STEPLOG_CHECK(*arrived == value(left, step, 6, 0) && other == *arrived);
    MPI_Barrier(comm);  // at most one send is pending per rank: `token` is not read any more
    steplog_step();
  }
  for (int k = 0; k < kKinds; k++) MPI_Request_free(&send[k]), MPI_Request_free(&receive[k]);
  MPI_Request_free(&large[0]), MPI_Request_free(&large[1]), MPI_Request_free(&column),
      MPI_Request_free(&idle);
  MPI_Request_free(&nobody[0]), MPI_Request_free(&nobody[1]);
  MPI_Comm_free(&comm);
  void* back;
  int size;
  MPI_Buffer_detach(&back, &size);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
