// Sets process attributes that need no privileges (and, as root, a few more), and checks all of them in every
// step.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

static char expected[4096], found[4096];
static size_t length;
static char* into;

static void note(const char* name, long value) {
  length += (size_t)snprintf(into + length, 4096 - length, "%s=%ld ", name, value);
}

static void note_file(const char* name, const char* path) {
  char text[64] = "-";
  FILE* file = fopen(path, "r");
  if (file && !fgets(text, sizeof text, file)) strcpy(text, "?");
  if (file) fclose(file);
  text[strcspn(text, "\n")] = 0;
  length += (size_t)snprintf(into + length, 4096 - length, "%s=%s ", name, text);
}

static void note_limit(const char* name, int which) {
  struct rlimit limit;
  STEPLOG_CHECK(!getrlimit((__rlimit_resource_t)which, &limit));
  note(name, (long)limit.rlim_cur);
  note("of", (long)limit.rlim_max);
}

static long by_pointer(int option) {
  int value = -1;
  STEPLOG_CHECK(!prctl(option, &value, 0, 0, 0));
  return value;
}

struct scheduling {  // man 2 sched_setattr
  uint32_t size, policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime, deadline, period;
};

static struct scheduling scheduling(void) {
  struct scheduling now = {0};
  STEPLOG_CHECK(!syscall(SYS_sched_getattr, 0, &now, sizeof now, 0));
  return now;
}

static void look(char* to) {
  into = to, length = 0;
  errno = 0;
  note("nice", getpriority(PRIO_PROCESS, 0));
  note("policy", sched_getscheduler(0));
  note("slice", (long)scheduling().runtime);
  cpu_set_t cpus;
  STEPLOG_CHECK(!sched_getaffinity(0, sizeof cpus, &cpus));
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &cpus)) note("cpu", i);
  note("io", syscall(SYS_ioprio_get, 1, 0));
  note("slack", prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
  note("death", by_pointer(PR_GET_PDEATHSIG));
  note("subreaper", by_pointer(PR_GET_CHILD_SUBREAPER));
  note("keepcaps", prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
  note("securebits", prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
  note("dumpable", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
  note("thp", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
  note("mce", prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
  note("speculation", prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0));
  note("personality", personality(0xffffffff));
  int mode = 0;
  unsigned long nodes[16] = {0};
  if (!syscall(SYS_get_mempolicy, &mode, nodes, 1024, 0, 0))
    note("mempolicy", mode), note("nodes", (long)nodes[0]);
  note_limit("core", RLIMIT_CORE);
  note_limit("stack", RLIMIT_STACK);
  note_limit("files", RLIMIT_NOFILE);
  note_limit("signals", RLIMIT_SIGPENDING);
  note_limit("size", RLIMIT_FSIZE);
  note("membarrier", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0));
  note("own-group", getpgrp() == getpid());
}

// Reads attribute files only where no cut can come: descriptors of /proc cannot be saved.
static void look_at_files(char* to) {
  into = to, length = 0;
  note_file("oom", "/proc/self/oom_score_adj");
  note_file("coredump", "/proc/self/coredump_filter");
}

static void write_file(const char* path, const char* text) {
  FILE* file = fopen(path, "w");
  STEPLOG_CHECK(file && fputs(text, file) >= 0 && !fclose(file));
}

static void limit(int which, rlim_t soft, rlim_t hard) {
  struct rlimit now;
  STEPLOG_CHECK(!getrlimit((__rlimit_resource_t)which, &now));
  if (hard < now.rlim_max) now.rlim_max = hard;
  now.rlim_cur = soft < now.rlim_max ? soft : now.rlim_max;
  STEPLOG_CHECK(!setrlimit((__rlimit_resource_t)which, &now));
}

static void set(void) {
  struct sched_param zero = {0};
  cpu_set_t cpus;
  STEPLOG_CHECK(!sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &zero));
  STEPLOG_CHECK(!setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 3));
  struct scheduling slice = scheduling();
  slice.runtime = 1234567;  // has no effect before Linux 6.12
  STEPLOG_CHECK(!syscall(SYS_sched_setattr, 0, &slice, 0));
  STEPLOG_CHECK(!sched_getaffinity(0, sizeof cpus, &cpus));
  for (int i = 0, kept = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &cpus) && kept++) CPU_CLR(i, &cpus);
  STEPLOG_CHECK(!sched_setaffinity(0, sizeof cpus, &cpus));
  STEPLOG_CHECK(!syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6));
  STEPLOG_CHECK(!prctl(PR_SET_TIMERSLACK, 123456, 0, 0, 0));
  STEPLOG_CHECK(!prctl(PR_SET_PDEATHSIG, SIGWINCH, 0, 0, 0));
  STEPLOG_CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
  STEPLOG_CHECK(!prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
  STEPLOG_CHECK(!prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
  STEPLOG_CHECK(!prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0));
  // not available on every processor
  prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0, 0);
  STEPLOG_CHECK(personality(STICKY_TIMEOUTS) != -1);
  unsigned long node = 1;
  syscall(SYS_set_mempolicy, 1, &node, 64);  // MPOL_PREFERRED; some containers forbid it
  limit(RLIMIT_CORE, 0, 1 << 20);
  limit(RLIMIT_STACK, 3 << 20, RLIM_INFINITY);
  limit(RLIMIT_NOFILE, 3000, 4000);
  limit(RLIMIT_SIGPENDING, 500, 600);
  limit(RLIMIT_FSIZE, 1l << 33, RLIM_INFINITY);
  STEPLOG_CHECK(!syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0));
  write_file("/proc/self/oom_score_adj", "77");
  write_file("/proc/self/coredump_filter", "0x7b");
  if (getpgrp() != getpid() && getsid(0) != getpid()) STEPLOG_CHECK(!setpgid(0, 0));
  if (geteuid() == 0)
    STEPLOG_CHECK(!prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));  // otherwise it hides from the driver
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  char files[4096], files_now[4096];
  set();
  look(expected);
  look_at_files(files);
  if (!strstr(expected, "slack=123456") || !strstr(files, "oom=77"))
    steplog_fail("not set: %s %s", expected, files);
  while (steplog_done < steplog_steps) {
    look(found);
    if (strcmp(expected, found)) steplog_fail("was %s, is %s", expected, found);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  look_at_files(files_now);
  if (strcmp(files, files_now)) steplog_fail("was %s, is %s", files, files_now);
  steplog_ok();
  return 0;
}
