// Signal masks from contexts: a handler changes the mask in its context; getcontext and sigsetjmp have saved
// one that blocks everything. The program continues with that mask, and makes all kinds of system calls.
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "steplog.h"

enum Way { kSigsys, kFilled, kBits, kBitsOfAll };

static volatile sig_atomic_t calls;
static volatile enum Way way;

static void blocks(int number, siginfo_t* info, void* at) {
  (void)number, (void)info;
  sigset_t* mask = &((ucontext_t*)at)->uc_sigmask;
  if (way == kSigsys) sigaddset(mask, SIGSYS), sigaddset(mask, SIGUSR1);
  if (way == kFilled) sigfillset(mask);
  if (way == kBits) *(unsigned long*)mask |= 1ul << (SIGSYS - 1) | 1ul << 32 | 1ul << (SIGUSR1 - 1);
  if (way == kBitsOfAll) *(unsigned long*)mask = ~0ul;
  calls++;
}

static int is_blocked(int number) {
  sigset_t now;
  STEPLOG_CHECK(!sigprocmask(SIG_BLOCK, NULL, &now));
  return sigismember(&now, number);
}

static void block(int how, int number) {
  sigset_t set;
  if (number)
    sigemptyset(&set), sigaddset(&set, number);
  else
    sigfillset(&set);
  STEPLOG_CHECK(!sigprocmask(how, &set, NULL));
}

static void works(void) {
  const int fd = open("/dev/zero", O_RDONLY);
  char byte = 1;
  STEPLOG_CHECK(fd >= 0 && read(fd, &byte, 1) == 1 && byte == 0 && !close(fd));
  char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(page != MAP_FAILED && page[0] == 0 && !munmap(page, 4096));
  STEPLOG_CHECK(is_blocked(SIGUSR1) == 1);
}

static ucontext_t first, second;
static char other_stack[65536], alternate[65536];

static void elsewhere(void) {
  works();
  swapcontext(&second, &first);
  works();
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
  sigaltstack(&stack, NULL);
  while (steplog_done < steplog_steps) {
    for (int on = 0; on < 2; on++)
      for (int w = kSigsys; w <= kBitsOfAll; w++) {
        struct sigaction action = {.sa_sigaction = blocks, .sa_flags = SA_SIGINFO | (on ? SA_ONSTACK : 0)};
        way = (enum Way)w;
        sigaction(SIGUSR2, &action, NULL);
        const int before = calls;
        raise(SIGUSR2);
        STEPLOG_CHECK(calls == before + 1);
        works();
        block(SIG_UNBLOCK, 0);
      }
    const struct sigaction own = {.sa_sigaction = blocks, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &own, NULL);
    raise(SIGSYS);
    works();
    block(SIG_UNBLOCK, 0);
    // Restores a saved mask that blocks everything.
    sigjmp_buf place;
    block(SIG_BLOCK, 0);
    if (sigsetjmp(place, 1) == 0) {
      block(SIG_UNBLOCK, 0);
      siglongjmp(place, 1);
    }
    works();
    getcontext(&second);
    memset(&second.uc_sigmask, 0xff, 8);
    second.uc_stack = (stack_t){.ss_sp = other_stack, .ss_size = sizeof other_stack};
    second.uc_link = &first;
    makecontext(&second, elsewhere, 0);
    block(SIG_UNBLOCK, 0);
    block(SIG_BLOCK, SIGUSR1);
    swapcontext(&first, &second);
    works();
    swapcontext(&first, &second);
    works();
    block(SIG_UNBLOCK, 0);
    // The step continues, and is checkpointed, with everything blocked by a handler.
    way = kBitsOfAll;
    raise(SIGUSR2);
    steplog_mix((uint64_t)calls);
    steplog_step();
    works();
    block(SIG_UNBLOCK, 0);
  }
  steplog_ok();
  return 0;
}
