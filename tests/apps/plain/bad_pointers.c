// Every system call with pointers that CropDL might inspect, called with bad pointers: 8, an unmapped hole,
// beyond all addresses, read-only memory, objects and strings that start just before a hole. The program
// prints each call's result and what it changed nevertheless, in the first step; every later step must give
// the same.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "steplog.h"

enum { kPage = 4096, kLines = 8192 };

static char first_step[kLines][120];
static int line;

__attribute__((format(printf, 1, 2))) static void told(const char* format, ...) {
  va_list list;
  char text[sizeof first_step[0]];
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  STEPLOG_CHECK(line < kLines);
  if (steplog_done == 0) {
    strcpy(first_step[line], text);
    puts(text);
  } else if (strcmp(first_step[line], text) != 0) {
    steplog_fail("`%s`, and in the first step `%s`", text, first_step[line]);
  }
  steplog_mix_bytes(text, strlen(text));
  line++;
}

// [two pages to write to][a hole][a page to read][a hole]
static char *mine, *hole, *constant;

static void map_pages(void) {
  mine = mmap(NULL, 8 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  STEPLOG_CHECK(mine != MAP_FAILED);
  hole = mine + 2 * kPage;
  constant = mine + 4 * kPage;
  STEPLOG_CHECK(!munmap(hole, kPage) && !munmap(constant + kPage, 3 * kPage) &&
                !munmap(constant - kPage, kPage));
  STEPLOG_CHECK(!mprotect(constant, kPage, PROT_READ));
}

// Ways in which a pointer can be bad.
enum Badness {
  kNull,
  kEight,
  kHole,
  kHigh,
  kConstant,
  kBeforeHole1,
  kBeforeHole4,
  kBeforeHole8,
  kBeforeHole12,
  kBeforeHole16,
  kBeforeHole24,
  kIntoConstant4,
  kIntoConstant8,
  kIntoConstant16,
  kWays
};
static const char* const kBadness[] = {"null", "8",           "hole",        "high",        "constant",
                                       "-1",   "-4",          "-8",          "-12",         "-16",
                                       "-24",  "-4 constant", "-8 constant", "-16 constant"};
static const enum Badness kFew[] = {kEight, kConstant, kBeforeHole4,
                                    kIntoConstant4};  // in calls that make a child each time
static const int kBefore[] = {0, 0, 0, 0, 0, 1, 4, 8, 12, 16, 24, 4, 8, 16};

static void protect(int constants) {
  STEPLOG_CHECK(!mprotect(constant, kPage, PROT_READ | (constants ? 0 : PROT_WRITE)));
}

// A bad pointer of that kind, with what fits of the `size` bytes at `object`.
static long bad(enum Badness how, const void* object, size_t size) {
  const size_t part = size < (size_t)kBefore[how] ? size : (size_t)kBefore[how];
  switch (how) {
    case kNull:
      return 0;
    case kEight:
      return 8;
    case kHole:
      return (long)hole;
    case kHigh:
      return (long)0x8000000000000000;
    case kConstant:
      protect(0);
      memset(constant, 0, kPage);
      if (object) memcpy(constant, object, size);
      protect(1);
      return (long)constant;
    default:
      break;
  }
  char* edge = hole;
  if (how >= kIntoConstant4) {  // here the two pages must be adjacent
    static char* pair;
    if (!pair) pair = mmap(NULL, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    STEPLOG_CHECK(!mprotect(pair, 2 * kPage, PROT_READ | PROT_WRITE));
    edge = pair + kPage;
    memset(edge - 64, 0, 256);
    if (object) memcpy(edge - kBefore[how], object, size);
    STEPLOG_CHECK(!mprotect(edge, kPage, PROT_READ));
  } else {
    memset(edge - 64, 0, 64);
    if (object) memcpy(edge - kBefore[how], object, part);
  }
  return (long)(edge - kBefore[how]);
}

struct Argument {
  char kind;  // '.' a value, 'i' input, 'o' output, 'b' both
  long value;
  size_t size;
};
#define VALUE(x) \
  { '.', (long)(x), 0 }
#define IN(x) \
  { 'i', (long)&(x), sizeof(x) }
#define OUT(n) \
  { 'o', 0, n }
#define BOTH(x) \
  { 'b', (long)&(x), sizeof(x) }
#define TEXT(x) \
  { 'i', (long)(x), sizeof(x) }

enum Flags {
  kMakesFile = 1,
  kMakesTwo = 2,
  kNeverGood = 4,
  kNoNull = 8,
  kMakesTimer = 16,
  kMakesContext = 32,
  kTellsIds = 64  // print the bytes as text: the kernel needs between 4 and 16, so the result varies
};

struct Case {
  const char* name;
  long nr;
  int flags;
  struct Argument a[6];
  void (*before)(void);
};

static int is_good(const struct Argument* a, enum Badness how) {
  return (how == kConstant && a->kind == 'i') || (kBefore[how] && a->size <= (size_t)kBefore[how]) ||
         (how >= kIntoConstant4 && a->kind == 'i');
}

static void baseline(void) {
  const stack_t none = {.ss_flags = SS_DISABLE};
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  sigaltstack(&none, NULL);
  signal(SIGUSR1, SIG_IGN);
  const struct timespec now = {0, 0};
  while (sigtimedwait(&blocked, NULL, &now) > 0) {
  }
  sigprocmask(SIG_SETMASK, &blocked, NULL);
}

// Prints what a call changed although it failed.
static void tell(const char* name, int argument, const char* how, long result, int error) {
  stack_t stack;
  sigset_t mask, pending;
  struct sigaction action;
  sigaltstack(NULL, &stack);
  sigprocmask(SIG_SETMASK, NULL, &mask);
  sigaction(SIGUSR1, NULL, &action);
  sigpending(&pending);
  const int file = dup(0);
  close(file);
  told("%s %d %s: %s%d mask %lx handler %lx stack %zx pending %d file %d", name, argument, how,
       result < 0 ? "error " : "", result < 0 ? error : 0, *(unsigned long*)&mask,
       (unsigned long)action.sa_handler, stack.ss_flags & SS_DISABLE ? 0 : stack.ss_size,
       sigismember(&pending, SIGUSR2), file);
}

static void try(const struct Case* c) {
  static char results[6][512] __attribute__((aligned(64)));
  static char objects[6][512] __attribute__((aligned(64)));
  for (int argument = 0; argument < 6; argument++) {
    if (c->a[argument].kind == 0 || c->a[argument].kind == '.') continue;
    for (int how = 0; how < kWays; how++) {
      long a[6];
      if (is_good(&c->a[argument], how) && (c->flags & kNeverGood)) continue;
      if (how == kNull && (c->flags & kNoNull)) continue;
      if (how >= kIntoConstant4 && c->a[argument].kind == 'i') continue;
      if ((c->flags & kTellsIds) && c->a[argument].kind == 'o' && kBefore[how] >= 4 && kBefore[how] <= 16)
        continue;
      for (int i = 0; i < 6; i++) {
        a[i] = c->a[i].value;
        if (c->a[i].kind == 'o') memset(results[i], 0, sizeof results[i]), a[i] = (long)results[i];
        if (c->a[i].kind == 'b')
          memcpy(objects[i], (void*)c->a[i].value, c->a[i].size), a[i] = (long)objects[i];
      }
      baseline();
      if (c->before) c->before();
      a[argument] =
          bad(how, (void*)(c->a[argument].kind == 'o' ? 0 : c->a[argument].value), c->a[argument].size);
      errno = 0;
      const long result = syscall(c->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
      const int error = errno;
      if (result >= 0 && (c->flags & kMakesFile)) close((int)result);
      if (result >= 0 && (c->flags & kMakesTwo)) close(((int*)a[argument])[0]), close(((int*)a[argument])[1]);
      if (result >= 0 && (c->flags & kMakesTimer)) syscall(SYS_timer_delete, *(int*)a[2]);
      if (result >= 0 && (c->flags & kMakesContext)) syscall(SYS_io_destroy, *(long*)a[1]);
      tell(c->name, argument, kBadness[how], result, error);
    }
  }
}

static void pending_signal(void) { sigqueue(getpid(), SIGUSR2, (union sigval){7}); }

static void ordinary_calls(void) {
  static unsigned word = 5;
  static struct timespec none = {0, 0}, short_time = {0, 1000}, wrong = {0, 1000000000}, negative = {-1, 0},
                         below = {0, -1}, long_time = {4000000001, 0}, longest = {INT64_MAX, 999999999};
  static struct timeval no_time;
  static struct pollfd input = {.fd = 0, .events = POLLIN};
  static fd_set reads;
  static unsigned long empty, usr2 = 1ul << (SIGUSR2 - 1);  // in the size that the kernel expects
  static struct {
    const void* set;
    size_t size;
  } pair = {&empty, 8}, bad_pair = {(void*)8, 8}, wrong_pair = {&empty, 9}, no_set = {NULL, 8};
  static struct open_how how = {.flags = O_RDONLY};
  static struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } action = {SIG_DFL, 0, NULL, 0};
  static char stack_bytes[16384];
  static stack_t stack = {.ss_sp = stack_bytes, .ss_size = sizeof stack_bytes},
                 small = {.ss_sp = stack_bytes, .ss_size = 100},
                 strange = {.ss_sp = stack_bytes, .ss_flags = 77, .ss_size = sizeof stack_bytes};
  static sigevent_t event = {.sigev_notify = SIGEV_NONE};
  static unsigned char performance[128] = {1, 0, 0, 0, 128};
  static unsigned char ring[120], ruleset[8] = {1};
  static long context;
  static unsigned short operations[3] = {0, 1, 0};
  static long message[2] = {1, 2};
  static struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0}, old_header = {1, 0};
  static unsigned long affinity[16] = {~0ul};
  static struct sched_param priority;
  static siginfo_t info;
  static struct iovec piece;
  static char byte[8];
  static const char text[] = "/dev/null", own[] = "/proc/self/exe", self[] = "/proc/self",
                    status[] = "/proc/self/status", task[] = "/proc/thread-self";
  static unsigned handle[4] = {8, 1};
  static char* arguments[] = {"/bin/true", NULL};
  static void* page;
  FD_SET(0, &reads);
  piece = (struct iovec){byte, 8};
  page = byte;
  info.si_signo = SIGUSR2, info.si_code = SI_QUEUE, info.si_pid = getpid();
  const int poller = epoll_create1(0), counter = eventfd(1, 0), watch = inotify_init();
  struct epoll_event ready = {.events = EPOLLIN};
  STEPLOG_CHECK(poller >= 0 && counter >= 0 && watch >= 0 &&
                !epoll_ctl(poller, EPOLL_CTL_ADD, counter, &ready));
  const struct Case cases[] = {
      {"open", SYS_open, kMakesFile, {TEXT(text), VALUE(O_RDONLY)}, NULL},
      {"open self", SYS_open, kMakesFile, {TEXT(own), VALUE(O_RDONLY)}, NULL},
      {"open status", SYS_open, kMakesFile, {TEXT(status), VALUE(O_RDONLY)}, NULL},
      {"openat as ld.so",
       SYS_openat,
       kMakesFile,
       {VALUE(AT_FDCWD), TEXT(text), VALUE(O_RDONLY | O_CLOEXEC)},
       NULL},
      {"openat self", SYS_openat, kMakesFile, {VALUE(AT_FDCWD), TEXT(own), VALUE(O_RDONLY)}, NULL},
      {"creat", SYS_creat, kMakesFile, {TEXT(text), VALUE(0600)}, NULL},
      {"openat2", SYS_openat2, kMakesFile, {VALUE(AT_FDCWD), TEXT(own), IN(how), VALUE(sizeof how)}, NULL},
      {"openat2 larger",
       SYS_openat2,
       kMakesFile,
       {VALUE(AT_FDCWD), TEXT(own), IN(how), VALUE(sizeof how + 8)},
       NULL},
      {"readlink", SYS_readlink, 0, {TEXT(own), OUT(64), VALUE(64)}, NULL},
      {"readlink short", SYS_readlink, 0, {TEXT(own), OUT(4), VALUE(4)}, NULL},
      {"readlink nothing", SYS_readlink, 0, {TEXT(own), OUT(4), VALUE(0)}, NULL},
      {"readlink negative", SYS_readlink, 0, {TEXT(own), OUT(4), VALUE(-5)}, NULL},
      {"readlink number", SYS_readlink, kTellsIds, {TEXT(self), OUT(64), VALUE(64)}, NULL},
      {"readlink number nothing", SYS_readlink, 0, {TEXT(self), OUT(64), VALUE(0)}, NULL},
      {"readlinkat", SYS_readlinkat, 0, {VALUE(AT_FDCWD), TEXT(own), OUT(64), VALUE(64)}, NULL},
      {"readlinkat task", SYS_readlinkat, kTellsIds, {VALUE(AT_FDCWD), TEXT(task), OUT(64), VALUE(64)}, NULL},
      {"rt_sigaction", SYS_rt_sigaction, 0, {VALUE(SIGUSR1), IN(action), OUT(32), VALUE(8)}, NULL},
      {"rt_sigaction 9", SYS_rt_sigaction, 0, {VALUE(9), IN(action), OUT(32), VALUE(8)}, NULL},
      {"rt_sigaction 0", SYS_rt_sigaction, 0, {VALUE(0), IN(action), OUT(32), VALUE(8)}, NULL},
      {"rt_sigaction 65", SYS_rt_sigaction, 0, {VALUE(65), IN(action), OUT(32), VALUE(8)}, NULL},
      {"rt_sigaction wide",
       SYS_rt_sigaction,
       0,
       {VALUE(SIGUSR1 | 7l << 32), IN(action), OUT(32), VALUE(8)},
       NULL},
      {"rt_sigaction size", SYS_rt_sigaction, 0, {VALUE(SIGUSR1), IN(action), OUT(32), VALUE(16)}, NULL},
      {"rt_sigprocmask", SYS_rt_sigprocmask, 0, {VALUE(SIG_BLOCK), IN(empty), OUT(8), VALUE(8)}, NULL},
      {"rt_sigprocmask set", SYS_rt_sigprocmask, 0, {VALUE(SIG_SETMASK), IN(empty), OUT(8), VALUE(8)}, NULL},
      {"rt_sigprocmask wide",
       SYS_rt_sigprocmask,
       0,
       {VALUE(SIG_SETMASK | 7l << 32), IN(empty), OUT(8), VALUE(8)},
       NULL},
      {"rt_sigprocmask how", SYS_rt_sigprocmask, 0, {VALUE(7), IN(empty), OUT(8), VALUE(8)}, NULL},
      {"rt_sigprocmask size", SYS_rt_sigprocmask, 0, {VALUE(SIG_BLOCK), IN(empty), OUT(8), VALUE(7)}, NULL},
      {"sigaltstack", SYS_sigaltstack, 0, {IN(stack), OUT(24)}, NULL},
      {"sigaltstack small", SYS_sigaltstack, 0, {IN(small), OUT(24)}, NULL},
      {"sigaltstack strange", SYS_sigaltstack, 0, {IN(strange), OUT(24)}, NULL},
      {"rt_sigsuspend", SYS_rt_sigsuspend, kNeverGood, {IN(empty), VALUE(8)}, NULL},
      {"rt_sigsuspend size", SYS_rt_sigsuspend, 0, {IN(empty), VALUE(4)}, NULL},
      {"rt_sigtimedwait none", SYS_rt_sigtimedwait, kNoNull, {IN(usr2), OUT(128), IN(none), VALUE(8)}, NULL},
      {"rt_sigtimedwait", SYS_rt_sigtimedwait, 0, {IN(usr2), OUT(128), IN(none), VALUE(8)}, pending_signal},
      {"rt_sigtimedwait wrong",
       SYS_rt_sigtimedwait,
       0,
       {IN(usr2), OUT(128), IN(wrong), VALUE(8)},
       pending_signal},
      {"rt_sigqueueinfo", SYS_rt_sigqueueinfo, 0, {VALUE(getpid()), VALUE(SIGUSR2), IN(info)}, NULL},
      {"rt_tgsigqueueinfo",
       SYS_rt_tgsigqueueinfo,
       0,
       {VALUE(getpid()), VALUE(gettid()), VALUE(SIGUSR2), IN(info)},
       NULL},
      {"signalfd", SYS_signalfd, kMakesFile, {VALUE(-1), IN(empty), VALUE(8)}, NULL},
      {"signalfd4", SYS_signalfd4, kMakesFile, {VALUE(-1), IN(empty), VALUE(8), VALUE(0)}, NULL},
      {"poll", SYS_poll, 0, {BOTH(input), VALUE(1), VALUE(0)}, NULL},
      {"ppoll", SYS_ppoll, 0, {BOTH(input), VALUE(1), BOTH(none), IN(empty), VALUE(8)}, NULL},
      {"ppoll size", SYS_ppoll, 0, {BOTH(input), VALUE(1), BOTH(none), IN(empty), VALUE(9)}, NULL},
      {"ppoll wrong", SYS_ppoll, 0, {BOTH(input), VALUE(1), BOTH(wrong), IN(empty), VALUE(8)}, NULL},
      {"select", SYS_select, 0, {VALUE(1), BOTH(reads), BOTH(reads), BOTH(reads), BOTH(no_time)}, NULL},
      {"pselect6",
       SYS_pselect6,
       0,
       {VALUE(1), BOTH(reads), BOTH(reads), BOTH(reads), BOTH(none), IN(pair)},
       NULL},
      {"pselect6 set",
       SYS_pselect6,
       0,
       {VALUE(1), BOTH(reads), VALUE(0), VALUE(0), BOTH(none), IN(bad_pair)},
       NULL},
      {"pselect6 size",
       SYS_pselect6,
       0,
       {VALUE(1), BOTH(reads), VALUE(0), VALUE(0), BOTH(none), IN(wrong_pair)},
       NULL},
      {"pselect6 no set",
       SYS_pselect6,
       0,
       {VALUE(1), BOTH(reads), VALUE(0), VALUE(0), BOTH(none), IN(no_set)},
       NULL},
      {"epoll_wait", SYS_epoll_wait, 0, {VALUE(poller), OUT(12), VALUE(1), VALUE(0)}, NULL},
      {"epoll_pwait",
       SYS_epoll_pwait,
       0,
       {VALUE(poller), OUT(12), VALUE(1), VALUE(0), IN(empty), VALUE(8)},
       NULL},
      {"epoll_pwait2",
       SYS_epoll_pwait2,
       0,
       {VALUE(poller), OUT(12), VALUE(1), IN(none), IN(empty), VALUE(8)},
       NULL},
      {"nanosleep", SYS_nanosleep, 0, {IN(short_time), OUT(16)}, NULL},
      {"nanosleep wrong", SYS_nanosleep, 0, {IN(wrong), OUT(16)}, NULL},
      {"nanosleep negative", SYS_nanosleep, 0, {IN(negative), OUT(16)}, NULL},
      {"clock_nanosleep",
       SYS_clock_nanosleep,
       0,
       {VALUE(CLOCK_MONOTONIC), VALUE(0), IN(short_time), OUT(16)},
       NULL},
      {"clock_nanosleep until",
       SYS_clock_nanosleep,
       0,
       {VALUE(CLOCK_MONOTONIC), VALUE(1), IN(short_time), OUT(16)},
       NULL},
      {"clock_nanosleep until wrong",
       SYS_clock_nanosleep,
       0,
       {VALUE(CLOCK_MONOTONIC), VALUE(1), IN(wrong), OUT(16)},
       NULL},
      {"clock_nanosleep until negative",
       SYS_clock_nanosleep,
       0,
       {VALUE(CLOCK_BOOTTIME), VALUE(1), IN(negative), OUT(16)},
       NULL},
      {"clock_nanosleep until real",
       SYS_clock_nanosleep,
       0,
       {VALUE(CLOCK_REALTIME), VALUE(1), IN(short_time), OUT(16)},
       NULL},
      {"clock_nanosleep until raw",
       SYS_clock_nanosleep,
       0,
       {VALUE(CLOCK_MONOTONIC_RAW), VALUE(1), IN(short_time), OUT(16)},
       NULL},
      {"clock_nanosleep until 99",
       SYS_clock_nanosleep,
       0,
       {VALUE(99), VALUE(1), IN(short_time), OUT(16)},
       NULL},
      {"clock_nanosleep until processor",
       SYS_clock_nanosleep,
       0,
       {VALUE(CLOCK_PROCESS_CPUTIME_ID), VALUE(1), IN(short_time), OUT(16)},
       NULL},
      {"clock_nanosleep until thread",
       SYS_clock_nanosleep,
       0,
       {VALUE(CLOCK_THREAD_CPUTIME_ID), VALUE(1), IN(short_time), OUT(16)},
       NULL},
      {"clock_nanosleep 99", SYS_clock_nanosleep, 0, {VALUE(99), VALUE(0), IN(short_time), OUT(16)}, NULL},
      {"futex wait", SYS_futex, kNoNull, {BOTH(word), VALUE(FUTEX_WAIT), VALUE(6), IN(short_time)}, NULL},
      {"futex wait private",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_PRIVATE), VALUE(6), IN(short_time)},
       NULL},
      {"futex wait wrong", SYS_futex, 0, {BOTH(word), VALUE(FUTEX_WAIT), VALUE(6), IN(wrong)}, NULL},
      {"futex wait negative", SYS_futex, 0, {BOTH(word), VALUE(FUTEX_WAIT), VALUE(6), IN(negative)}, NULL},
      {"futex wait below", SYS_futex, 0, {BOTH(word), VALUE(FUTEX_WAIT), VALUE(6), IN(below)}, NULL},
      {"futex wait long", SYS_futex, 0, {BOTH(word), VALUE(FUTEX_WAIT), VALUE(6), IN(long_time)}, NULL},
      {"futex wait longest", SYS_futex, 0, {BOTH(word), VALUE(FUTEX_WAIT), VALUE(6), IN(longest)}, NULL},
      {"futex wait timeout",
       SYS_futex,
       kNoNull,
       {VALUE(&word), VALUE(FUTEX_WAIT), VALUE(5), IN(short_time)},
       NULL},
      {"futex bitset",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_BITSET), VALUE(6), IN(short_time), VALUE(0), VALUE(-1)},
       NULL},
      {"futex bitset past",
       SYS_futex,
       kNoNull,
       {VALUE(&word), VALUE(FUTEX_WAIT_BITSET), VALUE(5), IN(short_time), VALUE(0), VALUE(-1)},
       NULL},
      {"futex bitset wrong",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_BITSET), VALUE(6), IN(wrong), VALUE(0), VALUE(-1)},
       NULL},
      {"futex bitset negative",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_BITSET), VALUE(6), IN(negative), VALUE(0), VALUE(-1)},
       NULL},
      {"futex bitset below",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_BITSET), VALUE(6), IN(below), VALUE(0), VALUE(-1)},
       NULL},
      {"futex bitset longest",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_BITSET), VALUE(6), IN(longest), VALUE(0), VALUE(-1)},
       NULL},
      {"futex bitset no bits",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_BITSET), VALUE(6), IN(short_time), VALUE(0), VALUE(0)},
       NULL},
      {"futex bitset some bits",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_BITSET), VALUE(6), IN(short_time), VALUE(0), VALUE(6)},
       NULL},
      {"futex bitset real",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME), VALUE(6), IN(short_time), VALUE(0),
        VALUE(-1)},
       NULL},
      {"futex bitset real wrong",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME), VALUE(6), IN(below), VALUE(0),
        VALUE(-1)},
       NULL},
      {"futex lock wrong",
       SYS_futex,
       kNoNull,
       {VALUE(&word), VALUE(FUTEX_LOCK_PI), VALUE(0), IN(wrong)},
       NULL},
      {"futex lock 2 wrong", SYS_futex, kNoNull, {VALUE(&word), VALUE(13), VALUE(0), IN(below)}, NULL},
      {"futex requeue wrong",
       SYS_futex,
       0,
       {BOTH(word), VALUE(FUTEX_WAIT_REQUEUE_PI), VALUE(6), IN(wrong), VALUE(&byte)},
       NULL},
      {"pipe", SYS_pipe, kMakesTwo, {OUT(8)}, NULL},
      {"pipe2", SYS_pipe2, kMakesTwo, {OUT(8), VALUE(O_CLOEXEC)}, NULL},
      {"socketpair", SYS_socketpair, kMakesTwo, {VALUE(AF_UNIX), VALUE(SOCK_STREAM), VALUE(0), OUT(8)}, NULL},
      {"memfd_create", SYS_memfd_create, kMakesFile, {TEXT("name"), VALUE(0)}, NULL},
      {"perf_event_open",
       SYS_perf_event_open,
       kMakesFile,
       {BOTH(performance), VALUE(0), VALUE(-1), VALUE(-1), VALUE(0)},
       NULL},
      {"io_uring_setup", SYS_io_uring_setup, kNeverGood, {VALUE(4), BOTH(ring)}, NULL},
      {"mq_open", SYS_mq_open, kMakesFile, {TEXT("odd-nothing"), VALUE(O_RDONLY), VALUE(0), OUT(64)}, NULL},
      {"timer_create", SYS_timer_create, kMakesTimer, {VALUE(CLOCK_MONOTONIC), IN(event), OUT(4)}, NULL},
      {"timer_create 99", SYS_timer_create, kMakesTimer, {VALUE(99), IN(event), OUT(4)}, NULL},
      {"execve path", SYS_execve, kNeverGood, {TEXT("/bin/true"), VALUE(arguments), VALUE(0)}, NULL},
      {"execve self", SYS_execve, kNeverGood, {TEXT(own), VALUE(arguments), VALUE(0)}, NULL},
      {"execve arguments",
       SYS_execve,
       kNeverGood | kNoNull,
       {VALUE("/bin/true"), IN(arguments), VALUE(0)},
       NULL},
      {"execve environment",
       SYS_execve,
       kNeverGood | kNoNull,
       {VALUE("/proc/self/exe"), VALUE(arguments), IN(arguments)},
       NULL},
      {"execveat",
       SYS_execveat,
       kNeverGood,
       {VALUE(AT_FDCWD), TEXT("/bin/true"), VALUE(arguments), VALUE(0), VALUE(0)},
       NULL},
      {"execveat arguments",
       SYS_execveat,
       kNeverGood | kNoNull,
       {VALUE(AT_FDCWD), VALUE("/bin/true"), IN(arguments), VALUE(0), VALUE(0)},
       NULL},
      {"semop", SYS_semop, 0, {VALUE(0x7ffffffe), IN(operations), VALUE(1)}, NULL},
      {"semtimedop", SYS_semtimedop, 0, {VALUE(0x7ffffffe), IN(operations), VALUE(1), IN(none)}, NULL},
      {"semtimedop wrong", SYS_semtimedop, 0, {VALUE(0x7ffffffe), IN(operations), VALUE(1), IN(wrong)}, NULL},
      {"msgsnd", SYS_msgsnd, 0, {VALUE(0x7ffffffe), IN(message), VALUE(8), VALUE(0)}, NULL},
      {"msgrcv", SYS_msgrcv, 0, {VALUE(0x7ffffffe), OUT(16), VALUE(8), VALUE(0), VALUE(0)}, NULL},
      {"io_setup", SYS_io_setup, kMakesContext | kNeverGood, {VALUE(1), BOTH(context)}, NULL},
      {"open_by_handle_at", SYS_open_by_handle_at, kMakesFile, {VALUE(AT_FDCWD), IN(handle), VALUE(0)}, NULL},
      {"bpf", SYS_bpf, kMakesFile, {VALUE(0), BOTH(performance), VALUE(128)}, NULL},
      {"open_tree", SYS_open_tree, kMakesFile, {VALUE(AT_FDCWD), TEXT(text), VALUE(0)}, NULL},
      {"fsopen", SYS_fsopen, kMakesFile, {TEXT("nothing"), VALUE(0)}, NULL},
      {"fspick", SYS_fspick, kMakesFile, {VALUE(AT_FDCWD), TEXT(text), VALUE(0)}, NULL},
      {"landlock_create_ruleset", 444, kMakesFile, {IN(ruleset), VALUE(8), VALUE(0)}, NULL},
      {"arch_prctl", SYS_arch_prctl, 0, {VALUE(0x1004), OUT(8)}, NULL},
      {"sched_setaffinity", SYS_sched_setaffinity, 0, {VALUE(0), VALUE(sizeof affinity), IN(affinity)}, NULL},
      {"sched_getaffinity", SYS_sched_getaffinity, 0, {VALUE(0), VALUE(128), OUT(128)}, NULL},
      {"sched_setparam", SYS_sched_setparam, 0, {VALUE(0), IN(priority)}, NULL},
      {"sched_getparam", SYS_sched_getparam, 0, {VALUE(0), OUT(4)}, NULL},
      {"sched_setscheduler", SYS_sched_setscheduler, 0, {VALUE(0), VALUE(0), IN(priority)}, NULL},
      {"sched_getattr", SYS_sched_getattr, 0, {VALUE(0), OUT(56), VALUE(56), VALUE(0)}, NULL},
      {"sched_rr_get_interval", SYS_sched_rr_get_interval, 0, {VALUE(0), OUT(16)}, NULL},
      {"prlimit64", SYS_prlimit64, 0, {VALUE(0), VALUE(RLIMIT_CORE), IN(none), OUT(16)}, NULL},
      {"process_vm_readv",
       SYS_process_vm_readv,
       0,
       {VALUE(getpid()), IN(piece), VALUE(1), IN(piece), VALUE(1), VALUE(0)},
       NULL},
      {"get_robust_list", SYS_get_robust_list, 0, {VALUE(0), OUT(8), OUT(8)}, NULL},
      {"move_pages", SYS_move_pages, 0, {VALUE(0), VALUE(1), IN(page), VALUE(0), OUT(4), VALUE(0)}, NULL},
      {"capget", SYS_capget, 0, {BOTH(header), OUT(24)}, NULL},
      {"capget version", SYS_capget, 0, {BOTH(old_header), OUT(24)}, NULL},
      {"capset version", SYS_capset, 0, {BOTH(old_header), IN(performance)}, NULL},
      {"wait4 nobody", SYS_wait4, 0, {VALUE(-1), OUT(4), VALUE(WNOHANG), OUT(144)}, NULL},
      {"waitid nobody",
       SYS_waitid,
       0,
       {VALUE(P_ALL), VALUE(0), OUT(128), VALUE(WNOHANG | WEXITED), OUT(144)},
       NULL},
      {"clock_gettime", SYS_clock_gettime, 0, {VALUE(CLOCK_MONOTONIC), OUT(16)}, NULL},
      {"clock_gettime processor", SYS_clock_gettime, 0, {VALUE(CLOCK_PROCESS_CPUTIME_ID), OUT(16)}, NULL},
      {"clock_gettime 99", SYS_clock_gettime, 0, {VALUE(99), OUT(16)}, NULL},
      {"clock_getres", SYS_clock_getres, 0, {VALUE(CLOCK_MONOTONIC), OUT(16)}, NULL},
      {"getrusage", SYS_getrusage, 0, {VALUE(0), OUT(144)}, NULL},
      {"times", SYS_times, 0, {OUT(32)}, NULL},
      {"stat", SYS_stat, 0, {TEXT(text), OUT(144)}, NULL},
      {"stat own", SYS_stat, 0, {TEXT(status), OUT(144)}, NULL},
      {"lstat", SYS_lstat, 0, {TEXT(status), OUT(144)}, NULL},
      {"newfstatat", SYS_newfstatat, 0, {VALUE(AT_FDCWD), TEXT(status), OUT(144), VALUE(0)}, NULL},
      {"statx", SYS_statx, 0, {VALUE(AT_FDCWD), TEXT(status), VALUE(0), VALUE(1), OUT(256)}, NULL},
      {"access", SYS_access, 0, {TEXT(status), VALUE(R_OK)}, NULL},
      {"faccessat", SYS_faccessat, 0, {VALUE(AT_FDCWD), TEXT(self), VALUE(R_OK)}, NULL},
      {"faccessat2", SYS_faccessat2, 0, {VALUE(AT_FDCWD), TEXT(status), VALUE(R_OK), VALUE(0)}, NULL},
      {"chdir", SYS_chdir, 0, {TEXT(status)}, NULL},
      {"statfs", SYS_statfs, 0, {TEXT(status), OUT(120)}, NULL},
      {"inotify_add_watch", SYS_inotify_add_watch, 0, {VALUE(watch), TEXT(status), VALUE(IN_MODIFY)}, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) try(&cases[i]);
  close(poller), close(counter), close(watch);
}

