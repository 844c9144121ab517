// Unusual process attributes: everything that prctl, limits, scheduling, credentials and ids can hold, and
// children of every kind.
#define _GNU_SOURCE
#include "edge_case.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <spawn.h>
#include <sys/fsuid.h>
#include <sys/personality.h>

extern char** environ;

// The value of a line in /proc/self/status, or in another file of the process.
static const char* field(const char* file, const char* name) {
  static char line[4096];
  FILE* from = fopen(file, "r");
  if (!from) return "";
  bool found = false;
  while (!found && fgets(line, sizeof line, from)) found = !strncmp(line, name, strlen(name));
  fclose(from);
  return found ? line + strlen(name) : "";
}

// Checks in every step that /proc/self/status is unchanged, except for counters of memory, switches and
// threads.
static void status_stays(void) {
  static char kept[64][256];
  int lines = -1;
  while (edge_more()) {
    FILE* file = fopen("/proc/self/status", "r");
    char line[256];
    int at = 0;
    while (fgets(line, sizeof line, file)) {
      if (!strncmp(line, "Vm", 2) || !strncmp(line, "Rss", 3) || strstr(line, "ctxt_switches") ||
          !strncmp(line, "HugetlbPages", 12))
        continue;
      if (!strncmp(line, "SigQ", 4)) continue;  // counts the user's signals, not the process's
      if (!strncmp(line, "Mems_allowed", 12) || !strncmp(line, "Cpus_allowed", 12) ||
          !strncmp(line, "x86_Thread", 10))
        continue;
      if (!strncmp(line, "State", 5)) continue;
      if (lines < 0)
        snprintf(kept[at], sizeof kept[at], "%s", line);
      else if (strcmp(kept[at], line) != 0)
        steplog_fail("was %.60s, now %.60s", strtok(kept[at], "\n"), strtok(line, "\n"));
      at++;
    }
    fclose(file);
    if (lines < 0) lines = at;
    EDGE_CHECK(lines == at);
  }
}

static void every_line_of_proc_status(void) { status_stays(); }

static void thread_name(void) {
  char name[16];
  EDGE_CHECK(prctl(PR_SET_NAME, "odd) name (x") == 0);
  while (edge_more()) {
    EDGE_CHECK(prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "odd) name (x"));
    EDGE_CHECK(!strcmp(field("/proc/self/comm", ""), "odd) name (x\n"));
  }
}

static void limits(void) {
  static const int which[] = {RLIMIT_STACK, RLIMIT_CORE,     RLIMIT_NOFILE,     RLIMIT_FSIZE,
                              RLIMIT_DATA,  RLIMIT_MSGQUEUE, RLIMIT_SIGPENDING, RLIMIT_NICE};
  struct rlimit wanted[8];
  for (int i = 0; i < 8; i++) {
    EDGE_CHECK(getrlimit(which[i], &wanted[i]) == 0);
    rlim_t cap = i == 2   ? 700
                 : i == 4 ? 1ul << 44
                 : i == 3 ? 1ul << 40
                 : i == 7 ? 0
                          : (1ul << 20) * (rlim_t)(i + 2);
    if (wanted[i].rlim_max > cap) wanted[i].rlim_max = cap;
    wanted[i].rlim_cur = wanted[i].rlim_max;
    EDGE_CHECK(setrlimit(which[i], &wanted[i]) == 0);
  }
  while (edge_more())
    for (int i = 0; i < 8; i++) {
      struct rlimit now;
      EDGE_CHECK(getrlimit(which[i], &now) == 0 && now.rlim_cur == wanted[i].rlim_cur &&
                 now.rlim_max == wanted[i].rlim_max);
    }
}

static void largest_file(void) {  // a small RLIMIT_FSIZE with SIGXFSZ ignored; images are larger
  int fd = edge_file("small", 0, 0, O_RDWR);
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = {16384, 16384};
  EDGE_CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  while (edge_more())
    EDGE_CHECK(pwrite(fd, "x", 1, 16383) == 1 && pwrite(fd, "x", 1, 16384) < 0 && errno == EFBIG);
}

static void few_descriptors(void) {
  struct rlimit few = {16, 16};
  EDGE_CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  int fd = edge_file("few", 1000, 1, O_RDONLY);
  for (uint64_t at = 0; edge_more(); at++) {
    edge_reads(fd, 1, at, 1);
    int copy, made = 0;
    int all[32];
    while ((copy = dup(fd)) >= 0) all[made++] = copy;
    EDGE_CHECK(errno == EMFILE && made > 5 && made < 13);
    steplog_mix((uint64_t)made);
    while (made) close(all[--made]);
  }
}

