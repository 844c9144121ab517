// Replaces itself by exec once, by argv[0] or (executes self) by /proc/self/exe, and continues in the new
// process. With "self", it first reads its own file by that name, as programs with data appended to their
// code do.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "steplog.h"

int main(int argc, char** argv) {
  if (!getenv("EXECUTED")) {
    if (argc > 1 && !strcmp(argv[1], "self")) {
      // stat() of the link's own name is the only call that shows the lower half
      struct stat by_name, opened;
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
