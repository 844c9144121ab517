// Switches between two thread control blocks, as runtimes with their own threads do; calls MPI on each, and
// is stopped on each.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <mpi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

// The C library's block around FS: thread-local storage before it, then the TCB, which contains its own
// address in words 0 and 2 (glibc sysdeps/x86_64/nptl/tls.h).
enum { kBefore = 1024, kAfter = 2304 };
static __thread long on;

static char* second_block(char* first) {
  char* memory = mmap(NULL, kBefore + kAfter, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(memory != MAP_FAILED);
  char* block = memory + kBefore;
  long before = (long)((uintptr_t)first & 4095);  // an earlier page may not be mapped
  if (before > kBefore) before = kBefore;
  memcpy(block - before, first - before, (size_t)before + kAfter);
  ((char**)block)[0] = ((char**)block)[2] = block;
  return block;
}

// Not inlined: compilers cache the block's address.
__attribute__((noipa)) static void set(long value) { on = value; }
__attribute__((noipa)) static long get(void) { return on; }
__attribute__((noipa)) static void go_to(char* block) { syscall(SYS_arch_prctl, ARCH_SET_FS, block); }

int main(int argc, char** argv) {
  int rank;
  char* blocks[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  steplog_open(argc, argv, rank);
  __asm__("mov %%fs:0, %0" : "=r"(blocks[0]));
  blocks[1] = second_block(blocks[0]);
  for (int k = 0; k < 2; k++) go_to(blocks[k]), set(k);
  while (steplog_done < steplog_steps) {
    int at = (int)(steplog_done & 1);
    go_to(blocks[at]);
    STEPLOG_CHECK(get() == at);
    for (int k = 0; k < 100; k++) {
      long in = steplog_done + rank, out = 0;
      STEPLOG_CHECK(!MPI_Allreduce(&in, &out, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
      STEPLOG_CHECK(get() == at);
      go_to(blocks[!at]);  // and a switch without an MPI call in between
      STEPLOG_CHECK(get() == !at);
      go_to(blocks[at]);
      steplog_mix((uint64_t)out);
    }
    // most stops come here: on another block than that of the last MPI call and the next one's
    go_to(blocks[!at]);
    steplog_step();
    STEPLOG_CHECK(get() == !at);
  }
  go_to(blocks[0]);
  steplog_ok();
  MPI_Finalize();
  return 0;
}
