// Unusual uses of signals, timers and clocks.
#define _GNU_SOURCE
#include "edge_case.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/personality.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <ucontext.h>

static volatile sig_atomic_t count, last_code, last_value;
static volatile pid_t last_pid;

static void note(int number, siginfo_t* info, void* context) {
  (void)number, (void)context;
  count++;
  last_code = info->si_code;
  last_value = info->si_value.sival_int;
  last_pid = info->si_pid;
}

static void install(int number, int flags) {
  struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | flags};
  EDGE_CHECK(sigaction(number, &action, NULL) == 0);
}

static sigset_t set_of(int number) {
  sigset_t set;
  sigemptyset(&set);
  if (number) sigaddset(&set, number);
  return set;
}

static void block(int number) {
  sigset_t set = set_of(number);
  EDGE_CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}

static void queued_real_time_signals(void) {
  block(SIGRTMIN + 4);
  sigset_t set = set_of(SIGRTMIN + 4);
  for (int i = 0; i < 5; i++)
    EDGE_CHECK(sigqueue(getpid(), SIGRTMIN + 4, (union sigval){.sival_int = 100 + i}) == 0);
  for (int k = 0; edge_more(); k++) {
    siginfo_t info;
    EDGE_CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 4 && info.si_code == SI_QUEUE &&
               info.si_value.sival_int == 100 + k && info.si_pid == getpid());
    EDGE_CHECK(sigqueue(getpid(), SIGRTMIN + 4, (union sigval){.sival_int = 105 + k}) == 0);
  }
}

static void pending_kill_keeps_its_sender(void) {
  block(SIGUSR2), block(SIGTERM);
  EDGE_CHECK(kill(getpid(), SIGUSR2) == 0 && raise(SIGTERM) == 0);
  // Signals that would be ignored are pending while they are blocked.
  signal(SIGHUP, SIG_IGN), signal(SIGRTMIN + 5, SIG_IGN);
  block(SIGCHLD), block(SIGWINCH), block(SIGHUP), block(SIGRTMIN + 5);
  EDGE_CHECK(kill(getpid(), SIGCHLD) == 0 && raise(SIGWINCH) == 0 && kill(getpid(), SIGHUP) == 0);
  for (int i = 0; i < 2; i++)
    EDGE_CHECK(sigqueue(getpid(), SIGRTMIN + 5, (union sigval){.sival_int = i}) == 0);
  while (edge_more()) {
    sigset_t pending;
    EDGE_CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR2) && sigismember(&pending, SIGTERM));
    EDGE_CHECK(sigismember(&pending, SIGCHLD) && sigismember(&pending, SIGWINCH) &&
               sigismember(&pending, SIGHUP) && sigismember(&pending, SIGRTMIN + 5));
  }
  sigset_t ignored = set_of(SIGRTMIN + 5);
  for (int i = 0; i < 2; i++) {
    siginfo_t info;
    EDGE_CHECK(sigwaitinfo(&ignored, &info) == SIGRTMIN + 5 && info.si_value.sival_int == i);
  }
  struct timespec now = {0, 0};
  EDGE_CHECK(sigtimedwait(&ignored, NULL, &now) == -1 && errno == EAGAIN);
  sigset_t one = set_of(SIGUSR2), two = set_of(SIGTERM);
  siginfo_t info;
  EDGE_CHECK(sigwaitinfo(&one, &info) == SIGUSR2 && info.si_code == SI_USER && info.si_pid == getpid() &&
             info.si_uid == getuid());
  EDGE_CHECK(syscall(SYS_rt_sigtimedwait, &two, &info, NULL, 8) == SIGTERM && info.si_code == SI_TKILL &&
             info.si_pid == getpid());
}

