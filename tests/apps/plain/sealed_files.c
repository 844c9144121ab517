// Files whose modes forbid writing: one created like this (open(2) with O_CREAT applies the mode only later)
// and written in place, one made read-only afterwards and appended to. The program keeps writing.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "steplog.h"

static int make(const char* directory, const char* name, int flags, mode_t mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return open(path, O_RDWR | O_CREAT | O_EXCL | flags, mode);
}

static mode_t mode_of(int fd) {
  struct stat about;
  return fstat(fd, &about) == 0 ? about.st_mode & 07777 : 0;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  const char* directory = ".";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) directory = argv[i + 1];
  const int placed = make(directory, "placed", 0, 0444),
            appended = make(directory, "appended", O_APPEND, 0600);
  STEPLOG_CHECK(placed >= 0 && appended >= 0 && fchmod(appended, 0400) == 0);
  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    long before = -1;
    STEPLOG_CHECK(mode_of(placed) == 0444 && mode_of(appended) == 0400);
    if (step > 0)
      STEPLOG_CHECK(pread(placed, &before, sizeof before, (step - 1) * 8) == 8 && before == step - 1);
    STEPLOG_CHECK(pwrite(placed, &step, sizeof step, step * 8) == 8);
    STEPLOG_CHECK(write(appended, &step, sizeof step) == 8);
    struct stat about;
    STEPLOG_CHECK(fstat(appended, &about) == 0 && about.st_size == (step + 1) * 8);
    steplog_mix((uint64_t)before);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
