// The ids of the program (process, group, session, parent) stay the same, and every system call with its
// process id reaches the program itself, not a stranger.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

static pid_t pid, parent, group, session;

static void scheduling(void) {
  struct sched_param parameter;
  cpu_set_t cpus;
  struct timespec slice;
  struct rlimit limit, own;
  errno = 0;
  STEPLOG_CHECK(getpriority(PRIO_PROCESS, (id_t)pid) == getpriority(PRIO_PROCESS, 0) && errno == 0);
  STEPLOG_CHECK(!setpriority(PRIO_PROCESS, (id_t)pid, getpriority(PRIO_PROCESS, 0)));
  STEPLOG_CHECK(sched_getscheduler(pid) == sched_getscheduler(0) && !sched_getparam(pid, &parameter));
  STEPLOG_CHECK(!sched_setscheduler(pid, sched_getscheduler(0), &parameter) &&
                !sched_setparam(pid, &parameter));
  STEPLOG_CHECK(!sched_getaffinity(pid, sizeof cpus, &cpus) && !sched_setaffinity(pid, sizeof cpus, &cpus));
  STEPLOG_CHECK(!sched_rr_get_interval(pid, &slice));
  STEPLOG_CHECK(!prlimit(pid, RLIMIT_CORE, NULL, &limit) && !getrlimit(RLIMIT_CORE, &own));
  STEPLOG_CHECK(limit.rlim_cur == own.rlim_cur && limit.rlim_max == own.rlim_max);
  STEPLOG_CHECK(syscall(SYS_ioprio_get, 1, pid) == syscall(SYS_ioprio_get, 1, 0));
}

static void clocks(void) {
  clockid_t clock;
  struct timespec by_number, direct;
  STEPLOG_CHECK(!clock_getcpuclockid(pid, &clock) && !clock_gettime(clock, &by_number));
  STEPLOG_CHECK(!clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &direct));
  const double difference =
      (double)(direct.tv_sec - by_number.tv_sec) + 1e-9 * (double)(direct.tv_nsec - by_number.tv_nsec);
  if (difference < 0 || difference > 0.5)
    steplog_fail("the process's clock by number is %.3f s off", difference);
}

static void memory(void) {
  long here = 77 + steplog_done, copy = 0;
  struct iovec to = {&copy, sizeof copy}, from = {&here, sizeof here};
  STEPLOG_CHECK(process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof copy && copy == here);
  STEPLOG_CHECK(syscall(SYS_kcmp, pid, pid, KCMP_VM, 0, 0) == 0);
  const int descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
  STEPLOG_CHECK(descriptor >= 0 && !syscall(SYS_pidfd_send_signal, descriptor, 0, NULL, 0) &&
                !close(descriptor));
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, pid};
  struct __user_cap_data_struct data[2], own[2];
  STEPLOG_CHECK(!syscall(SYS_capget, &header, data));
  header.pid = 0;
  STEPLOG_CHECK(!syscall(SYS_capget, &header, own) && !memcmp(data, own, sizeof data));
}

// A file of ours that no other process has open, to be recognised through its descriptor.
static void files(const char* log) {
  char path[64], link[4096];
  struct stat by_number, direct;
  STEPLOG_CHECK(!fstat(fileno(steplog_file), &direct));
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fileno(steplog_file));
  STEPLOG_CHECK(!stat(path, &by_number) && by_number.st_ino == direct.st_ino &&
                by_number.st_dev == direct.st_dev);
  STEPLOG_CHECK(!lstat(path, &by_number) && S_ISLNK(by_number.st_mode) && !access(path, F_OK));
  ssize_t n = readlink(path, link, sizeof link - 1);
  STEPLOG_CHECK(n > 0);
  link[n] = 0;
  if (log) STEPLOG_CHECK(strstr(link, strrchr(log, '/') ? strrchr(log, '/') : log));
  snprintf(path, sizeof path, "/proc/%d/task/%d/fd/%d", pid, pid, fileno(steplog_file));
  STEPLOG_CHECK(!stat(path, &by_number) && by_number.st_ino == direct.st_ino);
  snprintf(path, sizeof path, "/proc/self/task/%d", pid);
  STEPLOG_CHECK(!stat(path, &by_number) && S_ISDIR(by_number.st_mode));
  n = readlink("/proc/self", link, sizeof link - 1);
  STEPLOG_CHECK(n > 0);
  link[n] = 0;
  STEPLOG_CHECK(atoi(link) == pid);
}

// Opens files in /proc. Runs in a child, since no cut may come in between.
static int opens_its_parent_s(void) {
  char path[64], name[32] = "", own[4096], exe[4096];
  snprintf(path, sizeof path, "/proc/%d/task/%d/comm", pid, pid);
  FILE* file = fopen(path, "r");
  if (!file || !fgets(name, sizeof name, file) || strcmp(name, "itself\n") || fclose(file)) return 0;
  snprintf(path, sizeof path, "/proc/%d", pid);
  DIR* directory = opendir(path);
  snprintf(path, sizeof path, "/proc/%d/exe", pid);
  const ssize_t n = readlink(path, exe, sizeof exe);
  if (n <= 0 || readlink("/proc/self/exe", own, sizeof own) != n || memcmp(own, exe, (size_t)n)) return 0;
  return directory && readdir(directory) && !closedir(directory);
}

// A child sees the same ids, and its parent's id reaches the parent.
static void child(void) {
  pid_t one = fork();
  STEPLOG_CHECK(one >= 0);
  if (one == 0) {
    if (getppid() != pid) _exit(1);
    if (getpgrp() != group || getsid(0) != session || getpgid(pid) != group) _exit(2);
    if (getpid() == pid || getpid() == parent || getpid() != getpid()) _exit(3);
    if (kill(getpid(), 0) || kill(pid, 0)) _exit(4);
    if (setpgid(0, 0) || getpgrp() != getpid()) _exit(5);
    if (raise(SIGWINCH)) _exit(6);
    if (!opens_its_parent_s()) _exit(7);
    _exit(0);
  }
  int status;
  siginfo_t info;
  STEPLOG_CHECK(!waitid(P_PID, (id_t)one, &info, WEXITED | WNOWAIT) && info.si_pid == one);
  STEPLOG_CHECK(waitpid(-1, &status, 0) == one && WIFEXITED(status));
  if (WEXITSTATUS(status)) steplog_fail("the child's step %d", WEXITSTATUS(status));
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  pid = getpid(), parent = getppid(), group = getpgrp(), session = getsid(0);
  STEPLOG_CHECK(!prctl(PR_SET_NAME, "itself"));
  const char* log = NULL;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--log")) log = argv[i + 1];
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(getpid() == pid && gettid() == pid && getppid() == parent);
    STEPLOG_CHECK(getpgrp() == group && getpgid(0) == group && getpgid(pid) == group);
    STEPLOG_CHECK(getsid(0) == session && getsid(pid) == session);
    scheduling();
    clocks();
    memory();
    files(log);
    if (steplog_done % 8 == 0) child();
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