// the pending sets of the thread and the process in /proc/self/status
static void pending_for_process_or_thread(void) {
  block(SIGUSR2), block(SIGTERM);
  EDGE_CHECK(kill(getpid(), SIGUSR2) == 0 && raise(SIGTERM) == 0);
  char wanted[3][64] = {"", "", ""};
  for (int first = 1; edge_more(); first = 0) {
    FILE* file = fopen("/proc/self/status", "r");
    char line[256];
    while (fgets(line, sizeof line, file)) {
      const char* names[] = {"SigPnd:", "ShdPnd:", "SigBlk:"};
      for (int i = 0; i < 3; i++)
        if (!strncmp(line, names[i], 7)) {
          if (first) snprintf(wanted[i], 64, "%.60s", line);
          EDGE_CHECK(!strcmp(line, wanted[i]));
        }
    }
    fclose(file);
  }
  EDGE_CHECK(strtoull(wanted[0] + 7, NULL, 16) == 1ull << (SIGTERM - 1) &&
             strtoull(wanted[1] + 7, NULL, 16) == 1ull << (SIGUSR2 - 1));
}

static void every_signal_has_an_action(void) {
  for (int number = 1; number <= 64; number++) {
    if (number == SIGKILL || number == SIGSTOP || number == 32 || number == 33) continue;
    struct sigaction action = {
        .sa_sigaction = note,
        .sa_flags = SA_SIGINFO | (number % 2 ? SA_RESTART : 0) | (number % 3 ? 0 : SA_NODEFER)};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask,
              number % 20 + 1 == SIGKILL || number % 20 + 1 == SIGSTOP ? 1 : number % 20 + 1);
    EDGE_CHECK(sigaction(number, &action, NULL) == 0);
  }
  while (edge_more())
    for (int number = 1; number <= 64; number++) {
      if (number == SIGKILL || number == SIGSTOP || number == 32 || number == 33) continue;
      struct sigaction found;
      EDGE_CHECK(sigaction(number, NULL, &found) == 0 && found.sa_sigaction == note);
      EDGE_CHECK((found.sa_flags & ~0x04000000) ==
                 (SA_SIGINFO | (number % 2 ? SA_RESTART : 0) | (number % 3 ? 0 : SA_NODEFER)));
      EDGE_CHECK(sigismember(&found.sa_mask, number % 20 + 1 == SIGKILL || number % 20 + 1 == SIGSTOP
                                                 ? 1
                                                 : number % 20 + 1) == 1);
    }
}

static void every_signal_is_delivered(void) {
  for (int number = 1; number <= 64; number++)
    if (number != SIGKILL && number != SIGSTOP && number != 32 && number != 33) install(number, 0);
  int sent = 0;
  while (edge_more())
    for (int number = 1; number <= 64; number++) {
      if (number == SIGKILL || number == SIGSTOP || number == 32 || number == 33) continue;
      EDGE_CHECK(kill(getpid(), number) == 0);
      EDGE_CHECK(count == ++sent && last_code == SI_USER && last_pid == getpid());
    }
}

static void last_real_time_signals(void) {  // 63 and 64 are ordinary signals for a program
  block(SIGRTMAX), block(SIGRTMAX - 1);
  for (int k = 0; edge_more(); k++)
    for (int number = SIGRTMAX - 1; number <= SIGRTMAX; number++) {
      siginfo_t info;
      sigset_t set = set_of(number), pending;
      struct timespec soon = {5, 0};
      EDGE_CHECK(sigqueue(getpid(), number, (union sigval){.sival_int = k}) == 0);
      EDGE_CHECK(sigpending(&pending) == 0 && sigismember(&pending, number));
      EDGE_CHECK(sigtimedwait(&set, &info, &soon) == number && info.si_value.sival_int == k);
    }
}

static void children_that_die_of_signals(void) {  // each one kills a child by its default action
  static const int numbers[] = {SIGUSR1, SIGUSR2, SIGSYS, SIGTERM, SIGSEGV, SIGALRM,
                                63,      64,      34,     SIGABRT, SIGPIPE, SIGTRAP};
  struct rlimit none = {0, 0};
  for (int k = 0; edge_more(); k++) {
    int number = numbers[k % 12], status;
    pid_t child = fork();
    if (!child) {
      setrlimit(RLIMIT_CORE, &none);
      signal(number, SIG_DFL);
      raise(number);
      _exit(99);
    }
    EDGE_CHECK(waitpid(child, &status, 0) == child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != number)
      steplog_fail("signal %d at default gives status %x", number, status);
  }
}

