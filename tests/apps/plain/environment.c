// What the program sees of itself: arguments, environment, working directory, /proc/self/exe, umask, limits.
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "steplog.h"

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  char exe[4096] = {0}, directory[4096], now[4096];
  STEPLOG_CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
  const char* name = strrchr(argv[0], '/');
  const char* exe_name = strrchr(exe, '/');
  STEPLOG_CHECK(exe_name && !strcmp(exe_name + 1, name ? name + 1 : argv[0]));
  STEPLOG_CHECK(getcwd(directory, sizeof directory));
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
