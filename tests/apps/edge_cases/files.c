// Unusual files and descriptors.
#define _GNU_SOURCE
#include "edge_case.h"

#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/statfs.h>

static void shared_offsets(void) {
  int a = edge_file("data", 4000, 1, O_RDONLY), b = dup(a), c = fcntl(a, F_DUPFD_CLOEXEC, 777),
      other = open("data", O_RDONLY);
  EDGE_CHECK(c >= 777 && b > a);
  for (uint64_t at = 0; edge_more(); at += 9) {
    edge_reads(a, 1, at, 3);
    edge_reads(b, 1, at + 3, 3);
    edge_reads(c, 1, at + 6, 3);
    edge_reads(other, 1, at / 9, 1);
    EDGE_CHECK(lseek(b, 0, SEEK_CUR) == (off_t)at + 9 && fcntl(c, F_GETFD) == FD_CLOEXEC &&
               fcntl(b, F_GETFD) == 0);
  }
}

static void append_beside_plain(void) {
  int plain = edge_file("both", 0, 0, O_RDWR), append = open("both", O_WRONLY | O_APPEND);
  char text[64];
  for (long k = 0; edge_more(); k++) {
    EDGE_CHECK(write(append, "tail.", 5) == 5);
    EDGE_CHECK(pwrite(plain, "P", 1, k * 5) == 1);
    EDGE_CHECK(lseek(plain, 0, SEEK_END) == k * 5 + 5);
    for (long i = 0; i <= k; i++) EDGE_CHECK(pread(plain, text, 5, i * 5) == 5 && !memcmp(text, "Pail.", 5));
  }
}

static void changed_in_place(void) {
  int fd = edge_file("ledger", 64, 0, O_RDWR);
  uint64_t kept[8] = {0}, found[8], state = 5;
  EDGE_CHECK(pwrite(fd, kept, 64, 0) == 64);
  while (edge_more()) {
    EDGE_CHECK(pread(fd, found, 64, 0) == 64 && !memcmp(kept, found, 64));
    for (int i = 0; i < 8; i++) kept[i] += steplog_random(&state);
    EDGE_CHECK(pwrite(fd, kept, 64, 0) == 64);
  }
}

static void changed_in_place_by_stdio(void) {
  FILE* file = fopen("stdio", "w+");
  long kept[10] = {0}, found;
  fwrite(kept, sizeof *kept, 10, file);
  for (int k = 0; edge_more(); k++) {
    fseek(file, (long)sizeof found * (k % 10), SEEK_SET);
    EDGE_CHECK(fread(&found, sizeof found, 1, file) == 1 && found == kept[k % 10]);
    kept[k % 10] = found * 3 + k + 1;
    fseek(file, (long)sizeof found * (k % 10), SEEK_SET);
    EDGE_CHECK(fwrite(&kept[k % 10], sizeof found, 1, file) == 1);
  }
}

static void read_only_map_of_growing_file(void) {
  int fd = edge_file("grows", 100, 3, O_RDWR);
  const unsigned char* map = mmap(NULL, 65536, PROT_READ, MAP_SHARED, fd, 0);
  EDGE_CHECK(map != MAP_FAILED);
  char line[100];
  for (long k = 1; edge_more(); k++) {
    memset(line, 'a' + (int)(k % 26), sizeof line);
    EDGE_CHECK(pwrite(fd, line, 100, k * 100) == 100);
    EDGE_CHECK(map[k * 100] == line[0] && map[k * 100 + 99] == line[0] && map[50] == edge_byte(3, 50));
  }
}

static void no_access_map_made_writable(void) {
  int fd = edge_file("later", 4096, 3, O_RDWR);
  unsigned char* map = mmap(NULL, 4096, PROT_NONE, MAP_SHARED, fd, 0);
  EDGE_CHECK(map != MAP_FAILED);
  unsigned char value;
  for (unsigned char k = 0; edge_more(); k++) {
    EDGE_CHECK(mprotect(map, 4096, PROT_READ | PROT_WRITE) == 0);
    map[7] = k;
    EDGE_CHECK(mprotect(map, 4096, PROT_NONE) == 0);
    EDGE_CHECK(pread(fd, &value, 1, 7) == 1 && value == k);
  }
}

