// Holds --files N descriptors of a file, each with its own read offset, some of them copies, and, if the
// limit allows, two with high numbers. Checks all of them in each step, and that a child has exactly these.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

enum { kMost = 5000, kHigh1 = 15000, kHigh2 = 70000 };

// In a child: the number of its descriptors between `first` and `end`, without the high ones.
static int descriptors_between(int first, int end) {
  int found = 0;
  DIR* all = opendir("/proc/self/fd");
  for (struct dirent* one; all && (one = readdir(all));) {
    const int fd = atoi(one->d_name);
    found += fd > first && fd < end && fd != dirfd(all);
  }
  return found;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  const char* work = ".";
  long files = 100;
  for (int i = 1; i + 1 < argc; i++) {
    if (!strcmp(argv[i], "--work")) work = argv[i + 1];
    if (!strcmp(argv[i], "--files")) files = atol(argv[i + 1]);
  }
  struct rlimit limit;
  STEPLOG_CHECK(!getrlimit(RLIMIT_NOFILE, &limit) && files <= kMost);
  static int fds[kMost];
  char path[4096];
  snprintf(path, sizeof path, "%s/many", work);
  FILE* file = fopen(path, "w");
  for (long i = 0; i < files; i++) fprintf(file, "%07ld\n", i);
  fclose(file);
  long opened = 0;
  for (; opened < files; opened++) {
    fds[opened] = opened % 7 == 6 ? dup(fds[opened - 1]) : open(path, O_RDONLY);
    STEPLOG_CHECK(fds[opened] >= 0);
    STEPLOG_CHECK(lseek(fds[opened], opened * 8, SEEK_SET) == opened * 8);
  }
  const int high1 = limit.rlim_cur > kHigh1, high2 = limit.rlim_cur > kHigh2;
  if (high1) STEPLOG_CHECK(dup2(fds[0], kHigh1) == kHigh1);
  if (high2) STEPLOG_CHECK(dup2(fds[0], kHigh2) == kHigh2);
  fprintf(stderr, "high numbers: %d %d\n", high1 ? kHigh1 : 0, high2 ? kHigh2 : 0);
  while (steplog_done < steplog_steps) {
    for (long i = 0; i < files; i++) {
      const long of = i % 7 == 5 && i + 1 < files ? i + 1 : i;  // its copy moved the offset
      STEPLOG_CHECK(lseek(fds[i], 0, SEEK_CUR) == of * 8);
      char word[8];
      STEPLOG_CHECK(pread(fds[i], word, 8, i * 8) == 8 && atol(word) == i);
    }
    if (high1) STEPLOG_CHECK(lseek(kHigh1, 0, SEEK_CUR) == lseek(fds[0], 0, SEEK_CUR));
    if (high2) STEPLOG_CHECK(lseek(kHigh2, 0, SEEK_CUR) == lseek(fds[0], 0, SEEK_CUR));
    const int next = open("/dev/null", O_RDONLY);  // the lowest free number, as natively
    STEPLOG_CHECK(next == fds[files - 1] + 1);
    close(next);
    if (high1 && steplog_done > 10 && steplog_done % 10 == 9) {
      const pid_t child = fork();
      if (child == 0)
        _exit(descriptors_between(fds[files - 1], kHigh1) + descriptors_between(kHigh1, kHigh2));
      int status;
      STEPLOG_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
