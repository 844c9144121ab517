// Starts children by fork, posix_spawn (like vfork) and system, and waits for each; they end by _exit, exit
// and exec. None in the second half of the steps.
#define _GNU_SOURCE
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

extern char** environ;

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  char* block = malloc(100000);
  memset(block, 7, 100000);
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    if (step < steplog_steps / 2) {
      int status, code = (int)(step % 100);
      pid_t child = fork();
      STEPLOG_CHECK(child >= 0);
      if (child == 0) {
        // The child has its own copy: its changes to memory and descriptors do not affect the parent.
        memset(block, 9, 100000);
        char* more = malloc(1 << 20);
        memset(more, 1, 1 << 20);
        _exit(more[77] + block[5] == 10 && getppid() > 0 ? code : 255);
      }
      STEPLOG_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == code);
      STEPLOG_CHECK(block[5] == 7);
      if (step % 4 == 1) {
        char text[32];
        snprintf(text, sizeof text, "exit %d", code);
        char* arguments[] = {"sh", "-c", text, NULL};
        STEPLOG_CHECK(!posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ));
        STEPLOG_CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                      WEXITSTATUS(status) == code);
      }
      if (step % 4 == 3) {
        status = system("exit 3");
        STEPLOG_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
      }
      steplog_mix((uint64_t)code);
    }
    steplog_step();
  }
  steplog_ok();
  return 0;
}