static void unlinked(void) {
  int fd = edge_file("gone", 3000, 4, O_RDWR);
  EDGE_CHECK(unlink("gone") == 0);
  struct stat s;
  for (uint64_t at = 0; edge_more(); at += 10) {
    edge_reads(fd, 4, at, 10);
    EDGE_CHECK(pwrite(fd, &at, 8, 4000) == 8);
    EDGE_CHECK(fstat(fd, &s) == 0 && s.st_size == 4008 && s.st_nlink == 0);
  }
}

static void renamed_while_open(void) {
  int fd = edge_file("name", 3000, 4, O_RDONLY);
  EDGE_CHECK(rename("name", "renamed") == 0);
  for (uint64_t at = 0; edge_more(); at += 10) edge_reads(fd, 4, at, 10);
}

static void renamed_in_every_step(void) {
  char old[32] = "n0", new[32];
  int fd = edge_file(old, 3000, 4, O_RDONLY);
  for (uint64_t at = 0; edge_more(); at += 10) {
    edge_reads(fd, 4, at, 10);
    snprintf(new, sizeof new, "n%d", (int)at % 20 / 10 + 1);
    EDGE_CHECK(rename(old, new) == 0);
    strcpy(old, new);
  }
}

static void half_read_directory(void) {
  int names = 200, seen = 0;
  char name[64];
  EDGE_CHECK(mkdir("many", 0700) == 0 || errno == EEXIST);
  for (int i = 0; i < names; i++) {
    snprintf(name, sizeof name, "many/%d", i);
    close(open(name, O_CREAT | O_WRONLY, 0600));
  }
  DIR* dir = opendir("many");
  bool found[200] = {false};
  for (struct dirent* entry; edge_more();)
    for (int i = 0; i < 15 && (entry = readdir(dir)); i++)
      if (entry->d_name[0] != '.') {
        EDGE_CHECK(!found[atoi(entry->d_name)]);
        found[atoi(entry->d_name)] = true, seen++;
      }
  while (readdir(dir)) seen++;
  EDGE_CHECK(seen == names || steplog_steps < 20);
}

