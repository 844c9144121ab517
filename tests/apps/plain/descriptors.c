// Uses of descriptors: closes 3 to 1023 at the start, one by one and by close_range, as daemons do; renumbers
// descriptors by dup, dup2, dup3 and fcntl, to high and low numbers; copies share their offset, also across a
// restart.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "steplog.h"

static off_t offset(int fd) { return lseek(fd, 0, SEEK_CUR); }

int main(int argc, char** argv) {
  const char* work = NULL;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) work = argv[i + 1];
  for (int fd = 3; fd < 1024; fd++) close(fd);
  close_range(3, ~0u, 0);
  STEPLOG_CHECK(work);
  int lowest = open("/dev/null", O_RDONLY);
  STEPLOG_CHECK(lowest == 3);  // the lowest free number, as natively
  close(lowest);
  steplog_open(argc, argv, -1);
  char path[4096];
  snprintf(path, sizeof path, "%s/descriptors.txt", work);
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  STEPLOG_CHECK(file >= 0);
  struct rlimit limit;
  STEPLOG_CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
  const int high = dup2(file, 700), same = dup2(700, 700), low = fcntl(file, F_DUPFD_CLOEXEC, 40);
  STEPLOG_CHECK(high == 700 && same == 700 && low == 40);
  const int over = dup3(file, 41, O_CLOEXEC);
  STEPLOG_CHECK(over == 41 && fcntl(41, F_GETFD) == FD_CLOEXEC && fcntl(700, F_GETFD) == 0);
  STEPLOG_CHECK(dup2(file, 800) == 800 && !close(file));  // the first number is closed, the copies stay
  int separate = open(path, O_RDONLY);
  STEPLOG_CHECK(separate >= 0);
  const int input = dup(0);
  while (steplog_done < steplog_steps) {
    off_t at = steplog_done * 8;
    STEPLOG_CHECK(offset(700) == at && offset(40) == at && offset(41) == at && offset(800) == at);
    STEPLOG_CHECK(fcntl(41, F_GETFD) == FD_CLOEXEC && fcntl(40, F_GETFD) == FD_CLOEXEC &&
                  fcntl(700, F_GETFD) == 0);
    static const int copies[] = {700, 40, 41, 800};
    uint64_t word = (uint64_t)steplog_done * 77, back;
    STEPLOG_CHECK(write(copies[steplog_done % 4], &word, 8) == 8);
    STEPLOG_CHECK(pread(separate, &back, 8, at) == 8 && back == word && offset(separate) == 0);
    for (int fd = 100; fd < 140; fd++) STEPLOG_CHECK(dup2(separate, fd) == fd);
    for (int fd = 100; fd < 140; fd++) STEPLOG_CHECK(!close(fd));
    errno = 0;
    STEPLOG_CHECK(dup2(139, 5) == -1 && errno == EBADF);
    STEPLOG_CHECK(close(139) == -1 && errno == EBADF);
    if (steplog_done % 5 == 0) {  // standard input is redirected, then restored
      STEPLOG_CHECK(dup2(separate, 0) == 0 && read(0, &back, 8) == 8 && back == 0 &&
                    lseek(0, 0, SEEK_SET) == 0);
      STEPLOG_CHECK(dup2(input, 0) == 0);
    }
    for (int fd = 950; fd < 1024; fd++) close(fd);
    steplog_mix(word);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