static void little_address_space(void) {  // a gigabyte above the current use; malloc fails beyond that
  unsigned long size;
  EDGE_CHECK(sscanf(field("/proc/self/statm", ""), "%lu", &size) == 1);
  struct rlimit limit = {size * 4096 + (1ul << 30), RLIM_INFINITY};
  EDGE_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  while (edge_more()) {
    struct rlimit now;
    EDGE_CHECK(getrlimit(RLIMIT_AS, &now) == 0 && now.rlim_cur == limit.rlim_cur);
    void* p = malloc(100ul << 20);
    EDGE_CHECK(p);
    free(p);
    EDGE_CHECK(mmap(NULL, 2ul << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
               errno == ENOMEM);
  }
}

static void nice_value(void) {
  EDGE_CHECK(nice(7) == 7);
  while (edge_more())
    EDGE_CHECK(getpriority(PRIO_PROCESS, 0) == 7 && getpriority(PRIO_PROCESS, (id_t)getpid()) == 7);
}

static void affinity(void) {
  cpu_set_t all, one, now;
  EDGE_CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int i = CPU_SETSIZE - 1; i >= 0 && !CPU_COUNT(&one); i--)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  EDGE_CHECK(sched_setaffinity(getpid(), sizeof one, &one) == 0);
  while (edge_more())
    EDGE_CHECK(sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&one, &now) &&
               CPU_ISSET(sched_getcpu(), &one));
}

static void scheduling_class(void) {
  struct sched_param none = {0};
  EDGE_CHECK(sched_setscheduler(0, SCHED_BATCH, &none) == 0);
  while (edge_more())
    EDGE_CHECK(sched_getscheduler(0) == SCHED_BATCH && sched_getscheduler(getpid()) == SCHED_BATCH);
}

static void idle_class_and_reset(void) {
  struct sched_param none = {0};
  EDGE_CHECK(sched_setscheduler(0, SCHED_IDLE | SCHED_RESET_ON_FORK, &none) == 0);
  while (edge_more()) EDGE_CHECK(sched_getscheduler(0) == (SCHED_IDLE | SCHED_RESET_ON_FORK));
}

static void timer_slack(void) {
  EDGE_CHECK(prctl(PR_SET_TIMERSLACK, 123456) == 0);
  while (edge_more()) EDGE_CHECK(prctl(PR_GET_TIMERSLACK) == 123456);
}

static void parent_death_signal(void) {
  int got;
  EDGE_CHECK(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0);
  while (edge_more()) EDGE_CHECK(prctl(PR_GET_PDEATHSIG, &got) == 0 && got == SIGTERM);
}

static void not_dumpable(void) {
  EDGE_CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
  while (edge_more()) EDGE_CHECK(prctl(PR_GET_DUMPABLE) == 0);
}

static void reaper_of_grandchildren(void) {
  int got;
  EDGE_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  while (edge_more()) EDGE_CHECK(prctl(PR_GET_CHILD_SUBREAPER, &got) == 0 && got == 1);
  pid_t child = fork(), grandchild;
  if (!child) {
    if (!fork()) _exit(42);
    _exit(0);
  }
  int status, seen = 0;
  while ((grandchild = wait(&status)) > 0)
    seen += grandchild == child ? 1 : WEXITSTATUS(status) == 42 ? 2 : 100;
  EDGE_CHECK(seen == 3);
}

static void keeps_capabilities(void) {
  EDGE_CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0);
  while (edge_more()) EDGE_CHECK(prctl(PR_GET_KEEPCAPS) == 1);
}

static void secure_bits(void) {
  bool set = prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_KEEP_CAPS) == 0;
  while (edge_more())
    EDGE_CHECK(!set || prctl(PR_GET_SECUREBITS) == (SECBIT_NO_SETUID_FIXUP | SECBIT_KEEP_CAPS));
}

static void machine_check_policy(void) {
  EDGE_CHECK(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0) == 0);
  while (edge_more()) EDGE_CHECK(prctl(PR_MCE_KILL_GET, 0, 0, 0, 0) == PR_MCE_KILL_EARLY);
}