// A signal mask from the status of an executed child (shells change masks), or, with `here`, of this program.
static unsigned long long status_mask(const char* name, bool here) {
  int ends[2], status = 0;
  char text[256] = "";
  if (here) {
    FILE* file = fopen("/proc/self/status", "r");
    while (fgets(text, sizeof text, file) && strncmp(text, name, strlen(name)) != 0) {
    }
    fclose(file);
    return strtoull(text + strlen(name) + 1, NULL, 16);
  }
  EDGE_CHECK(pipe(ends) == 0);
  pid_t child = fork();
  if (!child) {
    dup2(ends[1], 1);
    execlp("grep", "grep", name, "/proc/self/status", (char*)NULL);
    _exit(127);
  }
  close(ends[1]);
  EDGE_CHECK(read(ends[0], text, sizeof text - 1) > 8 && close(ends[0]) == 0 &&
             waitpid(child, &status, 0) == child && status == 0);
  return strtoull(text + strlen(name) + 1, NULL, 16);
}

// only signals that the program ignored, and those that it inherited as ignored
static void ignored_by_an_executed_child(void) {
  unsigned long long given = status_mask("SigIgn", true);
  steplog_mix(given);
  signal(SIGUSR2, SIG_IGN);
  while (edge_more()) EDGE_CHECK(status_mask("SigIgn", false) == (given | 1ull << (SIGUSR2 - 1)));
}

static void masks_seen_by_an_executed_child(void) {
  unsigned long long given = status_mask("SigBlk", true);
  steplog_mix(given);
  block(SIGUSR1), block(63), block(64), block(SIGSYS);
  while (edge_more())
    EDGE_CHECK(status_mask("SigBlk", false) ==
               (given | 1ull << (SIGUSR1 - 1) | 1ull << 62 | 1ull << 63 | 1ull << (SIGSYS - 1)));
}

static void suspended_in_sigsuspend(void) {
  block(SIGALRM);
  install(SIGALRM, 0);
  for (int k = 1; edge_more(); k++) {
    sigset_t none = set_of(0), now;
    pid_t child = fork();
    if (!child) {
      edge_sleep(2000);
      kill(getppid(), SIGALRM);
      _exit(0);
    }
    while (count < k) EDGE_CHECK(sigsuspend(&none) == -1 && errno == EINTR);
    EDGE_CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGALRM) &&
               waitpid(child, NULL, 0) == child);
  }
}

static sigjmp_buf out;

static void leave(int number) {
  (void)number;
  siglongjmp(out, 1);
}

static void jumps_out_of_handlers(
    void) {  // jumps out of whatever the alarm interrupted: clock reads, sleeps, file calls
  signal(SIGALRM, leave);
  volatile int jumps = 0;
  int fd = edge_file("jumped", 4096, 1, O_RDWR);
  while (edge_more()) {
    for (volatile int round = 0; round < 20; round++) {
      if (sigsetjmp(out, 1)) {
        jumps++;
        continue;
      }
      struct itimerval soon = {{0, 0}, {0, 300}};
      setitimer(ITIMER_REAL, &soon, NULL);
      for (struct timespec t; clock_gettime(CLOCK_REALTIME, &t) == 0;) {
        char byte;
        void* p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EDGE_CHECK(pread(fd, &byte, 1, 0) == 1 && munmap(p, 4096) == 0);
        int copy = dup(fd);
        close(copy);
      }
    }
    signal(SIGALRM, SIG_IGN);  // a jump may have leaked a descriptor or a page
    for (int i = 4; i < 60; i++)
      if (i != fd && i != fileno(steplog_file)) close(i);
    signal(SIGALRM, leave);
  }
  EDGE_CHECK(jumps == 20 * steplog_steps);
}