static void getdents_by_hand(void) {  // a small buffer, so that the directory's offset is in the middle
  char name[64], buffer[128];
  EDGE_CHECK(mkdir("dents", 0700) == 0 || errno == EEXIST);
  for (int i = 0; i < 60; i++) {
    snprintf(name, sizeof name, "dents/%02d", i);
    close(open(name, O_CREAT | O_WRONLY, 0600));
  }
  int fd = open("dents", O_RDONLY | O_DIRECTORY), entries = 0;
  for (long size; edge_more();) {
    EDGE_CHECK((size = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) >= 0);
    for (long at = 0; at < size; at += *(unsigned short*)(buffer + at + 16)) entries++;
  }
  for (long size; (size = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0;)
    for (long at = 0; at < size; at += *(unsigned short*)(buffer + at + 16)) entries++;
  EDGE_CHECK(entries == 62);
}

static void path_descriptors(void) {
  close(edge_file("target", 10, 5, O_RDONLY));
  unlink("pointer");
  EDGE_CHECK(symlink("target", "pointer") == 0);
  int file = open("target", O_PATH), link = open("pointer", O_PATH | O_NOFOLLOW),
      here = open(".", O_PATH | O_DIRECTORY);
  char text[64], name[64], byte;
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  while (edge_more()) {
    EDGE_CHECK(read(file, &byte, 1) < 0 && errno == EBADF);
    EDGE_CHECK(readlinkat(link, "", text, sizeof text) == 6 && !memcmp(text, "target", 6));
    int opened = openat(here, "target", O_RDONLY), again = open(name, O_RDONLY);
    edge_reads(opened, 5, 0, 10);
    edge_reads(again, 5, 0, 10);
    EDGE_CHECK(close(opened) == 0 && close(again) == 0);
  }
}

static void opened_relative_to_a_descriptor(void) {
  EDGE_CHECK((mkdir("away", 0700) == 0 || errno == EEXIST) &&
             (mkdir("away/deep", 0700) == 0 || errno == EEXIST));
  int start = open(".", O_RDONLY), away = open("away/deep", O_RDONLY | O_DIRECTORY);
  EDGE_CHECK(fchdir(away) == 0);
  char name[32], where[PATH_MAX];
  for (int k = 0; edge_more(); k++) {
    snprintf(name, sizeof name, "made-%d", k);
    int fd = openat(AT_FDCWD, name, O_CREAT | O_RDWR | O_TRUNC, 0600);
    EDGE_CHECK(fd >= 0 && close(fd) == 0 && faccessat(away, name, F_OK, 0) == 0);
    EDGE_CHECK(getcwd(where, sizeof where) && !strcmp(where + strlen(where) - 10, "/away/deep"));
    EDGE_CHECK(fchdir(k % 2 ? away : start) == 0 && fchdir(away) == 0);
  }
}

static void deleted_working_directory(void) {
  EDGE_CHECK(mkdir("nowhere", 0700) == 0 && chdir("nowhere") == 0 && rmdir("../nowhere") == 0);
  char where[PATH_MAX];
  while (edge_more()) EDGE_CHECK(!getcwd(where, sizeof where) && errno == ENOENT);
}

static void closed_working_directory(void) {
  char where[PATH_MAX];
  EDGE_CHECK(mkdir("closed", 0700) == 0 && chdir("closed") == 0 && getcwd(where, sizeof where));
  EDGE_CHECK(chmod(where, 0) == 0);
  while (edge_more()) EDGE_CHECK(open("file", O_RDONLY) < 0 && errno == EACCES);
  EDGE_CHECK(chmod(where, 0700) == 0);
}

static void closed_directory_descriptor(void) {
  EDGE_CHECK(mkdir("closed", 0700) == 0);
  int fd = open("closed", O_RDONLY | O_DIRECTORY);
  EDGE_CHECK(fd >= 0 && fchmod(fd, 0) == 0);
  while (edge_more()) EDGE_CHECK(openat(fd, "file", O_RDONLY) < 0 && errno == EACCES);
  EDGE_CHECK(fchmod(fd, 0700) == 0);
}

static void two_thousand_files(void) {
  struct rlimit limit;
  EDGE_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max >= 2100);
  limit.rlim_cur = limit.rlim_cur < 2100 ? 2100 : limit.rlim_cur;
  EDGE_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  static int fd[2000];
  close(edge_file("many", 4096, 6, O_RDONLY));
  for (int i = 0; i < 2000; i++)
    EDGE_CHECK((fd[i] = open("many", O_RDONLY)) >= 0 && lseek(fd[i], i, SEEK_SET) == i);
  for (int k = 0; edge_more(); k++)
    for (int i = 0; i < 2000; i++) edge_reads(fd[i], 6, (uint64_t)(i + k), 1);
}

static void descriptors_of_high_numbers(void) {
  struct rlimit limit;
  EDGE_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  EDGE_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  int numbers[] = {899, 900, 901, 950, 1000, 1023, 1024, 65535, 65536, 70000, (int)limit.rlim_max - 1};
  int made[11], count = 0, base = edge_file("high", 4096, 7, O_RDONLY);
  for (int i = 0; i < 11; i++)
    if (numbers[i] < (int)limit.rlim_max) {
      EDGE_CHECK(dup2(base, numbers[i]) == numbers[i]);
      made[count++] = numbers[i];
    }
  EDGE_CHECK(close(base) == 0);
  for (uint64_t at = 0; edge_more();)
    for (int i = 0; i < count; i++) edge_reads(made[i], 7, at++, 1);
}

static void sparse(void) {
  int fd = edge_file("sparse", 0, 0, O_RDWR);
  EDGE_CHECK(ftruncate(fd, 1l << 40) == 0);
  struct stat s;
  for (long k = 1; edge_more(); k++) {
    EDGE_CHECK(pwrite(fd, "island", 6, k << 24) == 6);
    EDGE_CHECK(fstat(fd, &s) == 0 && s.st_size == 1l << 40 && s.st_blocks * 512 < 1 << 24);
    EDGE_CHECK(lseek(fd, (k << 24) + 65536, SEEK_DATA) < 0 && errno == ENXIO);
    char text[6];
    for (long i = 1; i <= k; i++) EDGE_CHECK(pread(fd, text, 6, i << 24) == 6 && !memcmp(text, "island", 6));
  }
}

