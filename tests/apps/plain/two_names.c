// One file open by two hard links, one open only by its second name, and one opened through two symbolic
// links: data written by one name are read by the other.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "steplog.h"

static const char* folder = ".";

static const char* path(int which, const char* name) {
  static char texts[2][4096];
  snprintf(texts[which], sizeof texts[which], "%s/%s", folder, name);
  return texts[which];
}

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) folder = argv[i + 1];
  steplog_open(argc, argv, -1);
  mkdir(path(0, "below"), 0700);
  for (const char* const* name =
           (const char* const[]){"first", "second", "link1", "link2", "below/file", NULL};
       *name; name++)
    unlink(path(0, *name));
  int fd[6];
  STEPLOG_CHECK((fd[0] = open(path(0, "first"), O_RDWR | O_CREAT, 0600)) >= 0);
  STEPLOG_CHECK(!link(path(0, "first"), path(1, "second")));
  STEPLOG_CHECK((fd[1] = open(path(0, "second"), O_RDWR)) >= 0 &&
                (fd[2] = open(path(0, "second"), O_RDONLY)) >= 0);
  STEPLOG_CHECK((fd[3] = open(path(0, "below/file"), O_RDWR | O_CREAT, 0600)) >= 0);
  STEPLOG_CHECK(!symlink("below/file", path(0, "link1")) && !symlink("below/file", path(0, "link2")));
  STEPLOG_CHECK((fd[4] = open(path(0, "link1"), O_WRONLY)) >= 0 &&
                (fd[5] = open(path(0, "link2"), O_RDONLY)) >= 0);
  long value = 0;
  for (int i = 0; i < 2; i++) STEPLOG_CHECK(pwrite(fd[3 * i], &value, sizeof value, 0) == sizeof value);
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < 6; i++)
      if (i != 4)
        STEPLOG_CHECK(pread(fd[i], &value, sizeof value, 0) == sizeof value && value == steplog_done);
    value = steplog_done + 1;
    STEPLOG_CHECK(pwrite(fd[value % 2], &value, sizeof value, 0) == sizeof value);
    STEPLOG_CHECK(pwrite(fd[3 + value % 2], &value, sizeof value, 0) == sizeof value);
    steplog_mix((uint64_t)value);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