static void jump_out_of_a_blocking_open(void) {
  unlink("nobody writes");
  EDGE_CHECK(mkfifo("nobody writes", 0600) == 0);
  signal(SIGALRM, leave);
  volatile int jumps = 0;
  while (edge_more()) {
    if (sigsetjmp(out, 1)) {
      jumps++;
      continue;
    }
    struct itimerval soon = {{0, 0}, {0, 5000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    open("nobody writes", O_RDONLY);
    steplog_fail("the open came back");
  }
  EDGE_CHECK(jumps == steplog_steps);
}

static void handler_changes_the_context(void) {  // skips the faulting instruction and sets a register
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  action.sa_sigaction = note;
  extern void skip(int, siginfo_t*, void*) __asm__("edge_skip");
  action.sa_sigaction = skip;
  sigaction(SIGILL, &action, NULL);
  while (edge_more()) {
    long value = 1;
    __asm__ volatile("ud2" : "+a"(value));
    EDGE_CHECK(value == 4711);
  }
}

void skip(int number, siginfo_t* info, void* context) __asm__("edge_skip");
void skip(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  ucontext_t* at = (ucontext_t*)context;
  at->uc_mcontext.gregs[REG_RIP] += 2;
  at->uc_mcontext.gregs[REG_RAX] = 4711;
}

static void handler_changes_the_mask(void) {  // a mask set in the handler's context stays after the return
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  extern void blocks_more(int, siginfo_t*, void*) __asm__("edge_blocks_more");
  action.sa_sigaction = blocks_more;
  sigaction(SIGUSR2, &action, NULL);
  for (int k = 0; edge_more(); k++) {
    sigset_t now;
    raise(SIGUSR2);
    EDGE_CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGRTMIN + (k % 8)) == 1);
    sigemptyset(&now);
    EDGE_CHECK(sigprocmask(SIG_SETMASK, &now, NULL) == 0);
  }
}

void blocks_more(int number, siginfo_t* info, void* context) __asm__("edge_blocks_more");
void blocks_more(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  static int calls;
  sigaddset(&((ucontext_t*)context)->uc_sigmask, SIGRTMIN + calls++ % 8);
}

static void single_stepped_by_trap_flag(void) {  // the trap flag raises SIGTRAP after each instruction
  install(SIGTRAP, 0);
  while (edge_more()) {
    int before = count;
    __asm__ volatile(
        "pushfq\n orq $0x100, (%%rsp)\n popfq\n nop\n nop\n nop\n pushfq\n andq $~0x100, (%%rsp)\n popfq\n" ::
            : "memory", "cc");
    EDGE_CHECK(count - before >= 4 && count - before <= 8);
    __asm__ volatile("int3");
    EDGE_CHECK(count - before >= 5);
  }
}

static void one_shot_and_nested_handlers(void) {
  for (int k = 0; edge_more(); k++) {
    install(SIGUSR2, (int)SA_RESETHAND);
    raise(SIGUSR2);
    struct sigaction found;
    EDGE_CHECK(sigaction(SIGUSR2, NULL, &found) == 0 && found.sa_handler == SIG_DFL && count == k + 1);
  }
}

static void exit_under_fast_timer(void) {  // signals until the process's last instruction
  install(SIGALRM, SA_RESTART);
  while (edge_more()) {
  }
  struct itimerval fast = {{0, 50}, {0, 50}};
  setitimer(ITIMER_REAL, &fast, NULL);
}

// --- Timers and clocks ---

static void processor_time_timer(void) {
  install(SIGPROF, SA_RESTART);
  struct itimerval every = {{0, 3000}, {0, 3000}};
  EDGE_CHECK(setitimer(ITIMER_PROF, &every, NULL) == 0);
  while (edge_more()) {
    int before = count;
    while (count < before + 2) steplog_spin(1000);
  }
  every = (struct itimerval){{0, 0}, {0, 0}};
  EDGE_CHECK(setitimer(ITIMER_PROF, &every, NULL) == 0);
}

// Each alarm is awaited, and comes once.
static void alarms_that_are_awaited(void) {
  sigset_t alarm_only, before;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  install(SIGALRM, 0);
  sigprocmask(SIG_BLOCK, &alarm_only, &before);
  for (int k = 0; edge_more(); k++) {
    struct itimerval soon = {{0, 0}, {0, 20000}};
    EDGE_CHECK(count == k && setitimer(ITIMER_REAL, &soon, NULL) == 0);
    while (count == k) sigsuspend(&before);
  }
}