static void memfd_with_seals(void) {
  int fd = memfd_create("odd memory", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  EDGE_CHECK(fd >= 0 && write(fd, "twelve bytes", 12) == 12 &&
             fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  char text[12];
  while (edge_more()) {
    EDGE_CHECK(pread(fd, text, 12, 0) == 12 && !memcmp(text, "twelve bytes", 12));
    EDGE_CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW) && ftruncate(fd, 5) < 0 &&
               errno == EPERM);
  }
}

static void devices(void) {
  int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR), full = open("/dev/full", O_RDWR),
      random = open("/dev/urandom", O_RDONLY);
  char* private_zero = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, zero, 0);
  EDGE_CHECK(private_zero != MAP_FAILED);
  char text[16];
  for (char k = 1; edge_more(); k++) {
    EDGE_CHECK(read(null, text, 16) == 0 && write(null, text, 16) == 16);
    EDGE_CHECK(read(zero, text, 16) == 16 && text[15] == 0);
    EDGE_CHECK(write(full, text, 1) < 0 && errno == ENOSPC);
    EDGE_CHECK(read(random, text, 16) == 16);
    EDGE_CHECK(private_zero[5000] == k - 1 && private_zero[100] == 0);
    private_zero[5000] = k;
  }
}

static void status_flags(void) {
  int fd = edge_file("flags", 100, 1, O_RDWR), direct = open("flags", O_RDONLY | O_DIRECT),
      synced = open("flags", O_WRONLY | O_SYNC);
  int dsync = open("flags", O_WRONLY | O_DSYNC | O_CLOEXEC), no_atime = open("flags", O_RDONLY | O_NOATIME);
  EDGE_CHECK(fd >= 0 && synced >= 0 && dsync >= 0 && no_atime >= 0);
  EDGE_CHECK(fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
  int before[5] = {fcntl(fd, F_GETFL), direct < 0 ? 0 : fcntl(direct, F_GETFL), fcntl(synced, F_GETFL),
                   fcntl(dsync, F_GETFL), fcntl(no_atime, F_GETFL)};
  while (edge_more()) {
    EDGE_CHECK(fcntl(fd, F_GETFL) == before[0] && before[0] & O_APPEND && before[0] & O_NONBLOCK &&
               fcntl(fd, F_GETFD) == FD_CLOEXEC);
    EDGE_CHECK((direct < 0 || fcntl(direct, F_GETFL) == before[1]) && fcntl(synced, F_GETFL) == before[2]);
    EDGE_CHECK(fcntl(dsync, F_GETFL) == before[3] && fcntl(no_atime, F_GETFL) == before[4] &&
               fcntl(dsync, F_GETFD) == FD_CLOEXEC);
  }
}

static void directory_notification(void) {
  int fd = open(".", O_RDONLY | O_DIRECTORY), got;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 2);
  sigprocmask(SIG_BLOCK, &set, NULL);
  EDGE_CHECK(fcntl(fd, F_SETSIG, SIGRTMIN + 2) == 0 && fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT) == 0);
  for (int k = 0; edge_more(); k++) {
    char name[32];
    snprintf(name, sizeof name, "noted-%d", k);
    unlink(name);
    close(open(name, O_CREAT | O_EXCL | O_WRONLY, 0600));
    struct timespec soon = {5, 0};
    siginfo_t info;
    EDGE_CHECK((got = sigtimedwait(&set, &info, &soon)) == SIGRTMIN + 2 && info.si_fd == fd);
  }
}

static void paths_of_descriptors(void) {
  int fd = edge_file("named", 100, 8, O_RDONLY);
  char name[64], path[PATH_MAX], wanted[PATH_MAX];
  EDGE_CHECK(realpath("named", wanted));
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  while (edge_more()) {
    ssize_t size = readlink(name, path, sizeof path);
    EDGE_CHECK(size == (ssize_t)strlen(wanted) && !memcmp(path, wanted, (size_t)size));
    int again = open(name, O_RDONLY);
    edge_reads(again, 8, 0, 10);
    close(again);
  }
}

