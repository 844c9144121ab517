// The stack grows by half a megabyte in each step, to 24 MB in 48 steps: more than the usual limit (ulimit
// -s). And stacks of which little is left, as those of coroutines and small alternate ones: system calls
// leave what lies below alone.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "steplog.h"

enum { kLeft = 512, kBelow = 4096 };
static unsigned char small[kBelow + kLeft] __attribute__((aligned(16)));

static long call_at_the_end(long number, long a, long b, long c, long d) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = -1;
  register long r9 __asm__("r9") = 0;
  register void* top __asm__("r12") = small + sizeof small;
  long result;
  memset(small, 0xa5, sizeof small);
  __asm__ volatile("mov %%rsp, %%r13; mov %%r12, %%rsp; syscall; mov %%r13, %%rsp"
                   : "=a"(result)
                   : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9), "r"(top)
                   : "rcx", "r11", "r13", "memory");
  for (long i = 0; i < kBelow; i++)
    if (small[i] != 0xa5)
      steplog_fail("system call %ld used %ld bytes of stack", number, (long)sizeof small - i);
  return result;
}

static void little_stack(void) {
  unsigned long mask = 0;
  struct timespec now;
  long fd = call_at_the_end(SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDONLY, 0);
  STEPLOG_CHECK(fd >= 0 && call_at_the_end(SYS_close, fd, 0, 0, 0) == 0);
  long page = call_at_the_end(SYS_mmap, 0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS);
  STEPLOG_CHECK(page > 0 && call_at_the_end(SYS_munmap, page, 4096, 0, 0) == 0);
  STEPLOG_CHECK(call_at_the_end(SYS_getpid, 0, 0, 0, 0) > 0);
  STEPLOG_CHECK(call_at_the_end(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0) == 0);
  STEPLOG_CHECK(call_at_the_end(SYS_rt_sigprocmask, SIG_BLOCK, (long)&mask, 0, 8) == 0);
}

enum { kBlock = 1 << 16 };

static uint64_t fill(long depth) {
  volatile unsigned char block[kBlock];
  for (long i = 0; i < kBlock; i += 512) block[i] = (unsigned char)(depth + i / 512);
  uint64_t sum = depth > 0 ? fill(depth - 1) : 0;
  for (long i = 0; i < kBlock; i += 512) STEPLOG_CHECK(block[i] == (unsigned char)(depth + i / 512));
  return sum + block[kBlock - 512];
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  while (steplog_done < steplog_steps) {
    steplog_mix(fill((steplog_done + 1) * 8));
    little_stack();
    steplog_step();
  }
  steplog_ok();
  return 0;
}
