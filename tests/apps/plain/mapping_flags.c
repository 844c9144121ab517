// One mapping for each possible flag. In every step, /proc/self/smaps must show the initial flags of each,
// and its contents must be there. `--future 1`: mlockall(MCL_FUTURE) as well.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

enum { kPage = 4096, kSize = 16 * kPage, kMost = 32 };

static struct {
  const char* name;
  unsigned char* at;
  size_t size;
  char flags[128];
} all[kMost];
static int count;

// Reads /proc/self/smaps in one go: the file stays open as briefly as possible.
static char smaps[1 << 20];
static void read_smaps(void) {
  int fd = open("/proc/self/smaps", O_RDONLY);
  size_t size = 0;
  STEPLOG_CHECK(fd >= 0);
  for (ssize_t n; (n = read(fd, smaps + size, sizeof smaps - 1 - size)) > 0;) size += (size_t)n;
  close(fd);
  smaps[size] = 0;
}

// VmFlags of the mapping that contains `at`, without "sd" (soft-dirty), which the kernel may set at any time.
static void flags_of(const void* at, char* flags, size_t size) {
  int here = 0;
  flags[0] = 0;
  for (const char* line = smaps; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    unsigned long begin, end;
    char* dash;
    begin = strtoul(line, &dash, 16);
    if (*dash == '-' && dash > line) {
      end = strtoul(dash + 1, NULL, 16);
      here = begin <= (unsigned long)at && (unsigned long)at < end;
    }
    if (!here || strncmp(line, "VmFlags: ", 9)) continue;
    for (const char* word = line + 9; word[0] != '\n' && word[0]; word += 3)
      if (strncmp(word, "sd", 2) && strlen(flags) + 4 < size) strncat(flags, word, 3);
  }
  STEPLOG_CHECK(flags[0]);
}

static void* add(const char* name, int flags, int fd) {
  unsigned char* p = mmap(NULL, kSize, fd >= 0 && flags & MAP_SHARED ? PROT_READ : PROT_READ | PROT_WRITE,
                          flags | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
  if (p == MAP_FAILED) return NULL;  // not supported by this kernel
  mmap(NULL, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  all[count].name = name, all[count].at = p, all[count].size = kSize, count++;
  if (fd < 0) memset(p, 0x30 + count, kSize / 2);
  return p;
}

static void advised(const char* name, int advice) {
  void* p = add(name, MAP_PRIVATE, -1);
  if (madvise(p, kSize, advice) != 0) STEPLOG_CHECK(errno == EINVAL);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  int future = 0;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--future")) future = atoi(argv[i + 1]);
  advised("sequential", MADV_SEQUENTIAL);
  advised("random", MADV_RANDOM);
  advised("dontfork", MADV_DONTFORK);
  advised("wipeonfork", MADV_WIPEONFORK);
  advised("dontdump", MADV_DONTDUMP);
  advised("hugepage", MADV_HUGEPAGE);
  advised("nohugepage", MADV_NOHUGEPAGE);
  advised("mergeable", MADV_MERGEABLE);
  add("plain", MAP_PRIVATE, -1);
  add("noreserve", MAP_PRIVATE | MAP_NORESERVE, -1);
  add("growsdown", MAP_PRIVATE | MAP_GROWSDOWN, -1);
  const int droppable = count;
  if (!add("droppable", 8 /* MAP_DROPPABLE, Linux 6.11 */, -1)) steplog_at("no-droppable");
  STEPLOG_CHECK(!mlock(add("locked", MAP_PRIVATE, -1), kSize));
  STEPLOG_CHECK(!mlock2(add("locked on fault", MAP_PRIVATE, -1), kSize, MLOCK_ONFAULT));
  mprotect(add("hidden", MAP_PRIVATE, -1), kSize, PROT_NONE);
  mprotect(add("read only", MAP_PRIVATE, -1), kSize, PROT_READ);
  all[count].name = "reserved", all[count].size = 1ul << 40;
  all[count++].at = mmap(NULL, 1ul << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(all[count - 1].at != MAP_FAILED);
  int fd = open("/proc/self/exe", O_RDONLY);
  add("file", MAP_PRIVATE, fd);
  madvise(add("random file", MAP_PRIVATE, fd), kSize, MADV_RANDOM);
  add("shared file", MAP_SHARED, fd);
  close(fd);
  if (syscall(462 /* mseal, Linux 6.10 */, add("sealed", MAP_PRIVATE, -1), (size_t)kSize, 0) != 0)
    STEPLOG_CHECK(errno == ENOSYS);
  if (future) STEPLOG_CHECK(!mlockall(MCL_FUTURE | MCL_ONFAULT));
  read_smaps();
  for (int i = 0; i < count; i++) flags_of(all[i].at, all[i].flags, sizeof all[i].flags);
  char now[128];
  int new_is_locked = 0;
  while (steplog_done < steplog_steps) {
    void* fresh = mmap(NULL, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    STEPLOG_CHECK(fresh != MAP_FAILED);
    if (steplog_done % 10 == 0) read_smaps();
    if (steplog_done % 10 == 0) flags_of(fresh, now, sizeof now), new_is_locked = strstr(now, "lo ") != NULL;
    munmap(fresh, kPage);
    STEPLOG_CHECK(!future == !new_is_locked);
    for (int i = 0; i < count; i++) {
      flags_of(all[i].at, now, sizeof now);
      if (strcmp(now, all[i].flags)) steplog_fail("%s: flags %s, were %s", all[i].name, now, all[i].flags);
      if (!strncmp(now, "rd", 2) && !strstr(all[i].name, "file") && i != droppable)
        for (int k = 0; k < kSize; k += 512) STEPLOG_CHECK(all[i].at[k] == (k < kSize / 2 ? 0x31 + i : 0));
    }
    if (steplog_done % 10 == 9) {  // uses the purpose of some of them
      pid_t child = fork();
      if (child == 0) _exit(all[3].at[0] == 0 && all[8].at[0] == 0x31 + 8 ? 0 : 1);
      int status;
      STEPLOG_CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