static void no_huge_pages(void) {
  EDGE_CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0);
  while (edge_more()) EDGE_CHECK(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1);
}

static void speculation_disabled(void) {
  bool set = prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0, 0) == 0;
  int wanted = prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0);
  while (edge_more())
    EDGE_CHECK(prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0) == wanted &&
               (!set || wanted > 0));
}

static void no_new_privileges(void) {
  EDGE_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  while (edge_more()) EDGE_CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}

// A seccomp filter that makes one system call return `result`.
static void filter_call(int call, uint32_t result) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, result), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {4, code};
  EDGE_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
             prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void answer(int number, siginfo_t* info, void* context) {
  (void)number;
  ((ucontext_t*)context)->uc_mcontext.gregs[REG_RAX] = 4000 + info->si_errno;
}

static void trapping_seccomp_filter(void) {  // a system call that CropDL traps too
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
  EDGE_CHECK(sigaction(SIGSYS, &action, NULL) == 0);
  filter_call(SYS_inotify_init1, SECCOMP_RET_TRAP | 321);
  while (edge_more()) EDGE_CHECK(syscall(SYS_inotify_init1, 0) == 4321);
}

static void killing_seccomp_filter(void) {  // kills on a system call that the program never makes
  filter_call(SYS_get_robust_list, SECCOMP_RET_KILL_PROCESS);
  while (edge_more()) continue;
}

static void process_personality(void) {
  EDGE_CHECK(personality(ADDR_NO_RANDOMIZE | UNAME26) >= 0);
  while (edge_more()) EDGE_CHECK(personality(0xffffffff) == (ADDR_NO_RANDOMIZE | UNAME26));
}

static void out_of_memory_score(void) {
  FILE* file = fopen("/proc/self/oom_score_adj", "w");
  EDGE_CHECK(file && fprintf(file, "%d", 777) > 0 && fclose(file) == 0);
  while (edge_more()) EDGE_CHECK(atoi(field("/proc/self/oom_score_adj", "")) == 777);
}

static void core_dump_filter(void) {
  FILE* file = fopen("/proc/self/coredump_filter", "w");
  while (file) {
    EDGE_CHECK(fprintf(file, "0x7f") > 0 && fclose(file) == 0);
    break;
  }
  while (edge_more()) EDGE_CHECK(!file || strtol(field("/proc/self/coredump_filter", ""), NULL, 16) == 0x7f);
}

static void input_output_priority(void) {
  EDGE_CHECK(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6) == 0);
  while (edge_more()) EDGE_CHECK(syscall(SYS_ioprio_get, 1, 0) == (2 << 13 | 6));
}

static void membarrier_registration(void) {
  EDGE_CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0);
  while (edge_more()) EDGE_CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
}

static void file_mode_creation_mask(void) {
  umask(0126);
  for (int k = 0; edge_more(); k++) {
    char name[32];
    struct stat s;
    snprintf(name, sizeof name, "mode-%d", k);
    unlink(name);
    close(open(name, O_CREAT | O_WRONLY, 0777));
    EDGE_CHECK(stat(name, &s) == 0 && (s.st_mode & 0777) == 0651);
  }
}

static void own_session(void) {
  pid_t made = setsid();
  if (made < 0) made = getsid(0);
  while (edge_more())
    EDGE_CHECK(getsid(0) == made && getsid(getpid()) == made && getpgid(0) == getpgrp() &&
               getpgid(getpid()) == getpgrp());
}

static void own_process_group(void) {
  if (getsid(0) != getpid()) EDGE_CHECK(setpgid(0, 0) == 0);
  while (edge_more()) {
    EDGE_CHECK(getpgrp() == getpid() && getpgid(getpid()) == getpid() && kill(-getpid(), 0) == 0 &&
               kill(0, 0) == 0);
    EDGE_CHECK(getpriority(PRIO_PGRP, (id_t)getpid()) == 0);
  }
}