// Calls for which more is printed than their result.

static void nothing(int number) { (void)number; }

static void interrupted_sleeps(void) {
  const struct timespec second = {1, 0};
  const struct itimerval soon = {{0, 1000}, {0, 300}}, never = {{0, 0}, {0, 0}};
  for (int how = 0; how < kWays; how++)
    for (int clock = 0; clock < 2; clock++) {
      baseline();
      signal(SIGALRM, nothing);
      const long rest = bad(how, NULL, 16);
      setitimer(ITIMER_REAL, &soon, NULL);
      const long result = clock ? syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &second, rest)
                                : syscall(SYS_nanosleep, &second, rest);
      const int error = errno;
      setitimer(ITIMER_REAL, &never, NULL);
      tell(clock ? "clock_nanosleep interrupted" : "nanosleep interrupted", 1, kBadness[how], result, error);
      signal(SIGALRM, SIG_DFL);
    }
}

static int ends(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status & 0xff7f;  // without the core dump bit
}

static void ends_of_children(void) {
  for (int few = 0; few < 4; few++) {
    const enum Badness how = kFew[few];
    baseline();
    pid_t child = fork();
    if (!child) _exit(3);
    siginfo_t seen;
    STEPLOG_CHECK(!waitid(P_PID, (id_t)child, &seen, WEXITED | WNOWAIT));
    long result = syscall(SYS_waitid, P_PID, child, bad(how, NULL, 128), WEXITED | WNOWAIT, NULL);
    tell("waitid", 2, kBadness[how], result, errno);
    result = syscall(SYS_wait4, child, bad(how, NULL, 4), 0, NULL);
    tell("wait4", 1, kBadness[how], result, errno);
    result = syscall(SYS_wait4, child, NULL, 0, bad(how, NULL, 144));
    tell("wait4", 3, kBadness[how], result, errno);
    told("left %d", waitpid(child, NULL, 0) == child);
  }
}

