// Holds a kernel object in the first half of the steps, then releases it and ends normally. The first
// argument says which.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

#include "refused.h"

static pid_t child;
static int object = -1;
static char* stack;

static int wait_to_die(void* unused) {
  while (!unused) pause();
  return 0;
}

static void take(const char* what) {
  if (!strcmp(what, "child-without-signal")) {
    stack = malloc(65536);
    child = clone(wait_to_die, stack + 65536, 0, NULL);
    STEPLOG_CHECK(child > 0);
  } else if (!strcmp(what, "child-in-our-memory")) {
    stack = malloc(65536);
    child = clone(wait_to_die, stack + 65536, CLONE_VM, NULL);
    STEPLOG_CHECK(child > 0);
  } else if (!strcmp(what, "semaphore-undo")) {
    struct sembuf up = {0, 1, SEM_UNDO};
    STEPLOG_CHECK((object = semget(IPC_PRIVATE, 1, 0600)) >= 0 && !semop(object, &up, 1));
  } else if (!strcmp(what, "message-queue")) {
    struct {
      long type;
      char text[8];
    } message = {1, "waiting"};
    STEPLOG_CHECK((object = msgget(IPC_PRIVATE, 0600)) >= 0 &&
                  !msgsnd(object, &message, sizeof message.text, 0));
  } else {
    steplog_fail("unknown: %s", what);
  }
}

static void let_go(const char* what) {
  if (child) {
    STEPLOG_CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, __WALL) == child);
  } else if (!strcmp(what, "semaphore-undo")) {
    STEPLOG_CHECK(semctl(object, 0, GETVAL) == 1 && !semctl(object, 0, IPC_RMID));
  } else {
    STEPLOG_CHECK(!msgctl(object, IPC_RMID, NULL));
  }
}

int main(int argc, char** argv) { return refused_main(argc, argv, take, let_go); }