static void ids_by_every_call(void) {
  pid_t self = getpid();
  char name[64], link[64];
  snprintf(name, sizeof name, "/proc/%d/status", self);
  while (edge_more()) {
    EDGE_CHECK(getpid() == self && gettid() == self && syscall(SYS_getpid) == self &&
               atoi(field("/proc/self/stat", "")) == self);
    EDGE_CHECK(atoi(field("/proc/self/status", "Pid:")) == self && atoi(field(name, "Tgid:")) == self &&
               atoi(field("/proc/thread-self/status", "Pid:")) == self);
    EDGE_CHECK(readlink("/proc/self", link, sizeof link) > 0 && atoi(link) == self);
    EDGE_CHECK(readlink("/proc/thread-self", link, sizeof link) > 0 && atoi(link) == self);
    struct sched_param none;
    EDGE_CHECK(sched_getparam(self, &none) == 0 && getpriority(PRIO_PROCESS, (id_t)self) >= -20 &&
               getsid(self) == getsid(0));
    EDGE_CHECK(kill(self, 0) == 0 && tgkill(self, self, 0) == 0 && syscall(SYS_tkill, self, 0) == 0);
    struct rlimit limit;
    EDGE_CHECK(prlimit(self, RLIMIT_CORE, NULL, &limit) == 0 && syscall(SYS_ioprio_get, 1, self) >= 0);
    siginfo_t info;
    EDGE_CHECK(waitid(P_PID, (id_t)self, &info, WEXITED | WNOHANG) < 0 && errno == ECHILD);
    struct timespec quantum;
    EDGE_CHECK(sched_rr_get_interval(self, &quantum) == 0);
  }
}

static void proc_self_task_directory(void) {
  while (edge_more()) {
    DIR* dir = opendir("/proc/self/task");
    int threads = 0;
    for (struct dirent* entry; (entry = readdir(dir));)
      if (entry->d_name[0] != '.') {
        threads++;
        EDGE_CHECK(atoi(entry->d_name) == getpid());
      }
    closedir(dir);
    EDGE_CHECK(threads == 1 && atoi(field("/proc/self/status", "Threads:")) == 1);
  }
}

static void command_line_and_environment(void) {
  char text[4096], first[4096];
  int fd = open("/proc/self/cmdline", O_RDONLY);
  ssize_t kept = read(fd, first, sizeof first);
  close(fd);
  EDGE_CHECK(kept > 10 && !strcmp(first, edge_argv[0]));
  while (edge_more()) {
    fd = open("/proc/self/cmdline", O_RDONLY);
    EDGE_CHECK(read(fd, text, sizeof text) == kept && !memcmp(text, first, (size_t)kept));
    close(fd);
    fd = open("/proc/self/environ", O_RDONLY);
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    EDGE_CHECK(size > 0);
    text[size] = 0;
    EDGE_CHECK(!environ[0] || strlen(text) > 4000 || !strcmp(text, environ[0]));
    EDGE_CHECK(readlink("/proc/self/exe", text, sizeof text) > 0 && strstr(text, "edge_cases/process"));
    fd = open("/proc/self/stat", O_RDONLY);
    size = read(fd, text, sizeof text - 1);
    close(fd);
    EDGE_CHECK(size > 0);
    text[size] = 0;
    const char* word = strrchr(text, ')') + 2;
    for (int number = 3; number < 28; number++) word = strchr(word, ' ') + 1;
    char* stack = (char*)strtoul(word, NULL, 10);  // where it begins; collectors of garbage scan from there
    EDGE_CHECK(stack > text && stack >= (char*)(edge_argv - 1) && stack < edge_argv[0]);
  }
}

static void title_changed_in_place(void) {  // like setproctitle
  size_t room = strlen(edge_argv[0]);
  memset(edge_argv[0], 'x', room);
  char text[4096];
  while (edge_more()) {
    int fd = open("/proc/self/cmdline", O_RDONLY);
    EDGE_CHECK(read(fd, text, sizeof text) > (ssize_t)room && !memcmp(text, edge_argv[0], room) &&
               text[0] == 'x');
    close(fd);
  }
}

// --- Credentials; without privileges, the cases do what is allowed ---

static void supplementary_groups(void) {
  gid_t wanted[3] = {1234, 77, 5}, now[64];
  int count = setgroups(3, wanted) == 0 ? 3 : getgroups(64, now);
  steplog_mix((uint64_t)count);
  while (edge_more()) {
    EDGE_CHECK(getgroups(64, now) == count);
    if (count == 3) EDGE_CHECK(now[0] + now[1] + now[2] == 1234 + 77 + 5);
  }
}

static void dropped_groups(void) {
  bool done = setresgid(4321, 4321, 4321) == 0;
  gid_t a, b, c;
  while (edge_more())
    EDGE_CHECK(getresgid(&a, &b, &c) == 0 && (!done || (a == 4321 && b == 4321 && c == 4321)));
}

