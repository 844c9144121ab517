// Private mappings of files: contents, the program's changes, pages written with the bytes that the file has
// (they stay when the file is written to), discarded changes (after MADV_DONTNEED the file's contents are
// visible again), and a file that grows (access beyond its end raised SIGBUS before, and
// shows the file's bytes afterwards). --work DIR: for its files
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "faults.h"
#include "steplog.h"

enum { kPage = 4096, kPages = 24 };

static int filled_file(const char* name, char with) {
  char page[kPage];
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  memset(page, with, kPage);
  STEPLOG_CHECK(fd >= 0 && pwrite(fd, page, kPage, 0) == kPage);
  return fd;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  catch_faults(SIGBUS);
  const char* work = ".";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) work = argv[i + 1];
  char name[4096], other[4096], page[kPage];
  snprintf(name, sizeof name, "%s/mapped-%d", work, getpid());
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  STEPLOG_CHECK(fd >= 0);
  for (int i = 0; i < 8; i++) {
    memset(page, 'a' + i, kPage);
    STEPLOG_CHECK(write(fd, page, kPage) == kPage);
  }
  unsigned char* p = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  const unsigned char* shared = mmap(NULL, 4 * kPage, PROT_READ, MAP_PRIVATE, fd, 2 * kPage);
  STEPLOG_CHECK(p != MAP_FAILED && shared != MAP_FAILED);
  for (int i = 4; i < 8; i++) memset(p + i * kPage, 'A' + i, kPage);
  memset(p + 3 * kPage, 0, kPage);  // a page changed to zeros is a change, too
  snprintf(other, sizeof other, "%s/copied-%d", work, getpid());
  const int copied = filled_file(other, 'a');
  volatile char* copy = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, copied, 0);
  STEPLOG_CHECK(copy != MAP_FAILED);
  copy[0] = copy[0];
  int size = 8;
  while (steplog_done < steplog_steps) {
    for (int i = 0; i < kPages; i++) {
      if (i >= size) {
        STEPLOG_CHECK(faults(p + i * kPage));
        continue;
      }
      const int own = i >= 4 && i < 8;
      STEPLOG_CHECK(p[i * kPage + 5] == (i == 3 ? 0 : own ? 'A' + i : 'a' + i));
    }
    for (int i = 0; i < 4; i++) STEPLOG_CHECK(shared[i * kPage] == 'a' + 2 + i);
    STEPLOG_CHECK(!madvise(p + 7 * kPage, kPage, MADV_DONTNEED) && p[7 * kPage] == 'a' + 7);
    STEPLOG_CHECK(!madvise(p, kPage, MADV_DONTNEED) && p[0] == 'a');
    memset(p + 7 * kPage, 'A' + 7, kPage);
    if (steplog_done % 5 == 4 && size < kPages) {  // written through the descriptor
      memset(page, 'a' + size, kPage);
      STEPLOG_CHECK(write(fd, page, kPage) == kPage);
      size++;
    }
    if (steplog_done == steplog_steps - 1) STEPLOG_CHECK(pwrite(copied, "b", 1, 0) == 1);
    STEPLOG_CHECK(copy[0] == 'a');
    steplog_mix((uint64_t)size);
    steplog_step();
  }
  unlink(name);
  unlink(other);
  steplog_ok();
  return 0;
}