static void disarmed_timer(void) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  struct itimerspec now;
  EDGE_CHECK(timer_create(CLOCK_REALTIME, &event, &timer) == 0);
  while (edge_more()) EDGE_CHECK(timer_gettime(timer, &now) == 0 && now.it_value.tv_sec == 0);
  timer_delete(timer);
}

static void distant_alarm(void) {
  alarm(5000);
  while (edge_more()) {
    unsigned left = alarm(5000);
    EDGE_CHECK(left > 4900 && left <= 5000);
  }
}

static void clocks_only_go_forward(void) {
  static const clockid_t clocks[] = {CLOCK_MONOTONIC,          CLOCK_BOOTTIME,
                                     CLOCK_MONOTONIC_RAW,      CLOCK_MONOTONIC_COARSE,
                                     CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
  struct timespec before[6], now;
  clock_t ticks = clock();
  struct rusage used, use;
  getrusage(RUSAGE_SELF, &used);
  for (int i = 0; i < 6; i++) clock_gettime(clocks[i], &before[i]);
  while (edge_more()) {
    for (int i = 0; i < 6; i++) {
      EDGE_CHECK(clock_gettime(clocks[i], &now) == 0);
      if (now.tv_sec < before[i].tv_sec ||
          (now.tv_sec == before[i].tv_sec && now.tv_nsec < before[i].tv_nsec))
        steplog_fail("clock %d went back", clocks[i]);
      before[i] = now;
    }
    EDGE_CHECK(clock() >= ticks);
    ticks = clock();
    getrusage(RUSAGE_SELF, &use);
    EDGE_CHECK(use.ru_utime.tv_sec * 1000000 + use.ru_utime.tv_usec >=
               used.ru_utime.tv_sec * 1000000 + used.ru_utime.tv_usec);
    used = use;
  }
}

static void clock_of_the_process_by_number(void) {
  clockid_t clock;
  struct timespec now, last = {0, 0};
  while (edge_more()) {
    EDGE_CHECK(clock_getcpuclockid(getpid(), &clock) == 0 && clock_gettime(clock, &now) == 0);
    EDGE_CHECK(now.tv_sec > last.tv_sec || (now.tv_sec == last.tv_sec && now.tv_nsec >= last.tv_nsec));
    last = now;
    EDGE_CHECK(pthread_getcpuclockid(pthread_self(), &clock) == 0 && clock_gettime(clock, &now) == 0);
  }
}

static void time_by_every_call(void) {
  struct timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  while (edge_more()) {
    struct timeval a;
    struct timespec b, c;
    struct timex state = {0};
    gettimeofday(&a, NULL);
    EDGE_CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &b) == 0 && labs(a.tv_sec - b.tv_sec) <= 1 &&
               labs(time(NULL) - b.tv_sec) <= 1);
    EDGE_CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b) == 0 &&
               clock_gettime(CLOCK_MONOTONIC, &c) == 0 && labs(b.tv_sec - c.tv_sec) <= 1);
    EDGE_CHECK(b.tv_sec - start.tv_sec < 300 && adjtimex(&state) >= 0 &&
               clock_getres(CLOCK_MONOTONIC, &c) == 0 && c.tv_nsec == 1);
  }
}

static void absolute_time_waits(void) {  // absolute times, also across a restart
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t never;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&never, &attributes);
  while (edge_more()) {
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 10000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    EDGE_CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
    pthread_mutex_lock(&mutex);
    until.tv_nsec = until.tv_nsec > 980000000 ? 999999999 : until.tv_nsec + 10000000;
    EDGE_CHECK(pthread_cond_timedwait(&never, &mutex, &until) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
  }
}

static volatile int told;

static void tell(union sigval value) { told = value.sival_int; }