static void kept_open_system_files(void) {
  int version = open("/proc/version", O_RDONLY),
      kernel = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY),
      load = open("/proc/loadavg", O_RDONLY);
  char first[200], text[200];
  ssize_t size = pread(version, first, sizeof first, 0);
  lseek(version, 5, SEEK_SET);
  while (edge_more()) {
    EDGE_CHECK(pread(version, text, sizeof text, 0) == size && !memcmp(first, text, (size_t)size) &&
               lseek(version, 0, SEEK_CUR) == 5);
    EDGE_CHECK(pread(load, text, sizeof text, 0) > 5 &&
               (kernel < 0 || pread(kernel, text, sizeof text, 0) > 3));
  }
}

static void unusual_names(void) {
  static const char* const names[] = {"new\nline",
                                      " leading and trailing ",
                                      "gone (deleted)",
                                      "back\\slash \\012",
                                      "\xff\xfe not utf-8 \x80",
                                      "quote\"'s",
                                      "{brace}: [1, null]",
                                      "-rf",
                                      "tab\tand\rreturn",
                                      "\x01\x1b[31m"};
  int fd[10];
  for (int i = 0; i < 10; i++) fd[i] = edge_file(names[i], 1000, 9 + (uint64_t)i, i % 2 ? O_RDONLY : O_RDWR);
  for (uint64_t at = 0; edge_more(); at += 5)
    for (int i = 0; i < 10; i++) edge_reads(fd[i], 9 + (uint64_t)i, at, 5);
}

// So large that their contents stay in the files.
static void mapped_under_unusual_names(void) {
  static const char* const names[] = {"new\nline", "back\\slash \\012", "both\n\\012", "gone (deleted)"};
  enum { kSize = 16 << 20 };
  const char* at[4];
  for (int i = 0; i < 4; i++) {
    const int fd = edge_file(names[i], kSize, 9 + (uint64_t)i, O_RDONLY);
    at[i] = mmap(NULL, kSize, PROT_READ, MAP_PRIVATE, fd, 0);
    EDGE_CHECK(at[i] != MAP_FAILED && close(fd) == 0);
  }
  char here[64], there[64];
  for (off_t where = 0; edge_more(); where += 4099)
    for (int i = 0; i < 4; i++) {
      const int fd = open(names[i], O_RDONLY);
      EDGE_CHECK(pread(fd, here, sizeof here, where % kSize) == (ssize_t)sizeof here && close(fd) == 0);
      memcpy(there, at[i] + where % kSize, sizeof there);
      EDGE_CHECK(memcmp(here, there, sizeof here) == 0);
    }
}

static void path_beyond_path_max(void) {
  char name[201];
  memset(name, 'd', 200);
  name[200] = 0;
  int start = open(".", O_RDONLY);
  for (int i = 0; i < 25; i++) EDGE_CHECK((mkdir(name, 0700) == 0 || errno == EEXIST) && chdir(name) == 0);
  int fd = edge_file("deep", 1000, 9, O_RDONLY);
  EDGE_CHECK(fchdir(start) == 0 && close(start) == 0);
  for (uint64_t at = 0; edge_more(); at += 5) edge_reads(fd, 9, at, 5);
}

static void redirected_symbolic_link(void) {
  close(edge_file("one", 1000, 1, O_RDONLY));
  close(edge_file("two", 1000, 2, O_RDONLY));
  unlink("link");
  EDGE_CHECK(symlink("one", "link") == 0);
  int fd = open("link", O_RDONLY);
  EDGE_CHECK(unlink("link") == 0 && symlink("two", "link") == 0);
  for (uint64_t at = 0; edge_more(); at += 5) edge_reads(fd, 1, at, 5);
}

static void rotated_log(void) {  // every five steps the file is renamed and a new one gets its name
  int fd = edge_file("current", 0, 0, O_RDWR | O_APPEND), lines = 0;
  char line[32], text[32];
  for (int k = 0; edge_more(); k++) {
    if (k % 5 == 4) {
      char old[32];
      snprintf(old, sizeof old, "old-%d", k / 5);
      EDGE_CHECK(rename("current", old) == 0 && close(fd) == 0);
      EDGE_CHECK((fd = open("current", O_CREAT | O_EXCL | O_RDWR | O_APPEND, 0600)) >= 0);
      lines = 0;
    }
    snprintf(line, sizeof line, "line %10d\n", k);
    EDGE_CHECK(write(fd, line, 16) == 16);
    lines++;
    for (int i = 0; i < lines; i++) {
      snprintf(line, sizeof line, "line %10d\n", k - lines + 1 + i);
      EDGE_CHECK(pread(fd, text, 16, i * 16) == 16 && !memcmp(text, line, 16));
    }
    EDGE_CHECK(lseek(fd, 0, SEEK_END) == lines * 16);
  }
}

