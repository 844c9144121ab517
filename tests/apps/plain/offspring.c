// Children of every kind, all waited for: vfork, posix_spawn with attributes, system, popen in both
// directions, exec after fork, with every signal blocked; a child that maps, opens, dups and sets handlers; a
// grandchild. Changes that children make to signals, descriptors and memory do not affect the parent.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

extern char** environ;
static volatile sig_atomic_t here;
static void count(int number) { here += number; }

static int exit_status(pid_t child) {
  int status;
  STEPLOG_CHECK(child > 0 && waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int busy_child(void) {
  here = 0;
  if (signal(SIGUSR2, SIG_IGN) != count || signal(SIGTERM, count) == SIG_ERR) return 1;
  raise(SIGTERM);
  if (here != SIGTERM) return 2;
  for (int i = 0; i < 200; i++) {
    char* p = mmap(NULL, 70000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 3;
    p[69999] = 1;
    p = mremap(p, 70000, 700000, MREMAP_MAYMOVE);
    if (p == MAP_FAILED || p[69999] != 1 || munmap(p, 700000)) return 4;
    int fd = open("/dev/null", O_RDONLY), copy = dup2(fd, 300);
    if (copy != 300 || close(fd) || close(copy)) return 5;
  }
  void* block = sbrk(100000);
  if (block == (void*)-1) return 6;
  memset(block, 1, 100000);
  pid_t grandchild = fork();
  if (grandchild == 0) _exit(getppid() > 0 ? 9 : 1);
  int status;
  if (waitpid(grandchild, &status, 0) != grandchild || !WIFEXITED(status) || WEXITSTATUS(status) != 9)
    return 7;
  return getpid() == getppid() ? 8 : 40;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  signal(SIGUSR2, count);
  while (steplog_done < steplog_steps) {
    if (steplog_done % 6 == 0 && steplog_done < steplog_steps / 2) {
      volatile pid_t child = vfork();
      if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 11", (char*)NULL);
        _exit(99);
      }
      STEPLOG_CHECK(exit_status(child) == 11);
      child = vfork();
      if (child == 0) _exit(12);
      STEPLOG_CHECK(exit_status(child) == 12);

      posix_spawnattr_t attributes;
      posix_spawn_file_actions_t actions;
      sigset_t every, old;
      sigfillset(&every);
      posix_spawnattr_init(&attributes);
      posix_spawn_file_actions_init(&actions);
      posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
      posix_spawnattr_setsigdefault(&attributes, &every);
      sigprocmask(SIG_SETMASK, &every, &old);
      posix_spawnattr_setsigmask(&attributes, &old);
      posix_spawn_file_actions_addopen(&actions, 5, "/dev/zero", O_RDONLY, 0);
      char* words[] = {"sh", "-c", "test \"$(head -c 3 <&5 | wc -c)\" = 3 && kill -USR2 $$; exit 1", NULL};
      pid_t spawned;
      STEPLOG_CHECK(!posix_spawn(&spawned, "/bin/sh", &actions, &attributes, words, environ));
      STEPLOG_CHECK(exit_status(spawned) == -SIGUSR2);
      sigprocmask(SIG_SETMASK, &old, NULL);
      posix_spawnattr_destroy(&attributes);
      posix_spawn_file_actions_destroy(&actions);

      int status = system("exit 13");
      STEPLOG_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 13);
      FILE* from = popen("echo $((6 * 7))", "r");
      int value = 0;
      STEPLOG_CHECK(from && fscanf(from, "%d", &value) == 1 && value == 42 && !pclose(from));
      FILE* to = popen("read word; test \"$word\" = hello", "w");
      STEPLOG_CHECK(to && fprintf(to, "hello\n") == 6 && !pclose(to));

      pid_t busy = fork();
      if (busy == 0) _exit(busy_child());
      STEPLOG_CHECK(exit_status(busy) == 40);
    }
    here = 0;
    raise(SIGUSR2);
    STEPLOG_CHECK(here == SIGUSR2);  // the children's handlers did not change the parent's
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