// Timers that signal a thread, by its id or (SIGEV_THREAD) through a thread of the C library, which exists
// since the first such timer.
static void timers_that_signal_a_thread(void) {
  const struct itimerspec soon = {{0, 0}, {0, 100 * 1000}};
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, SIGRTMIN + 3);
  pthread_sigmask(SIG_BLOCK, &own, NULL);
  int number = 0;
  while (edge_more()) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD};
    timer_t timer;
    event.sigev_value.sival_int = ++number;
    event.sigev_notify_function = tell;
    EDGE_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
               timer_settime(timer, 0, &soon, NULL) == 0);
    while (told != number) edge_sleep(100);
    EDGE_CHECK(timer_delete(timer) == 0);
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGRTMIN + 3;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    EDGE_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
               timer_settime(timer, 0, &soon, NULL) == 0);
    EDGE_CHECK(sigwaitinfo(&own, NULL) == SIGRTMIN + 3);
    EDGE_CHECK(timer_delete(timer) == 0);
  }
}

// Waits for all signals, by the system call itself: the C library's function excludes its internal ones.
static void waits_for_any_signal(void) {
  const uint64_t all = ~0ull;
  const struct timespec time = {0, 20 * 1000 * 1000};
  while (edge_more())
    for (int i = 0; i < 5; i++)
      EDGE_CHECK(syscall(SYS_rt_sigtimedwait, &all, NULL, &time, sizeof all) == -1 && errno == EAGAIN);
}

// The timeout is not updated or is read-only: the wait still ends, and not too early.
static void timeouts_that_are_not_updated(void) {
  struct timespec* constant = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EDGE_CHECK(constant != MAP_FAILED);
  constant->tv_nsec = 60 * 1000 * 1000;
  EDGE_CHECK(mprotect(constant, 4096, PROT_READ) == 0);
  const unsigned long own = (unsigned long)personality(0xffffffff);
  while (edge_more()) {
    EDGE_CHECK(personality(own | STICKY_TIMEOUTS) >= 0);
    struct timeval time = {0, 60 * 1000};
    EDGE_CHECK(syscall(SYS_select, 0, NULL, NULL, NULL, &time) == 0 && time.tv_sec == 0 &&
               time.tv_usec == 60 * 1000);
    EDGE_CHECK(personality(own) >= 0);
    EDGE_CHECK(syscall(SYS_ppoll, NULL, 0, constant, NULL, 8) == 0 && constant->tv_nsec == 60 * 1000 * 1000);
    EDGE_CHECK(syscall(SYS_select, 0, NULL, NULL, NULL, &time) == 0 && time.tv_sec == 0 && time.tv_usec == 0);
    struct timespec wrong = {0, 1000 * 1000 * 1000};
    EDGE_CHECK(syscall(SYS_ppoll, NULL, 0, &wrong, NULL, 8) == -1 && errno == EINVAL);
  }
}

// As in a coroutine library: a handler returns into another coroutine's context. The alternate stack in that
// context is the other coroutine's; no handler here uses it.
static char others_stack[256 * 1024];

static void return_with_another_stack(int number, siginfo_t* info, void* context) {
  (void)number, (void)info;
  stack_t* stack = &((ucontext_t*)context)->uc_stack;
  stack->ss_sp = others_stack;
  stack->ss_size = sizeof others_stack;
  stack->ss_flags = 0;
}

static void alternate_stack_of_another_context(void) {
  struct sigaction action = {.sa_sigaction = return_with_another_stack, .sa_flags = SA_SIGINFO};
  EDGE_CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
  memset(others_stack, 0x5a, sizeof others_stack);
  while (edge_more()) {
    raise(SIGUSR2);
    for (int i = 0; i < 20; i++) close(open("/dev/null", O_RDONLY));
    for (size_t i = 0; i < sizeof others_stack; i++) EDGE_CHECK(others_stack[i] == 0x5a);
  }
}

// A wait with a temporary mask: handlers that end the wait run under that mask, for all pending signals. A
// handler that runs later has the thread's own mask again.
static sigset_t masks[3];