static void in_kernel_copies(void) {
  int in = edge_file("in", 4000, 1, O_RDONLY), out = edge_file("out", 0, 0, O_RDWR);
  unsigned char text[10];
  for (off_t at = 0; edge_more(); at += 10) {
    EDGE_CHECK(at % 20 ? copy_file_range(in, NULL, out, NULL, 10, 0) == 10
                       : sendfile(out, in, NULL, 10) == 10);
    EDGE_CHECK(lseek(in, 0, SEEK_CUR) == at + 10 && lseek(out, 0, SEEK_CUR) == at + 10);
    EDGE_CHECK(pread(out, text, 10, at) == 10 && text[9] == edge_byte(1, (uint64_t)at + 9));
  }
}

static void time_stamps(void) {
  int fd = edge_file("stamped", 1000, 1, O_RDWR),
      append = edge_file("stamped too", 10, 1, O_WRONLY | O_APPEND);
  struct timespec times[2] = {{1000000000, 123456789}, {1000000007, 987654321}};
  EDGE_CHECK(futimens(fd, times) == 0 && futimens(append, times) == 0);
  struct stat s;
  while (edge_more()) {
    EDGE_CHECK(fstat(fd, &s) == 0 && s.st_mtim.tv_sec == 1000000007 && s.st_mtim.tv_nsec == 987654321);
    EDGE_CHECK(fstat(append, &s) == 0 && s.st_mtim.tv_sec == 1000000007 && s.st_mtim.tv_nsec == 987654321);
  }
}

static void removed_permissions(void) {
  int fd = edge_file("forbidden", 1000, 1, O_RDWR),
      only_read = edge_file("write only now", 1000, 2, O_RDONLY);
  EDGE_CHECK(fchmod(fd, 0) == 0 && fchmod(only_read, 0200) == 0);
  for (uint64_t at = 0; edge_more(); at += 5) {
    edge_reads(fd, 1, at, 5);
    edge_reads(only_read, 2, at, 5);
    EDGE_CHECK(pwrite(fd, "more", 4, 2000) == 4);
  }
}

static void shrinking(void) {
  int fd = edge_file("shrinks", 10000, 1, O_RDWR);
  struct stat s;
  for (long size = 10000; edge_more();) {
    EDGE_CHECK(fstat(fd, &s) == 0 && s.st_size == size);
    unsigned char last;
    EDGE_CHECK(pread(fd, &last, 1, size - 1) == 1 && last == edge_byte(1, (uint64_t)size - 1));
    EDGE_CHECK(ftruncate(fd, size -= 100) == 0);
  }
}

static void punched(void) {
  int fd = edge_file("punched", 1 << 20, 1, O_RDWR);
  unsigned char byte;
  for (long k = 0; edge_more(); k++) {
    EDGE_CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, k << 14, 4096) == 0);
    for (long i = 0; i < 64; i++)
      EDGE_CHECK(pread(fd, &byte, 1, (i << 14) + 77) == 1 &&
                 byte == (i <= k ? 0 : edge_byte(1, (uint64_t)(i << 14) + 77)));
  }
}

static void private_map_of_replaced_file(void) {
  int fd = edge_file("library", 8192, 1, O_RDONLY);
  unsigned char* map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  map[5] = 77;
  close(fd);
  close(edge_file("library.new", 8192, 2, O_RDONLY));
  EDGE_CHECK(rename("library.new", "library") == 0);
  while (edge_more()) {
    EDGE_CHECK(map[5] == 77);
    for (int i = 6; i < 8192; i += 100) EDGE_CHECK(map[i] == edge_byte(1, (uint64_t)i));
  }
}