static void clones(void) {
  for (int few = 0; few < 4; few++) {
    const enum Badness how = kFew[few];
    baseline();
    const long flags = CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
    const pid_t child = (pid_t)syscall(SYS_clone, flags, 0, bad(how, NULL, 4), bad(how, NULL, 4), 0);
    if (!child) _exit(9);
    tell("clone ids", 2, kBadness[how], child, errno);
    told("clone ids %s: child %x", kBadness[how], ends(child));
    const long mark = bad(how, NULL, 4);
    const pid_t marked = (pid_t)syscall(SYS_clone, 0x1000 /* CLONE_PIDFD */ | SIGCHLD, 0, mark, 0, 0);
    if (!marked) _exit(9);
    const int error = errno;
    if (marked > 0) close(*(int*)mark);
    tell("clone pidfd", 2, kBadness[how], marked, error);
    if (marked > 0) told("clone pidfd %s: child %x", kBadness[how], ends(marked));
  }
  // With an invalid stack: the child is made, and crashes at its first use.
  const long stacks[] = {8, (long)hole + 64, (long)constant + 64, (long)mine + 8, (long)0x8000000000000000};
  for (int i = 0; i < 5; i++) {
    baseline();
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, stacks[i], 0, 0, 0);
    if (!child) _exit(4);
    tell("clone stack", 1, "bad", child, errno);
    if (child <= 0) continue;
    const int end =
        ends(child);  // a non-canonical address is a stack segment fault, but not on every virtual machine
    told("clone stack %d: child %x", i, end == SIGBUS ? SIGSEGV : end);
  }
}

