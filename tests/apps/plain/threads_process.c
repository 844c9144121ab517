// Threads that change process-wide state: working directory (--work DIR), umask, limits, descriptors, and
// user ids, which the C library sets in every thread.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

static pthread_barrier_t barrier;
static const char* work_directory = "/tmp";
static char expected_directory[4096];
static int descriptor = -1;
static uid_t user;

static void* change(void* argument) {
  (void)argument;
  user = getuid();
  for (long round = 0; round < steplog_steps; round++) {
    struct rlimit limit;
    char name[64];
    snprintf(name, sizeof name, "directory-%ld", round % 3);
    STEPLOG_CHECK(chdir(work_directory) == 0);
    mkdir(name, 0700);
    STEPLOG_CHECK(chdir(name) == 0 && getcwd(expected_directory, sizeof expected_directory));
    umask((mode_t)(round % 64));
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max < 1000000 ? limit.rlim_max : 500000 + (rlim_t)round;
    setrlimit(RLIMIT_CORE, &limit);
    descriptor = open(round % 2 ? "/dev/null" : "/dev/zero", O_RDWR | O_CLOEXEC);
    if (descriptor < 0) steplog_fail("open");
    // sends a signal to each thread
    STEPLOG_CHECK(setresuid(user, user, (uid_t)-1) == 0 && setgid(getgid()) == 0);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);  // the main thread checks in between
    close(descriptor);
  }
  return NULL;
}

static void* look(void* argument) {
  for (long round = 0; round < steplog_steps; round++) {
    char here[4096], byte = 1;
    struct rlimit limit;
    pthread_barrier_wait(&barrier);
    STEPLOG_CHECK(getcwd(here, sizeof here) && !strcmp(here, expected_directory));
    getrlimit(RLIMIT_CORE, &limit);
    STEPLOG_CHECK(limit.rlim_max < 1000000 || limit.rlim_cur == 500000 + (rlim_t)round);
    STEPLOG_CHECK(read(descriptor, &byte, 1) == (round % 2 ? 0 : 1) && byte == (round % 2 ? 1 : 0));
    STEPLOG_CHECK((uid_t)syscall(SYS_getuid) == user);
    pthread_barrier_wait(&barrier);
  }
  return argument;
}

int main(int argc, char** argv) {
  pthread_t threads[3];
  steplog_open(argc, argv, -1);
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) work_directory = argv[i + 1];
  pthread_barrier_init(&barrier, NULL, 4);
  for (int i = 0; i < 3; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, i ? look : change, NULL) == 0);
  while (steplog_done < steplog_steps) {
    pthread_barrier_wait(&barrier);
    const mode_t mask = umask(0);
    umask(mask);
    STEPLOG_CHECK(mask == (mode_t)(steplog_done % 64));
    pthread_barrier_wait(&barrier);
    steplog_step();
  }
  for (int i = 0; i < 3; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_mix((uint64_t)steplog_done);
  steplog_ok();
  return 0;
}
