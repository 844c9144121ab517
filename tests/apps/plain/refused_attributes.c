// Changes an attribute that cannot be restored, and continues. The first argument says which.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/io.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

// A thread that reads no clock, since the C library would use the disabled counter for that.
static void* without_counter(void* done) {
  STEPLOG_CHECK(!prctl(PR_SET_TSC, PR_TSC_SIGSEGV) && !sem_post(done));
  for (;;) pause();
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char* what = argv[1];
  steplog_open(argc, argv, -1);
  if (!strcmp(what, "seccomp")) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    STEPLOG_CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
                  !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
  } else if (!strcmp(what, "uts")) {
    if (unshare(CLONE_NEWUTS)) STEPLOG_CHECK(!unshare(CLONE_NEWUSER | CLONE_NEWUTS));
  } else if (!strcmp(what, "net")) {
    if (unshare(CLONE_NEWNET)) STEPLOG_CHECK(!unshare(CLONE_NEWUSER | CLONE_NEWNET));
  } else if (!strcmp(what, "time")) {
    if (unshare(0x80 /* CLONE_NEWTIME */)) STEPLOG_CHECK(!unshare(CLONE_NEWUSER | 0x80));
  } else if (!strcmp(what, "root")) {
    STEPLOG_CHECK(!chroot("/tmp"));
  } else if (!strcmp(what, "keyring")) {
    STEPLOG_CHECK(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, -2 /* KEY_SPEC_PROCESS_KEYRING */, 1) > 0);
  } else if (!strcmp(what, "ports")) {
    STEPLOG_CHECK(!ioperm(0x80, 1, 1));
  } else if (!strcmp(what, "counter")) {
    pthread_t thread;
    static sem_t done;
    STEPLOG_CHECK(!sem_init(&done, 0, 0) && !pthread_create(&thread, NULL, without_counter, &done));
    STEPLOG_CHECK(!sem_wait(&done));
  } else {
    steplog_fail("unknown: %s", what);
  }
  while (steplog_done < steplog_steps) {
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