static void on_fault(int number) { _exit(40 + number); }

// A handler whose stack cannot be written raises SIGSEGV, which the program may handle.
static void handlers_on_bad_stacks(void) {
  for (int handled = 0; handled < 2; handled++)
    for (int where = 0; where < 4; where++) {
      baseline();
      const pid_t child = fork();
      if (!child) {
        const stack_t stack = {.ss_sp = where == 0   ? (void*)8192
                                        : where == 1 ? hole - 16384 + 64
                                        : where == 2 ? constant
                                                     : mine + kPage,
                               .ss_size = where == 1   ? 16384
                                          : where == 2 ? 4096
                                                       : 2048};
        struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_ONSTACK};
        sigaction(SIGUSR1, &action, NULL);
        if (handled) signal(SIGSEGV, on_fault);
        if (sigaltstack(&stack, NULL) != 0) _exit(errno);
        raise(SIGUSR1);
        _exit(0);
      }
      told("handler on stack %d, handled %d: %x", where, handled, ends(child));
    }
}

// Bad pointers between vfork and exec, as in posix_spawn.
static void spawned(void) {
  for (int few = 0; few < 4; few++)
    for (int number = SIGUSR1; number <= SIGSYS; number += SIGSYS - SIGUSR1) {
      const enum Badness how = kFew[few];
      baseline();
      const long old = bad(how, NULL, 32);
      const pid_t child = vfork();
      if (!child) _exit(syscall(SYS_rt_sigaction, number, NULL, old, 8) < 0 ? errno : 0);
      told("spawned rt_sigaction %d %s: %x", number, kBadness[how], ends(child));
    }
}

