// Memory that MPI allocates (MPI_Alloc_mem) or points to (attributes), and buffers that are unmapped and
// mapped again at the same address between large messages (the MPI's registration cache must notice).
#include <mpi.h>
#include <sys/mman.h>

#include "steplog.h"

enum { kLong = 1 << 17, kBytes = kLong * 8 };  // 1 MB

static int copied, deleted;
static int copy_value(MPI_Comm comm, int key, void* extra, void* in, void* out, int* flag) {
  (void)comm, (void)key;
  STEPLOG_CHECK(extra == &copied);
  copied++;
  *(void**)out = (char*)in + 1;
  *flag = 1;
  return MPI_SUCCESS;
}
static int delete_value(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value;
  STEPLOG_CHECK(extra == &copied);
  deleted++;
  return MPI_SUCCESS;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  long* lent;
  MPI_Alloc_mem(kBytes, MPI_INFO_NULL, &lent);
  for (long i = 0; i < kLong; i++) lent[i] = i * 3 + rank;
  int *top, flag;
  STEPLOG_CHECK(!MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &top, &flag) && flag);
  const int highest = *top;
  static char place[16];
  int key;
  MPI_Comm_create_keyval(copy_value, delete_value, &key, &copied);
  MPI_Comm_set_attr(MPI_COMM_WORLD, key, place);
  void* at = NULL;
  while (steplog_done < steplog_steps) {
    for (long i = 0; i < kLong; i += 511) STEPLOG_CHECK(lent[i] == i * 3 + rank);
    if (steplog_done % 10 == 9) {
      MPI_Free_mem(lent);
      MPI_Alloc_mem(kBytes, MPI_INFO_NULL, &lent);
      for (long i = 0; i < kLong; i++) lent[i] = i * 3 + rank;
    }
    STEPLOG_CHECK(*top == highest && highest >= 32767);  // the pointer that the MPI gave once is still valid
    MPI_Comm copy;
    void* value = NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    STEPLOG_CHECK(!MPI_Comm_get_attr(copy, key, &value, &flag) && flag && value == place + 1);
    MPI_Comm_free(&copy);
    STEPLOG_CHECK(copied == steplog_done + 1 && deleted == steplog_done + 1);

    long* buffer = mmap(at, kBytes * 2, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    STEPLOG_CHECK(buffer != MAP_FAILED);
    at = buffer;
    for (long i = 0; i < kLong; i++) buffer[i] = i + steplog_done * 1000 + rank;
    MPI_Sendrecv(buffer, kLong, MPI_LONG, (rank + 1) % ranks, 6, buffer + kLong, kLong, MPI_LONG,
                 (rank + ranks - 1) % ranks, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (long i = 0; i < kLong; i++)
      STEPLOG_CHECK(buffer[kLong + i] == i + steplog_done * 1000 + (rank + ranks - 1) % ranks);
    munmap(buffer, kBytes * 2);
    steplog_mix((uint64_t)(lent[7] + copied));
    steplog_step();
  }
  steplog_ok();
  MPI_Free_mem(lent);
  MPI_Finalize();
  return 0;
}