static void dropped_user(void) {
  int fd = edge_file("of root", 100, 1, O_RDONLY);
  bool done = geteuid() == 0 && setresgid(4321, 4321, 4321) == 0 && setresuid(4321, 4321, 4321) == 0;
  uid_t a, b, c;
  for (uint64_t at = 0; edge_more(); at++) {
    edge_reads(fd, 1, at, 1);
    EDGE_CHECK(getresuid(&a, &b, &c) == 0 &&
               (!done || (a == 4321 && b == 4321 && c == 4321 && setuid(0) < 0)));
  }
}

static void temporary_effective_user(void) {
  bool done = geteuid() == 0 && seteuid(4321) == 0;
  uid_t a, b, c;
  while (edge_more()) EDGE_CHECK(getresuid(&a, &b, &c) == 0 && (!done || (a == 0 && b == 4321 && c == 0)));
}

static void changed_file_system_user(void) {
  bool done = geteuid() == 0 && setfsuid(4321) == 0;
  while (edge_more()) EDGE_CHECK(!done || setfsuid((uid_t)-1) == 4321);
}

static void capabilities_dropped(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2], now[2];
  EDGE_CHECK(syscall(SYS_capget, &header, data) == 0);
  data[0].effective &= ~(1u << CAP_NET_RAW), data[0].permitted &= ~(1u << CAP_NET_RAW),
      data[0].inheritable = 0, data[1].inheritable = 0;
  EDGE_CHECK(syscall(SYS_capset, &header, data) == 0);
  prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0);
  int bounding = prctl(PR_CAPBSET_READ, CAP_SYS_TIME, 0, 0, 0);
  while (edge_more()) {
    EDGE_CHECK(syscall(SYS_capget, &header, now) == 0 && !memcmp(now, data, sizeof now));
    EDGE_CHECK(prctl(PR_CAPBSET_READ, CAP_SYS_TIME, 0, 0, 0) == bounding);
  }
}

// --- Children ---

static void zombie(void) {
  pid_t child = fork();
  if (!child) _exit(5);
  siginfo_t info;
  EDGE_CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
  while (edge_more())
    EDGE_CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 && info.si_status == 5);
  int status;
  EDGE_CHECK(wait(&status) == child && WEXITSTATUS(status) == 5);
}

static void children_never_waited_for(void) {  // SIGCHLD is ignored, so the kernel reaps them
  signal(SIGCHLD, SIG_IGN);
  while (edge_more()) {
    pid_t child = fork();
    if (!child) _exit(0);
    EDGE_CHECK(waitpid(child, NULL, 0) < 0 && errno == ECHILD);
  }
}

static void children_by_every_call(void) {
  for (int k = 0; edge_more(); k++) {
    int status;
    pid_t child;
    char* const command[] = {"true", NULL};
    EDGE_CHECK(posix_spawnp(&child, "true", NULL, NULL, command, environ) == 0 &&
               waitpid(child, &status, 0) == child && status == 0);
    child = vfork();
    if (!child) _exit(9);
    EDGE_CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
    EDGE_CHECK(WEXITSTATUS(system("exit 11")) == 11);
    struct clone_args how = {.exit_signal = SIGCHLD};
    child = (pid_t)syscall(SYS_clone3, &how, sizeof how);
    if (child < 0 && errno == ENOSYS) child = fork();  // what libraries do where it is forbidden
    if (!child) _exit(getppid() > 0 ? 13 : 14);
    EDGE_CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 13);
  }
}

static void child_reads_its_parent_s_ids(void) {
  pid_t self = getpid();
  while (edge_more()) {
    int status;
    pid_t child = fork();
    if (!child) {
      char name[64];
      snprintf(name, sizeof name, "/proc/%d/status", self);
      _exit(getppid() == self && kill(self, 0) == 0 && atoi(field(name, "Pid:")) == self && getpid() != self
                ? 0
                : 1);
    }
    EDGE_CHECK(child != self && waitpid(child, &status, 0) == child && status == 0);
  }
}

static int sockets_among_descriptors(void) {
  DIR* all = opendir("/proc/self/fd");
  char link[64] = "";
  int found = 0;
  for (const struct dirent* one; all && (one = readdir(all));)
    found += readlinkat(dirfd(all), one->d_name, link, sizeof link - 1) > 6 && !strncmp(link, "socket", 6);
  closedir(all);
  return found;
}