static void messages(void) {
  int ends_[2];
  for (int part = 0; part < 5; part++)
    for (int how = 0; how < kWays; how++) {
      baseline();
      char room[64] = "", byte = 1;
      struct iovec piece = {&byte, 1};
      struct msghdr message = {
          .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(sizeof(int))};
      struct cmsghdr* header = CMSG_FIRSTHDR(&message);
      *header = (struct cmsghdr){
          .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
      memset(CMSG_DATA(header), 0, sizeof(int));  // descriptor 0
      STEPLOG_CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, ends_) && sendmsg(ends_[0], &message, 0) == 1);
      struct mmsghdr many = {
          .msg_hdr = {
              .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room}};
      if (part == 1) many.msg_hdr.msg_control = (void*)bad(how, NULL, 64);
      if (part == 2) many.msg_hdr.msg_iov = (void*)bad(how, &piece, sizeof piece);
      if (part == 3) many.msg_hdr.msg_name = (void*)bad(how, NULL, 16), many.msg_hdr.msg_namelen = 16;
      const int first = dup(0);
      close(first);
      long result;
      if (part == 0)
        result = syscall(SYS_recvmsg, ends_[1], bad(how, &many.msg_hdr, sizeof many.msg_hdr), MSG_DONTWAIT);
      else if (part == 4)
        result = syscall(SYS_recvmmsg, ends_[1], bad(how, &many, sizeof many), 1, MSG_DONTWAIT, NULL);
      else
        result = syscall(SYS_recvmsg, ends_[1], &many.msg_hdr, MSG_DONTWAIT);
      const int error = errno;
      tell("recvmsg", part, kBadness[how], result, error);
      told("recvmsg %d %s: %ld", part, kBadness[how], result);
      for (int fd = first; fd < first + 2; fd++) close(fd);
      close(ends_[0]), close(ends_[1]);
    }
}

