// Files held open for writing: one changed in place, one written with stdio, one appended to. Each step
// compares them with a copy in memory, and changes them. The first one has a group, an access control list
// and an attribute, as far as its user and the file system allow.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "steplog.h"

enum { kSize = 20000 };
static unsigned char kept[kSize], found[kSize];

static int opened(const char* folder, const char* name, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  const int fd = open(path, flags | O_CREAT, 0640);
  STEPLOG_CHECK(fd >= 0);
  return fd;
}

static const char kList[] = "system.posix_acl_access", kAttribute[] = "user.sum";
// man 5 acl: a version, then tag, rights and id of the owner, user 12345, the group, the mask and others.
static const struct {
  uint32_t version;
  struct {
    uint16_t tag, rights;
    uint32_t id;
  } of[5];
} list = {2, {{1, 6, -1u}, {2, 6, 12345}, {4, 0, -1u}, {16, 6, -1u}, {32, 0, -1u}}};
static int has_group, has_list, has_attribute;
static mode_t mode;

static void set_attributes(int fd) {
  has_group = !fchown(fd, -1, 12345);
  has_list = !fsetxattr(fd, kList, &list, sizeof list, 0);
  has_attribute = !fsetxattr(fd, kAttribute, "\0\377", 2, 0);
  struct stat st;
  STEPLOG_CHECK(!fstat(fd, &st));
  mode = st.st_mode;
}

static void check_attributes(int fd) {
  char value[sizeof list];
  struct stat st;
  STEPLOG_CHECK(!fstat(fd, &st) && (!has_group || st.st_gid == 12345));
  STEPLOG_CHECK(st.st_mode == mode);
  STEPLOG_CHECK(!has_list || (fgetxattr(fd, kList, value, sizeof value) == sizeof list &&
                              !memcmp(value, &list, sizeof list)));
  STEPLOG_CHECK(!has_attribute ||
                (fgetxattr(fd, kAttribute, value, sizeof value) == 2 && !memcmp(value, "\0\377", 2)));
}

int main(int argc, char** argv) {
  const char* folder = ".";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) folder = argv[i + 1];
  steplog_open(argc, argv, -1);
  const int in_place = opened(folder, "in_place", O_RDWR),
            appended = opened(folder, "appended", O_WRONLY | O_APPEND);
  FILE* stream = fdopen(opened(folder, "stream", O_RDWR), "r+");
  STEPLOG_CHECK(stream && pwrite(in_place, kept, kSize, 0) == kSize);
  set_attributes(in_place);
  long length = 0;
  while (steplog_done < steplog_steps) {
    if (pread(in_place, found, kSize, 0) != kSize || memcmp(kept, found, kSize))
      steplog_fail("in_place differs");
    check_attributes(in_place);
    struct stat st;
    STEPLOG_CHECK(!fstat(appended, &st) && st.st_size == length);
    long value = 0;
    rewind(stream);
    STEPLOG_CHECK(steplog_done == 0 || (fscanf(stream, "%ld", &value) == 1 && value == steplog_done * 7));
    const int at = (int)(steplog_done * 977 % (kSize - 8));
    memset(kept + at, (int)steplog_done + 1, 8);
    STEPLOG_CHECK(pwrite(in_place, kept + at, 8, at) == 8);
    STEPLOG_CHECK(write(appended, "line\n", 5) == 5);
    length += 5;
    rewind(stream);
    fprintf(stream, "%ld\n", (steplog_done + 1) * 7);
    fflush(stream);
    steplog_mix((uint64_t)(kept[at] + length));
    steplog_step();
  }
  steplog_ok();
  return 0;
}
