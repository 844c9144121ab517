// Replaces itself by exec once, by way of argv[0] or of /proc/self/exe (executes self), and goes on in the
// new process. Before, with "self", it reads its own file by that name, as programs with data behind their
// code do.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "steplog.h"

int main(int argc, char** argv) {
  if (!getenv("EXECUTED")) {
    if (argc > 1 && !strcmp(argv[1], "self")) {
      struct stat by_name, opened;  // stat() by the link's own name is the one look that sees the lower half
      FILE* image = fopen("/proc/self/exe", "rb");
      if (!image || fstat(fileno(image), &opened) || stat(argv[0], &by_name) ||
          opened.st_ino != by_name.st_ino) {
        fprintf(stderr, "/proc/self/exe is another file than %s\n", argv[0]);
        return 1;
      }
      fclose(image);
    }
    setenv("EXECUTED", "1", 1);
    execv(argc > 1 && !strcmp(argv[1], "self") ? "/proc/self/exe" : argv[0], argv);
    fprintf(stderr, "exec: %s\n", strerror(errno));
    return 1;
  }
  steplog_open(argc, argv, -1);
  char exe[4096] = {0};
  STEPLOG_CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0 &&
                !strcmp(strrchr(exe, '/'), "/executes"));
  while (steplog_done < steplog_steps) {
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
