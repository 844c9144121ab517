// What the program sees of itself: arguments, environment, working directory, /proc/self/exe, umask, limits.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "steplog.h"

// Other paths that lead to the program's file like /proc/self/exe.
static void check_by_other_words(const char* exe) {
  char names[6][64], found[4096], resolved[4096];
  snprintf(names[0], sizeof names[0], "/proc/%d/exe", getpid());
  snprintf(names[1], sizeof names[1], "/proc//self/exe");
  snprintf(names[2], sizeof names[2], "/proc/self/task/../exe");
  snprintf(names[3], sizeof names[3], "/proc/self/task/%d/exe", getpid());
  snprintf(names[4], sizeof names[4], "/proc/%d/task/%d/exe", getpid(), getpid());
  snprintf(names[5], sizeof names[5], "/proc/thread-self/exe");
  for (int i = 0; i < 6; i++) {
    memset(found, 0, sizeof found);
    if (readlink(names[i], found, sizeof found - 1) <= 0 || strcmp(found, exe))
      steplog_fail("%s is %s", names[i], found);
    if (!realpath(names[i], resolved) || strcmp(resolved, exe))
      steplog_fail("%s leads to %s", names[i], resolved);
  }
}

// Paths through descriptors. Before the first step, since such descriptors would refuse a checkpoint.
static void check_by_descriptors(const char* directory, const char* exe) {
  char found[4096] = {0}, name[64];
  const int self = open(directory, O_RDONLY | O_DIRECTORY);
  STEPLOG_CHECK(self >= 0 && readlinkat(self, "exe", found, sizeof found - 1) > 0 && !strcmp(found, exe));
  const int link = openat(self, "exe", O_PATH | O_NOFOLLOW), file = openat(self, "exe", O_RDONLY);
  memset(found, 0, sizeof found);
  STEPLOG_CHECK(link >= 0 && readlinkat(link, "", found, sizeof found - 1) > 0 && !strcmp(found, exe));
  memset(found, 0, sizeof found);
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  STEPLOG_CHECK(file >= 0 && readlink(name, found, sizeof found - 1) > 0 && !strcmp(found, exe));
  STEPLOG_CHECK(!close(file) && !close(link) && !close(self));
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  char exe[4096] = {0}, directory[4096], now[4096];
  STEPLOG_CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
  const char* name = strrchr(argv[0], '/');
  const char* exe_name = strrchr(exe, '/');
  STEPLOG_CHECK(exe_name && !strcmp(exe_name + 1, name ? name + 1 : argv[0]));
  STEPLOG_CHECK(getcwd(directory, sizeof directory));
  check_by_descriptors("/proc/self", exe);
  check_by_descriptors("/proc/thread-self", exe);
  umask(027);
  setenv("STEPLOG_TEST", "value", 1);
  const char* preload = getenv("LD_LIBRARY_PATH");
  char before[4096];
  snprintf(before, sizeof before, "%s", preload ? preload : "");
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(!strcmp(getenv("STEPLOG_TEST"), "value"));
    STEPLOG_CHECK(getcwd(now, sizeof now) && !strcmp(now, directory));
    memset(now, 0, sizeof now);
    STEPLOG_CHECK(readlink("/proc/self/exe", now, sizeof now - 1) > 0 && !strcmp(now, exe));
    check_by_other_words(exe);
    mode_t mask = umask(027);
    STEPLOG_CHECK(mask == 027);
    preload = getenv("LD_LIBRARY_PATH");
    STEPLOG_CHECK(!strcmp(before, preload ? preload : ""));
    steplog_mix(mask);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