static void note_mask(int number, siginfo_t* info, void* context) {
  const int which = number == SIGUSR1 ? 0 : number == SIGUSR2 ? 1 : 2;
  (void)info, (void)context;
  count++;
  EDGE_CHECK(sigprocmask(SIG_BLOCK, NULL, &masks[which]) == 0);
  if (which == 0) EDGE_CHECK(raise(SIGTERM) == 0);
}

static void wait_with_mask(int how, const sigset_t* mask) {
  static const struct timespec kLong = {60, 0};
  if (how == 0) EDGE_CHECK(sigsuspend(mask) == -1 && errno == EINTR);
  if (how == 1) EDGE_CHECK(ppoll(NULL, 0, &kLong, mask) == -1 && errno == EINTR);
  if (how == 2) EDGE_CHECK(pselect(0, NULL, NULL, NULL, &kLong, mask) == -1 && errno == EINTR);
  if (how != 3) return;
  struct epoll_event none;
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  EDGE_CHECK(fd >= 0 && epoll_pwait(fd, &none, 1, 60000, mask) == -1 && errno == EINTR && close(fd) == 0);
}

static void masks_in_handlers_that_end_a_wait(void) {
  static char stack[1 << 16];
  const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  EDGE_CHECK(sigaltstack(&alternate, NULL) == 0);
  block(SIGUSR1), block(SIGUSR2), block(SIGHUP);
  const sigset_t hangup = set_of(SIGHUP), no_term = set_of(SIGTERM);
  for (int k = 0; edge_more(); k++) {
    struct sigaction action = {.sa_sigaction = note_mask, .sa_flags = SA_SIGINFO | (k & 4 ? SA_ONSTACK : 0)};
    action.sa_mask = hangup;
    EDGE_CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGUSR2, &action, NULL) == 0);
    EDGE_CHECK(sigaction(SIGTERM, &action, NULL) == 0);
    EDGE_CHECK(raise(SIGUSR1) == 0 && raise(SIGUSR2) == 0);
    count = 0;
    wait_with_mask(k & 3, &no_term);
    EDGE_CHECK(count == 3 && sigismember(&masks[2], SIGUSR1) && sigismember(&masks[2], SIGUSR2));
    for (int i = 0; i < 2; i++) {  // SIGUSR2's handler interrupts SIGUSR1's
      EDGE_CHECK(sigismember(&masks[i], SIGTERM) && sigismember(&masks[i], SIGHUP) &&
                 sigismember(&masks[i], i ? SIGUSR2 : SIGUSR1));
      EDGE_CHECK(sigismember(&masks[i], i ? SIGUSR1 : SIGUSR2) == i);
    }
    sigset_t now;
    EDGE_CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR1) &&
               !sigismember(&now, SIGTERM));
  }
}

#define KIND(name) \
  { #name, name }
static const struct edge_case table[] = {
    KIND(queued_real_time_signals),
    KIND(pending_kill_keeps_its_sender),
    KIND(pending_for_process_or_thread),
    KIND(every_signal_has_an_action),
    KIND(every_signal_is_delivered),
    KIND(last_real_time_signals),
    KIND(children_that_die_of_signals),
    KIND(ignored_by_an_executed_child),
    KIND(masks_seen_by_an_executed_child),
    KIND(suspended_in_sigsuspend),
    KIND(jumps_out_of_handlers),
    KIND(jump_out_of_a_blocking_open),
    KIND(handler_changes_the_context),
    KIND(handler_changes_the_mask),
    KIND(single_stepped_by_trap_flag),
    KIND(one_shot_and_nested_handlers),
    KIND(exit_under_fast_timer),
    KIND(processor_time_timer),
    KIND(disarmed_timer),
    KIND(distant_alarm),
    KIND(alarms_that_are_awaited),
    KIND(clocks_only_go_forward),
    KIND(clock_of_the_process_by_number),
    KIND(time_by_every_call),
    KIND(absolute_time_waits),
    KIND(timers_that_signal_a_thread),
    KIND(waits_for_any_signal),
    KIND(timeouts_that_are_not_updated),
    KIND(alternate_stack_of_another_context),
    KIND(masks_in_handlers_that_end_a_wait),
};

EDGE_MAIN(table)
