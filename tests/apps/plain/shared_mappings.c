// Shared mappings without write access, held in the first half of the steps: shared_mappings HOW --work DIR
//   read-write-descriptor  PROT_READ, of a descriptor opened for writing: its writes are visible, mprotect
//   can add access none                   PROT_NONE, of such a descriptor anonymous MAP_ANONYMOUS, PROT_READ
//   memfd                  PROT_READ of a memfd
//   read-only              of a descriptor opened for reading: can be saved
//   data-set               a file of 40 MB, of a descriptor opened for reading: can be saved without its
//   contents if an
//                          earlier run made the file; its pages are the file's, so discarded pages come back
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "steplog.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  steplog_open(argc, argv, -1);
  const char *how = argv[1], *work = ".";
  for (int i = 2; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) work = argv[i + 1];
  char name[4096], text[8192];
  const size_t data = 40 << 20;
  const int set = !strcmp(how, "data-set"), only = set || !strcmp(how, "read-only");
  snprintf(name, sizeof name, "%s/shared-%d", work, set ? 0 : getpid());
  memset(text, 'x', sizeof text);
  int fd = !strcmp(how, "memfd") ? memfd_create("shared", 0)
           : set                 ? open(name, O_RDWR | O_CREAT, 0600)
                                 : open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  const int there = set && lseek(fd, 0, SEEK_END) == (off_t)data;
  STEPLOG_CHECK(fd >= 0 && (there || write(fd, text, sizeof text) == sizeof text));
  for (size_t i = sizeof text; set && !there && i < data; i += sizeof text) {
    memset(text, (int)(i / sizeof text), sizeof text);
    STEPLOG_CHECK(write(fd, text, sizeof text) == sizeof text);
  }
  if (only) close(fd), fd = open(name, O_RDONLY);
  unsigned char* p = mmap(NULL, set ? data : 8192, !strcmp(how, "none") ? PROT_NONE : PROT_READ,
                          MAP_SHARED | (!strcmp(how, "anonymous") ? MAP_ANONYMOUS : 0),
                          !strcmp(how, "anonymous") ? -1 : fd, 0);
  STEPLOG_CHECK(p != MAP_FAILED);
  close(fd);
  while (steplog_done < steplog_steps) {
    if (only) STEPLOG_CHECK(p[5] == 'x' && mprotect(p, 4096, PROT_READ | PROT_WRITE) != 0);
    if (!only && steplog_done == steplog_steps / 2) munmap(p, 8192);
    if (set) {
      steplog_mix(p[(size_t)steplog_done * 7919 * 512 % data]);
      STEPLOG_CHECK(madvise(p, data, MADV_DONTNEED) == 0);
      steplog_mix(p[(size_t)steplog_done * 104729 * 512 % data]);
    }
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  if (!set) unlink(name);
  steplog_ok();
  return 0;
}