// A child inherits the program's descriptors and no others, also if the program has high-numbered
// descriptors, none of them a socket; its own children inherit what it opened.
static void child_beside_a_high_descriptor(void) {
  enum { kHigh = 17000 };
  struct rlimit limit;
  int fd = edge_file("high", 1000, 1, O_RDONLY), status;
  EDGE_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int most = limit.rlim_max < 2 * kHigh ? (int)limit.rlim_max : 2 * kHigh;
  if ((int)limit.rlim_cur < most) limit.rlim_cur = (rlim_t)most;
  EDGE_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int high = most > kHigh + 200 ? kHigh : most - 300, own = high + 20;
  EDGE_CHECK(fcntl(fd, F_DUPFD, high) == high);
  while (edge_more()) {
    pid_t child = fork();
    if (!child) {
      if (sockets_among_descriptors() != 0 || fcntl(high, F_GETFD) < 0 || dup2(fd, own) != own) _exit(1);
      pid_t grandchild = fork();
      if (!grandchild) _exit(fcntl(own, F_GETFD) < 0 || fcntl(high, F_GETFD) < 0);
      _exit(waitpid(grandchild, &status, 0) != grandchild || status != 0);
    }
    EDGE_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  }
}

static int closes_much(void* unused) {
  (void)unused;
  syscall(SYS_close_range, 900, ~0u, 0);
  syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE);
  syscall(SYS_exit, 0);
  return 0;
}

static void child_sharing_descriptors_closes_many(void) {
  static char stack[65536] __attribute__((aligned(16)));
  int fd = edge_file("stays", 1000, 1, O_RDONLY), status;
  for (uint64_t at = 0; edge_more(); at++) {
    int high = fcntl(fd, F_DUPFD, 910);
    pid_t child = clone(closes_much, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL);
    EDGE_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    EDGE_CHECK(fcntl(high, F_GETFD) < 0 && fcntl(fd, F_GETFD) == 0);
    edge_reads(fd, 1, at, 1);
  }
}

// Landlock forbids only one thing: making directories.
static void restricted_by_landlock(void) {
  const uint64_t made_directories = 1 << 7;  // LANDLOCK_ACCESS_FS_MAKE_DIR
  const int rules =
      (int)syscall(444 /* landlock_create_ruleset */, &made_directories, sizeof made_directories, 0);
  if (rules >= 0) {
    EDGE_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EDGE_CHECK(syscall(446 /* landlock_restrict_self */, rules, 0) == 0);
    close(rules);
  }
  while (edge_more()) EDGE_CHECK(rules < 0 || (mkdir("never", 0700) == -1 && errno == EACCES));
}

#define KIND(name) \
  { #name, name }
static const struct edge_case table[] = {
    KIND(every_line_of_proc_status),
    KIND(thread_name),
    KIND(limits),
    KIND(largest_file),
    KIND(few_descriptors),
    KIND(little_address_space),
    KIND(nice_value),
    KIND(affinity),
    KIND(scheduling_class),
    KIND(idle_class_and_reset),
    KIND(timer_slack),
    KIND(parent_death_signal),
    KIND(not_dumpable),
    KIND(reaper_of_grandchildren),
    KIND(keeps_capabilities),
    KIND(secure_bits),
    KIND(machine_check_policy),
    KIND(no_huge_pages),
    KIND(speculation_disabled),
    KIND(no_new_privileges),
    KIND(restricted_by_landlock),
    KIND(trapping_seccomp_filter),
    KIND(killing_seccomp_filter),
    KIND(process_personality),
    KIND(out_of_memory_score),
    KIND(core_dump_filter),
    KIND(input_output_priority),
    KIND(membarrier_registration),
    KIND(file_mode_creation_mask),
    KIND(own_session),
    KIND(own_process_group),
    KIND(ids_by_every_call),
    KIND(proc_self_task_directory),
    KIND(command_line_and_environment),
    KIND(title_changed_in_place),
    KIND(supplementary_groups),
    KIND(dropped_groups),
    KIND(dropped_user),
    KIND(temporary_effective_user),
    KIND(changed_file_system_user),
    KIND(capabilities_dropped),
    KIND(zombie),
    KIND(children_never_waited_for),
    KIND(children_by_every_call),
    KIND(child_reads_its_parent_s_ids),
    KIND(child_beside_a_high_descriptor),
    KIND(child_sharing_descriptors_closes_many),
};

EDGE_MAIN(table)