static void discarded_private_map(void) {  // after MADV_DONTNEED the file's bytes are visible again
  int fd = edge_file("backing", 8192, 1, O_RDONLY);
  unsigned char* map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  while (edge_more()) {
    EDGE_CHECK(madvise(map, 8192, MADV_DONTNEED) == 0);
    EDGE_CHECK(map[5] == edge_byte(1, 5) && map[5000] == edge_byte(1, 5000));
    map[5] ^= 1;
  }
}

static void temporary_file_linked_at_the_end(void) {
  int fd = open(".", O_TMPFILE | O_RDWR, 0600);
  if (fd < 0) fd = edge_file("tmpfile", 0, 0, O_RDWR), unlink("tmpfile");
  char name[64];
  for (long k = 0; edge_more(); k++)
    EDGE_CHECK(write(fd, "record", 6) == 6 && lseek(fd, 0, SEEK_END) == 6 * k + 6);
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  struct stat s;
  EDGE_CHECK(fstat(fd, &s) == 0 && s.st_nlink == 0);
}

static void number_reused_for_another_file(void) {  // dup2 over the same number in every step, and swaps
  int a = edge_file("a", 1000, 1, O_RDONLY), b = edge_file("b", 1000, 2, O_RDONLY), at = 500;
  uint64_t seed[2] = {1, 2}, offset[2] = {0, 0};
  for (int k = 0; edge_more(); k++) {
    edge_reads(a, seed[k % 2], offset[k % 2], 3), offset[k % 2] += 3;
    edge_reads(b, seed[!(k % 2)], offset[!(k % 2)], 2), offset[!(k % 2)] += 2;
    EDGE_CHECK(dup3(a, at, O_CLOEXEC) == at && dup2(b, a) == a && dup2(at, b) == b && close(at) == 0);
  }
}

static void file_opened_by_resolve_flags(void) {
  close(edge_file("beneath", 1000, 1, O_RDONLY));
  int here = open(".", O_RDONLY | O_DIRECTORY);
  struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  int fd = (int)syscall(SYS_openat2, here, "beneath", &how, sizeof how);
  EDGE_CHECK(fd >= 0);
  for (uint64_t at = 0; edge_more(); at += 5) {
    edge_reads(fd, 1, at, 5);
    EDGE_CHECK(syscall(SYS_openat2, here, "/etc/passwd", &how, sizeof how) < 0 && errno == EXDEV);
  }
}