// Failed calls must change nothing, and the kernel keeps what it was given.
static void others(void) {
  const long flags[] = {8, 16, 2 | 8, 2 | 4};
  for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
    baseline();
    const int fd = dup(0);
    const long result = syscall(SYS_close_range, fd, fd, flags[i]);
    told("close_range %ld: %ld %d, closed %d", flags[i], result, errno, close(fd));
  }
  told("shmat: %ld %d", (long)syscall(SYS_shmat, 0x7ffffffe, NULL, 0), errno);
  const unsigned long action[4] = {(unsigned long)SIG_IGN, ~0x800000ul, 0, ~0ul};
  unsigned long kept[4] = {0, 0, 0, 0};
  const long set = syscall(SYS_rt_sigaction, SIGUSR1, action, NULL, 8),
             got = syscall(SYS_rt_sigaction, SIGUSR1, NULL, kept, 8);
  told("kept of an action: %ld %ld flags %lx mask %lx", set, got, kept[1], kept[3]);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  setvbuf(stdout, NULL, _IOFBF, 1 << 16);
  map_pages();
  while (steplog_done < steplog_steps) {
    line = 0;
    ordinary_calls();
    interrupted_sleeps();
    ends_of_children();
    clones();
    handlers_on_bad_stacks();
    spawned();
    messages();
    others();
    fflush(stdout);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
