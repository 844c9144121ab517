// Signals from outside (SIGUSR2) run a handler wherever the program is: in a blocking receive, in a
// collective, computing. The handler uses upper-half state: thread-local variables, errno, memory, files. It
// increments every element of a large array; an image taken in the middle would have torn values.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "steplog.h"

enum { kElements = 1 << 19 };  // 4 MB: takes a while to update
static volatile long* counters;
static _Thread_local volatile long nested;
static volatile long handled;
static int descriptor;

static void handle(int number) {
  int kept = errno;
  nested++;
  if (number != SIGUSR2 || nested != 1)
    steplog_fail("handler entered with signal %d, depth %ld", number, nested);
  static const char line[] = "at handler 0\n";
  if (write(descriptor, line, sizeof line - 1) != sizeof line - 1) steplog_fail("write");
  char* p = mmap(NULL, 40000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) steplog_fail("mmap in the handler");
  p[39999] = 1;
  int fd = open("/dev/null", O_RDONLY);
  if (fd < 0 || close(fd)) steplog_fail("open in the handler");
  for (long i = 0; i < kElements; i++) counters[i]++;
  steplog_spin(15000);
  munmap(p, 40000);
  handled++;
  nested--;
  errno = kept;
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  descriptor = fileno(steplog_file);
  counters = calloc(kElements, sizeof *counters);
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
  sigaction(SIGUSR2, &action, NULL);
  long pace = steplog_pace;
  steplog_pace = 0;
  while (steplog_done < steplog_steps) {
    const int busy = (int)(steplog_done % ranks);
    long value = steplog_done * 5, sum = 0;
    errno = EXDEV;
    if (rank == busy) {
      steplog_spin(pace);
      for (int r = 0; r < ranks; r++)
        if (r != rank) MPI_Send(&value, 1, MPI_LONG, r, 8, MPI_COMM_WORLD);
    } else {
      value = -1;
      MPI_Recv(&value, 1, MPI_LONG, busy, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    STEPLOG_CHECK(value == steplog_done * 5 && nested == 0);
    MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    STEPLOG_CHECK(sum == value * ranks);
    sigset_t set, old;
    sigemptyset(&set), sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, &old);
    for (long i = 0; i < kElements; i++) STEPLOG_CHECK(counters[i] == handled);
    sigprocmask(SIG_SETMASK, &old, NULL);
    steplog_mix((uint64_t)sum);
    steplog_step();
  }
  signal(SIGUSR2, SIG_IGN);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
