// In every step, a null pointer and a protected page are read; the handler leaves by siglongjmp or makes the
// page readable. With "crash" as first argument, the last step's fault gets the default action.
#define _GNU_SOURCE
#include <mpi.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "steplog.h"

static sigjmp_buf back;
static unsigned char* page;
static volatile long recovered, opened;
static _Thread_local long local = 41;

static void on_fault(int number, siginfo_t* info, void* context) {
  (void)context;
  if (number != SIGSEGV || local != 41) _Exit(9);
  if (info->si_addr == page) {
    opened++;
    mprotect(page, 4096, PROT_READ);
    return;
  }
  recovered++;
  siglongjmp(back, 1);
}

int main(int argc, char** argv) {
  int rank, ranks;
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);  // before MPI_Init, which may install its own handlers
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  page[0] = 77;
  volatile int* volatile nothing = NULL;
  while (steplog_done < steplog_steps) {
    mprotect(page, 4096, PROT_NONE);
    if (!sigsetjmp(back, 1)) steplog_mix((uint64_t)*nothing);
    STEPLOG_CHECK(recovered == steplog_done + 1);
    STEPLOG_CHECK(((volatile unsigned char*)page)[0] == 77 && opened == steplog_done + 1);
    long one = steplog_done, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    STEPLOG_CHECK(sum == one * ranks);
    steplog_mix((uint64_t)sum);
    steplog_step();
  }
  if (argc > 1 && !strcmp(argv[1], "crash")) {
    // Only one rank crashes, after all have written their last step. If two crash at once, the launcher may
    // report either.
    MPI_Barrier(MPI_COMM_WORLD);
    while (rank != 0) pause();
    signal(SIGSEGV, SIG_DFL);
    return *nothing;
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
