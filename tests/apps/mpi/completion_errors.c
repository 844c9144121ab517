/* Which error handler is called when a request completes with an error, and what the call returns: a
 * truncated receive on a separate communicator, by every form of Wait and Test. The driver compares a
 * native run with one under CropDL. Two ranks; rank 0 prints. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static MPI_Comm own;
static char called[64];

static void note(MPI_Comm* comm, int* code, ...) {
  int error_class;
  MPI_Error_class(*code, &error_class);
  snprintf(called + strlen(called), sizeof called - strlen(called), "%s(%d) ",
           *comm == own              ? "own"
           : *comm == MPI_COMM_WORLD ? "world"
                                     : "?",
           error_class == MPI_ERR_TRUNCATE    ? 1
           : error_class == MPI_ERR_IN_STATUS ? 2
                                              : 3);
}

enum {
  kWait,
  kTest,
  kWaitall,
  kTestall,
  kWaitany,
  kTestany,
  kWaitsome,
  kTestsome,
  kGetStatus,
  kRecv,
  kSendrecv,
  kMrecv,
  kForms
};
static const char* const names[] = {"Wait",     "Test",     "Waitall",
                                    "Testall",  "Waitany",  "Testany",
                                    "Waitsome", "Testsome", "Request_get_status",
                                    "Recv",     "Sendrecv", "Mrecv"};

static int complete(int form, MPI_Request* q) {
  MPI_Status s[2];
  MPI_Request two[2] = {MPI_REQUEST_NULL, *q};
  int flag = 0, index[2], n = 0, code = MPI_SUCCESS;
  switch (form) {
    case kWait:
      code = MPI_Wait(q, s);
      break;
    case kTest:
      while (!flag && code == MPI_SUCCESS) code = MPI_Test(q, &flag, s);
      break;
    case kWaitall:
      code = MPI_Waitall(2, two, s);
      break;
    case kTestall:
      while (!flag && code == MPI_SUCCESS) code = MPI_Testall(2, two, &flag, s);
      break;
    case kWaitany:
      code = MPI_Waitany(2, two, index, s);
      break;
    case kTestany:
      while (!flag && code == MPI_SUCCESS) code = MPI_Testany(2, two, index, &flag, s);
      break;
    case kWaitsome:
      code = MPI_Waitsome(2, two, &n, index, s);
      break;
    case kTestsome:
      while (!n && code == MPI_SUCCESS) code = MPI_Testsome(2, two, &n, index, s);
      break;
    case kGetStatus:
      while (!flag && code == MPI_SUCCESS) code = MPI_Request_get_status(*q, &flag, s);
      if (code == MPI_SUCCESS) {
        strcat(called, "then Wait: ");
        code = MPI_Wait(q, s);
      }
      break;
  }
  return code;
}

#if defined(OPEN_MPI)
static const char* error_name(int code) {
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  return error_class == MPI_ERR_PENDING    ? "pending"
         : error_class == MPI_ERR_TRUNCATE ? "truncated"
         : error_class                     ? "other"
                                           : "success";
}

/* Open MPI's MPI_Waitall returns when a request has failed, though one before it is pending. (MPICH waits for
 * all.) Rank 1 sends what the pending one receives only when MPI_Waitall has returned. */
static void pending_beside_failed(int rank) {
  int text[8] = {0}, got[2];
  MPI_Request q[2];
  MPI_Status s[2];
  called[0] = 0;
  if (rank == 1) {
    MPI_Send(text, 8, MPI_INT, 0, 101, own);
    MPI_Recv(text, 0, MPI_INT, 0, 102, own, s);
    MPI_Send(text, 1, MPI_INT, 0, 100, own);
    return;
  }
  MPI_Irecv(&got[0], 1, MPI_INT, 1, 100, own, &q[0]);
  MPI_Irecv(&got[1], 1, MPI_INT, 1, 101, own, &q[1]);
  const int code = MPI_Waitall(2, q, s);
  if (code != MPI_SUCCESS) printf("%s %s ", error_name(s[0].MPI_ERROR), error_name(s[1].MPI_ERROR));
  printf("beside each other: %s%d %d\n", called, q[0] == MPI_REQUEST_NULL, q[1] == MPI_REQUEST_NULL);
  fflush(stdout);
  MPI_Send(text, 0, MPI_INT, 1, 102, own);
  MPI_Wait(&q[0], s);
}
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, text[8] = {0};
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Errhandler handler;
  MPI_Comm_create_errhandler(note, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Comm_set_errhandler(own, handler);
  for (int form = 0; form < kForms; ++form) {
    called[0] = 0;
    if (rank == 1) {
      MPI_Send(text, 8, MPI_INT, 0, form, own);
    } else {
      MPI_Request q = MPI_REQUEST_NULL;
      MPI_Status s;
      int code = 0, error_class = -1, got;
      if (form < kRecv) {
        MPI_Irecv(&got, 1, MPI_INT, 1, form, own, &q);
        code = complete(form, &q);
      } else if (form == kRecv) {
        code = MPI_Recv(&got, 1, MPI_INT, 1, form, own, &s);
      } else if (form == kSendrecv) {
        code = MPI_Sendrecv(text, 0, MPI_INT, MPI_PROC_NULL, 0, &got, 1, MPI_INT, 1, form, own, &s);
      } else {
        MPI_Message m;
        MPI_Mprobe(1, form, own, &m, &s);
        code = MPI_Mrecv(&got, 1, MPI_INT, &m, &s);
      }
      MPI_Error_class(code, &error_class);
      printf("%s: %s%s\n", names[form], called,
             error_class == MPI_ERR_TRUNCATE    ? "truncated"
             : error_class == MPI_ERR_IN_STATUS ? "in status"
             : error_class                      ? "other"
                                                : "success");
      fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
#if defined(OPEN_MPI)
  pending_beside_failed(rank);
#endif
  MPI_Finalize();
  return 0;
}