static void descriptor_sent_to_itself(void) {
  int ends[2], fd = edge_file("sent", 1000, 1, O_RDONLY), got;
  EDGE_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {
      .header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
  memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
  char byte = 'x';
  struct iovec part = {&byte, 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  EDGE_CHECK(sendmsg(ends[0], &message, 0) == 1);
  EDGE_CHECK(close(fd) == 0 && recvmsg(ends[1], &message, 0) == 1);
  memcpy(&got, CMSG_DATA(&control.header), sizeof got);
  EDGE_CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
  for (uint64_t at = 0; edge_more(); at += 5) edge_reads(got, 1, at, 5);
}

static void opened_by_int_0x80(void) {
  close(edge_file("old-style", 1000, 1, O_RDONLY));
  char* low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  EDGE_CHECK(low != MAP_FAILED);
  strcpy(low, "old-style");
  long fd;
  __asm__ volatile("int $0x80"
                   : "=a"(fd)
                   : "a"(5L), "b"(low), "c"(0L), "d"(0L)
                   : "memory", "r8", "r9", "r10", "r11");
  if (fd == -38) fd = open("old-style", O_RDONLY);  // a kernel without it
  EDGE_CHECK(fd >= 0);
  for (uint64_t at = 0; edge_more(); at += 5) edge_reads((int)fd, 1, at, 5);
}

static int shared_child(void* fd) {
  *(int*)fd = open("of the child", O_RDONLY);
  return *(int*)fd < 0;
}

static void opened_by_a_child_sharing_descriptors(void) {
  static char stack[65536] __attribute__((aligned(16)));
  int fd = edge_file("of the child", 1000, 1, O_RDONLY);
  close(fd);
  int status,
      pid = clone(shared_child, stack + sizeof stack, CLONE_FILES | CLONE_VM | CLONE_VFORK | SIGCHLD, &fd);
  EDGE_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
  for (uint64_t at = 0; edge_more(); at += 5) edge_reads(fd, 1, at, 5);
}

static void own_descriptor_fetched_by_pidfd(void) {
  int fd = edge_file("taken", 1000, 1, O_RDONLY), pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  int copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
  EDGE_CHECK(pidfd >= 0 && copy >= 0 && close(pidfd) == 0);
  for (uint64_t at = 0; edge_more(); at += 5) {
    edge_reads(fd, 1, at, 3);
    edge_reads(copy, 1, at + 3, 2);
  }
}

static void closed_by_range(void) {
  int fd[50];
  close(edge_file("ranges", 1000, 1, O_RDONLY));
  for (int i = 0; i < 50; i++) fd[i] = open("ranges", O_RDONLY);
  EDGE_CHECK(close_range((unsigned)fd[10], (unsigned)fd[19], 0) == 0 &&
             close_range((unsigned)fd[20], (unsigned)fd[29], CLOSE_RANGE_CLOEXEC) == 0);
  EDGE_CHECK(close_range((unsigned)fd[49] + 1, ~0u, 0) == 0);
  for (uint64_t at = 0; edge_more(); at += 5)
    for (int i = 0; i < 50; i++) {
      if (i >= 10 && i < 20) {
        EDGE_CHECK(fcntl(fd[i], F_GETFD) < 0 && errno == EBADF);
        continue;
      }
      EDGE_CHECK(fcntl(fd[i], F_GETFD) == (i >= 20 && i < 30 ? FD_CLOEXEC : 0));
      edge_reads(fd[i], 1, at, 5);
    }
}

static const struct edge_case table[] = {
    {"shared_offsets", shared_offsets},
    {"append_beside_plain", append_beside_plain},
    {"changed_in_place", changed_in_place},
    {"changed_in_place_by_stdio", changed_in_place_by_stdio},
    {"read_only_map_of_growing_file", read_only_map_of_growing_file},
    {"no_access_map_made_writable", no_access_map_made_writable},
    {"unlinked", unlinked},
    {"renamed_while_open", renamed_while_open},
    {"renamed_in_every_step", renamed_in_every_step},
    {"half_read_directory", half_read_directory},
    {"getdents_by_hand", getdents_by_hand},
    {"path_descriptors", path_descriptors},
    {"opened_relative_to_a_descriptor", opened_relative_to_a_descriptor},
    {"deleted_working_directory", deleted_working_directory},
    {"closed_working_directory", closed_working_directory},
    {"closed_directory_descriptor", closed_directory_descriptor},
    {"two_thousand_files", two_thousand_files},
    {"descriptors_of_high_numbers", descriptors_of_high_numbers},
    {"sparse", sparse},
    {"memfd_with_seals", memfd_with_seals},
    {"devices", devices},
    {"status_flags", status_flags},
    {"directory_notification", directory_notification},
    {"paths_of_descriptors", paths_of_descriptors},
    {"kept_open_system_files", kept_open_system_files},
    {"unusual_names", unusual_names},
    {"mapped_under_unusual_names", mapped_under_unusual_names},
    {"path_beyond_path_max", path_beyond_path_max},
    {"redirected_symbolic_link", redirected_symbolic_link},
    {"rotated_log", rotated_log},
    {"in_kernel_copies", in_kernel_copies},
    {"time_stamps", time_stamps},
    {"removed_permissions", removed_permissions},
    {"shrinking", shrinking},
    {"punched", punched},
    {"private_map_of_replaced_file", private_map_of_replaced_file},
    {"discarded_private_map", discarded_private_map},
    {"temporary_file_linked_at_the_end", temporary_file_linked_at_the_end},
    {"number_reused_for_another_file", number_reused_for_another_file},
    {"file_opened_by_resolve_flags", file_opened_by_resolve_flags},
    {"descriptor_sent_to_itself", descriptor_sent_to_itself},
    {"opened_by_int_0x80", opened_by_int_0x80},
    {"opened_by_a_child_sharing_descriptors", opened_by_a_child_sharing_descriptors},
    {"own_descriptor_fetched_by_pidfd", own_descriptor_fetched_by_pidfd},
    {"closed_by_range", closed_by_range},
};

EDGE_MAIN(table)
