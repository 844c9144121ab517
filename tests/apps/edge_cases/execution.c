// Unusual ways to execute: stacks, jumps, coroutines, floating point and vector state, dynamic loading,
// thread registrations, system calls.
#define _GNU_SOURCE
#include "edge_case.h"

#include <asm/prctl.h>
#include <dlfcn.h>
#include <fenv.h>
#include <immintrin.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <setjmp.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/utsname.h>
#include <ucontext.h>

// --- Stacks ---

static ucontext_t main_context, coroutines[8];
static int running = 8;

static void coroutine(int number) {
  volatile unsigned char mark[512];
  for (int i = 0; i < 512; i++) mark[i] = (unsigned char)(number * 3 + i);
  for (long k = 0; k < steplog_steps; k++) {
    swapcontext(&coroutines[number], &main_context);
    for (int i = 0; i < 512; i++) EDGE_CHECK(mark[i] == (unsigned char)(number * 3 + i));
    struct timespec t = {0, 1000000};
    syscall(SYS_nanosleep, &t, NULL);  // most of the time is spent here, on the small stack
  }
  running--;
}

static void coroutines_of(size_t size) {
  unsigned char* stacks = (unsigned char*)malloc(size * 8 + 64);
  memset(stacks, 0xa5, size * 8 + 64);
  for (int i = 0; i < 8; i++) {
    getcontext(&coroutines[i]);
    coroutines[i].uc_stack.ss_sp = stacks + (size_t)i * size;
    coroutines[i].uc_stack.ss_size = size;
    coroutines[i].uc_link = &main_context;
    makecontext(&coroutines[i], (void (*)(void))coroutine, 1, i);
    swapcontext(&main_context, &coroutines[i]);
  }
  long pace = steplog_pace;
  steplog_pace = pace / 5;
  while (edge_more())
    for (int i = 0; i < 8; i++) {
      swapcontext(&main_context, &coroutines[i]);
      for (int n = 0; n < 40; n++)
        EDGE_CHECK(stacks[(size_t)i * size + (size_t)n] == 0xa5);  // the far end is unused
    }
  steplog_pace = pace;
  free(stacks);
}

static void coroutines_on_4_kib(void) { coroutines_of(4096); }
static void coroutines_on_6_kib(void) { coroutines_of(6144); }

// A computing coroutine with live data directly above and below its stack.
static void spin_on_tiny_stack(void) {
  while (edge_more()) swapcontext(&coroutines[0], &main_context);
  swapcontext(&coroutines[0], &main_context);
}

static void data_next_to_a_small_stack(void) {
  static unsigned char room[3][8192] __attribute__((aligned(4096)));
  memset(room[0], 1, 8192), memset(room[2], 3, 8192);
  getcontext(&coroutines[0]);
  coroutines[0].uc_stack.ss_sp = room[1];
  coroutines[0].uc_stack.ss_size = sizeof room[1];
  makecontext(&coroutines[0], spin_on_tiny_stack, 0);
  for (long k = 0; k < steplog_steps; k++) {
    swapcontext(&main_context, &coroutines[0]);
    for (int i = 0; i < 8192; i++) EDGE_CHECK(room[0][i] == 1 && room[2][i] == 3);
  }
  swapcontext(&main_context, &coroutines[0]);
}

static volatile sig_atomic_t handled;
static void in_handler(int number) {
  (void)number;
  handled++;
  edge_sleep(steplog_pace / 4);
  steplog_spin(steplog_pace / 4);
}

static void small_alternate_stack(void) {  // the historical SIGSTKSZ of 8192 bytes, in use most of the time
  static unsigned char room[3][8192] __attribute__((aligned(4096)));
  memset(room, 7, sizeof room);
  stack_t stack = {.ss_sp = room[1], .ss_size = 8192}, found;
  EDGE_CHECK(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR2, &action, NULL);
  while (edge_more()) {
    raise(SIGUSR2);
    EDGE_CHECK(sigaltstack(NULL, &found) == 0 && found.ss_sp == room[1] && found.ss_size == 8192 &&
               found.ss_flags == 0);
    for (int i = 0; i < 8192; i++) EDGE_CHECK(room[0][i] == 7 && room[2][i] == 7);
  }
  EDGE_CHECK(handled == steplog_steps);
}

static void asks_for_its_stack(int number) {
  (void)number;
  stack_t found;
  handled += sigaltstack(NULL, &found) == 0 && found.ss_flags == SS_ONSTACK &&
             (unsigned char*)&found >= (unsigned char*)found.ss_sp &&
             (unsigned char*)&found < (unsigned char*)found.ss_sp + found.ss_size;
}

static void alternate_stack_seen_from_inside(void) {
  static unsigned char room[65536];
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room}, smaller = {.ss_sp = room, .ss_size = 100}, found;
  EDGE_CHECK(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_handler = asks_for_its_stack, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR2, &action, NULL);
  while (edge_more()) {
    raise(SIGUSR2);
    EDGE_CHECK(sigaltstack(&smaller, NULL) < 0 && errno == ENOMEM);
    stack_t once = {.ss_sp = room, .ss_size = sizeof room, .ss_flags = (int)(1u << 31) /* SS_AUTODISARM */};
    EDGE_CHECK(sigaltstack(&once, &found) == 0 && found.ss_sp == room && sigaltstack(&stack, &found) == 0 &&
               found.ss_flags == (int)(1u << 31));
  }
  EDGE_CHECK(handled == steplog_steps);
}

static sigjmp_buf out;
static void overflowed(int number) {
  (void)number;
  siglongjmp(out, 1);
}

__attribute__((noinline)) static int recurse(int depth) {
  volatile char filler[4096];
  filler[depth % 4096] = 1;
  return depth == INT_MAX ? 0 : recurse(depth + 1) + filler[depth % 4096];
}

static void recovers_from_stack_overflow(void) {
  static unsigned char room[16384];
  struct rlimit small = {1 << 20, RLIM_INFINITY};
  getrlimit(RLIMIT_STACK, &small);
  small.rlim_cur = 1 << 20;
  setrlimit(RLIMIT_STACK, &small);
  stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  EDGE_CHECK(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_handler = overflowed, .sa_flags = SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL), sigaction(SIGBUS, &action, NULL);
  volatile int recovered = 0;
  while (edge_more()) {
    if (sigsetjmp(out, 1)) {
      recovered++;
      continue;
    }
    steplog_mix((uint64_t)recurse(0));
  }
  EDGE_CHECK(recovered == steplog_steps);
}

__attribute__((noinline)) static long deep(long depth) {
  volatile char filler[1000];
  filler[depth % 1000] = (char)depth;
  if (depth == 0) {
    while (edge_more()) {
    }
    return 0;
  }
  long result = deep(depth - 1) + 1;
  EDGE_CHECK(filler[depth % 1000] == (char)depth);
  return result;
}

static void seven_megabytes_deep(void) { EDGE_CHECK(deep(6000) == 6000); }

static void ninety_megabytes_deep(void) {  // after the program raised its stack limit
  struct rlimit large;
  EDGE_CHECK(getrlimit(RLIMIT_STACK, &large) == 0);
  large.rlim_cur = large.rlim_max == RLIM_INFINITY || large.rlim_max > 100 << 20 ? 100 << 20 : large.rlim_max;
  EDGE_CHECK(setrlimit(RLIMIT_STACK, &large) == 0);
  long depth = large.rlim_cur >= 100 << 20 ? 85000 : 6000;
  EDGE_CHECK(deep(depth) == depth);
}

static void jumps_between_frames(void) {
  static jmp_buf at[5];
  volatile int state = 0;
  while (edge_more()) {
    for (volatile int i = 0; i < 5; i++) {
      if (setjmp(at[i]) == 0)
        state++;
      else if (state++ < 1 << 20 && i == 4)
        break;
      if (i == 4) longjmp(at[4], 1);
    }
  }
  EDGE_CHECK(state == 6 * steplog_steps);
}

static void below_the_stack_pointer(void) {  // the red zone; 100 of the 128 bytes that the ABI guarantees
  while (edge_more()) {
    long kept = 0;
    __asm__ volatile(
        "movq $0x1234567, -120(%%rsp)\n movq $77, -8(%%rsp)\n"
        "movl $20000000, %%ecx\n 1: decl %%ecx\n jnz 1b\n"
        "movq -120(%%rsp), %0\n subq -8(%%rsp), %0\n"
        : "=r"(kept)
        :
        : "rcx", "memory", "cc");
    EDGE_CHECK(kept == 0x1234567 - 77);
  }
}

static void permanently_switched_stack(void) {  // the main thread switches to another stack for good
  static unsigned char* room;
  room = (unsigned char*)mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  getcontext(&coroutines[0]);
  coroutines[0].uc_stack.ss_sp = room;
  coroutines[0].uc_stack.ss_size = 1 << 20;
  coroutines[0].uc_link = &main_context;
  makecontext(&coroutines[0], (void (*)(void))deep, 1, 300);
  swapcontext(&main_context, &coroutines[0]);
}

// --- Floating point and vectors ---

static void rounding_and_masks(void) {
  while (edge_more()) {
    for (int k = 0; k < 4; k++) {
      static const int modes[] = {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO, FE_TONEAREST};
      EDGE_CHECK(fesetround(modes[k]) == 0);
      steplog_spin(500);
      volatile double one = 1, three = 3;
      double q = one / three;
      EDGE_CHECK(fegetround() == modes[k]);
      EDGE_CHECK((modes[k] == FE_UPWARD) == (q > 0.33333333333333333));
    }
  }
}

static void control_words(void) {  // flush to zero, denormals are zero, single precision x87, sticky flags
  unsigned mxcsr = 0x1f80 | 0x8000 | 0x0040 | 0x0020;
  unsigned short x87 = 0x007f & ~0x0300, now;  // 24 bits
  __asm__ volatile("ldmxcsr %0\n fldcw %1" ::"m"(mxcsr), "m"(x87));
  while (edge_more()) {
    unsigned found;
    __asm__ volatile("stmxcsr %0\n fnstcw %1" : "=m"(found), "=m"(now));
    EDGE_CHECK((found & 0xffc0) == (mxcsr & 0xffc0) && (found & 0x20) && now == x87);
    volatile float tiny = 1e-30f, tinier = 1e-10f;
    EDGE_CHECK(tiny * tinier == 0);
  }
}

static void values_on_the_x87_stack(void) {  // eight values, while spinning and sleeping
  long double in[8], result[8];
  for (int k = 0; edge_more(); k++) {
    for (int i = 0; i < 8; i++) in[i] = 1.0L / (k + i + 3);
    struct timespec t = {0, steplog_pace * 300};
    long status;
    __asm__ volatile(
        "fldt 0(%2)\n fldt 16(%2)\n fldt 32(%2)\n fldt 48(%2)\n fldt 64(%2)\n fldt 80(%2)\n fldt 96(%2)\n "
        "fldt 112(%2)\n"
        "syscall\n movl $20000000, %%ecx\n 1: decl %%ecx\n jnz 1b\n"
        "fstpt 112(%3)\n fstpt 96(%3)\n fstpt 80(%3)\n fstpt 64(%3)\n fstpt 48(%3)\n fstpt 32(%3)\n fstpt "
        "16(%3)\n fstpt 0(%3)\n"
        : "=a"(status)
        : "a"((long)SYS_nanosleep), "b"(in), "d"(result), "D"(&t), "S"(0L)
        : "rcx", "r11", "memory", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
    EDGE_CHECK(status == 0);
    for (int i = 0; i < 8; i++) EDGE_CHECK(in[i] == result[i]);
  }
}

__attribute__((target("avx2"))) static void vectors_256(void) {
  unsigned char in[16][32], result[16][32];
  for (int k = 0; edge_more(); k++) {
    for (int i = 0; i < 512; i++) in[i / 32][i % 32] = (unsigned char)(i * 7 + k);
    struct timespec t = {0, steplog_pace * 300};
    long status;
#define LOAD(n) "vmovdqu " #n "*32(%2), %%ymm" #n "\n"
#define STORE(n) "vmovdqu %%ymm" #n ", " #n "*32(%3)\n"
    __asm__ volatile(LOAD(0) LOAD(1) LOAD(2) LOAD(3) LOAD(4) LOAD(5) LOAD(6) LOAD(7) LOAD(8) LOAD(9) LOAD(10)
                         LOAD(11) LOAD(12) LOAD(13) LOAD(14)
                             LOAD(15) "syscall\n movl $20000000, %%ecx\n 1: decl %%ecx\n jnz 1b\n" STORE(0)
                                 STORE(1) STORE(2) STORE(3) STORE(4) STORE(5) STORE(6) STORE(7) STORE(8)
                                     STORE(9) STORE(10) STORE(11) STORE(12) STORE(13) STORE(14)
                                         STORE(15) "vzeroupper"
                     : "=a"(status)
                     : "a"((long)SYS_nanosleep), "b"(in), "d"(result), "D"(&t), "S"(0L)
                     : "rcx", "r11", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    EDGE_CHECK(status == 0 && !memcmp(in, result, sizeof in));
  }
}

__attribute__((target("avx512f,avx512bw"))) static void vectors_512(void) {
  unsigned char in[16][64], result[16][64];
  uint64_t masks[7], found[7];
  for (int k = 0; edge_more(); k++) {
    for (int i = 0; i < 1024; i++) in[i / 64][i % 64] = (unsigned char)(i * 5 + k);
    for (int i = 0; i < 7; i++) masks[i] = 0x123456789abcdefu * (uint64_t)(i + k + 1);
#define LOAD5(n, r) "vmovdqu64 " #n "*64(%0), %%zmm" #r "\n"
#define STORE5(n, r) "vmovdqu64 %%zmm" #r ", " #n "*64(%1)\n"
#define MASK(n, r) "kmovq " #n "*8(%2), %%k" #r "\n"
#define UNMASK(n, r) "kmovq %%k" #r ", " #n "*8(%3)\n"
    __asm__ volatile(
        LOAD5(0, 16) LOAD5(1, 17) LOAD5(2, 18) LOAD5(3, 19) LOAD5(4, 20) LOAD5(5, 21) LOAD5(6, 22)
            LOAD5(7, 23) LOAD5(8, 24) LOAD5(9, 25) LOAD5(10, 26) LOAD5(11, 27) LOAD5(12, 28) LOAD5(13, 29)
                LOAD5(14, 30) LOAD5(15, 31) MASK(0, 1) MASK(1, 2) MASK(2, 3) MASK(3, 4) MASK(4, 5) MASK(5, 6)
                    MASK(6, 7) "movl $20000000, %%ecx\n 1: decl %%ecx\n jnz 1b\n" STORE5(0, 16) STORE5(1, 17)
                        STORE5(2, 18) STORE5(3, 19) STORE5(4, 20) STORE5(5, 21) STORE5(6, 22) STORE5(7, 23)
                            STORE5(8, 24) STORE5(9, 25) STORE5(10, 26) STORE5(11, 27) STORE5(12, 28) STORE5(
                                13, 29) STORE5(14, 30) STORE5(15, 31) UNMASK(0, 1) UNMASK(1, 2) UNMASK(2, 3)
                                UNMASK(3, 4) UNMASK(4, 5) UNMASK(5, 6) UNMASK(6, 7) "vzeroupper"
        :
        : "r"(in), "r"(result), "r"(masks), "r"(found)
        : "rcx", "memory", "cc", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",
          "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4",
          "k5", "k6", "k7");
    EDGE_CHECK(!memcmp(in, result, sizeof in) && !memcmp(masks, found, sizeof masks));
  }
}

static void vector_registers(void) {
  if (__builtin_cpu_supports("avx512bw"))
    vectors_512();
  else if (__builtin_cpu_supports("avx2"))
    vectors_256();
  else
    while (edge_more()) {
    }
}

static void vector_registers_across_calls(void) {
  if (__builtin_cpu_supports("avx2"))
    vectors_256();
  else
    while (edge_more()) {
    }
}

static void division_by_zero_is_trapped(void) {  // floating point exceptions as signals
  struct sigaction action = {.sa_handler = overflowed};
  sigaction(SIGFPE, &action, NULL);
  volatile int trapped = 0;
  while (edge_more()) {
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_DIVBYZERO | FE_INVALID);
    if (sigsetjmp(out, 1)) {
      trapped++;
      continue;
    }
    steplog_spin(300);
    volatile double zero = 0, one = 1;
    zero = one / zero;
  }
  fedisableexcept(FE_ALL_EXCEPT);
  EDGE_CHECK(trapped == steplog_steps);
}

static void direction_and_alignment_flags(void) {  // the direction flag is set when a cut comes
  while (edge_more()) {
    unsigned long flags;
    __asm__ volatile("std\n movl $30000000, %%ecx\n 1: decl %%ecx\n jnz 1b\n pushfq\n popq %0\n cld"
                     : "=r"(flags)
                     :
                     : "rcx", "memory", "cc");
    EDGE_CHECK(flags & 0x400);
  }
}

// --- Dynamic loading and thread-local storage ---

static _Thread_local int counter = 5;
static _Thread_local char big[100000];

static void libraries_loaded_and_closed(void) {
  static const char* const names[] = {"libm.so.6", "libz.so.1", "librt.so.1", "libresolv.so.2",
                                      "libutil.so.1"};
  for (int k = 0; edge_more(); k++) {
    void* handle = dlopen(names[k % 5], k % 2 ? RTLD_LAZY : RTLD_NOW | RTLD_LOCAL);
    if (!handle) continue;
    if (k % 5 == 0) {
      double (*function)(double) = (double (*)(double))dlsym(handle, "cbrt");
      EDGE_CHECK(function && function(27) > 2.999 && function(27) < 3.001);
    }
    if (k > 5) EDGE_CHECK(dlclose(handle) == 0);
  }
}

static int counted(struct dl_phdr_info* info, size_t size, void* data) {
  (void)info, (void)size;
  return ++*(int*)data, 0;
}

static void loaded_objects(void) {
  int first = 0;
  dl_iterate_phdr(counted, &first);
  steplog_mix((uint64_t)first);
  while (edge_more()) {
    int now = 0;
    dl_iterate_phdr(counted, &now);
    Dl_info about;
    EDGE_CHECK(now == first && dladdr((void*)loaded_objects, &about) &&
               strstr(about.dli_fname, "edge_cases/execution"));
  }
}

static void linker_namespace(void) {
  void* handle = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW);
  EDGE_CHECK(handle);
  double (*function)(double) = (double (*)(double))dlsym(handle, "sqrt");
  while (edge_more()) EDGE_CHECK(function && function(49) == 7);
}

static void thread_local_storage(void) {
  int* where = &counter;
  while (edge_more()) {
    EDGE_CHECK(&counter == where);
    counter++;
    big[99999]++;
  }
  EDGE_CHECK(counter == 5 + steplog_steps && big[99999] == steplog_steps);
}

static int chosen_a(void) { return 41; }
static int (*choose(void))(void) { return chosen_a; }
int chosen(void) __attribute__((ifunc("choose")));

static void indirect_function(void) {
  while (edge_more()) EDGE_CHECK(chosen() == 41);
}

static void thread_specific_keys(void) {
  static pthread_key_t keys[100];
  for (int i = 0; i < 100; i++)
    EDGE_CHECK(pthread_key_create(&keys[i], NULL) == 0 && pthread_setspecific(keys[i], &keys[i]) == 0);
  while (edge_more())
    for (int i = 0; i < 100; i++) EDGE_CHECK(pthread_getspecific(keys[i]) == &keys[i]);
}

static void* returns_its_argument(void* argument) { return argument; }

static void short_lived_threads(void) {
  while (edge_more()) {
    pthread_t thread;
    void* result;
    EDGE_CHECK(pthread_create(&thread, NULL, returns_its_argument, &counter) == 0 &&
               pthread_join(thread, &result) == 0 && result == &counter);
  }
}

static void gs_base_set(void) {  // ARCH_SET_GS, as some emulators use it
  static uint64_t base[2] = {4711, 0};
  base[1] = 1;
  EDGE_CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, base) == 0);
  while (edge_more()) {
    uint64_t value, at = 0;
    __asm__ volatile("movq %%gs:0, %0" : "=r"(value));
    EDGE_CHECK(value == 4711 && syscall(SYS_arch_prctl, ARCH_GET_GS, &at) == 0 && at == (uint64_t)base);
  }
}

static void fs_base_moved_temporarily(void) {  // temporarily moves FS
  uint64_t old = 0;
  EDGE_CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &old) == 0);
  static unsigned char block[8192] __attribute__((aligned(64)));
  while (edge_more()) {
    memcpy(block, (void*)(old - 4096), sizeof block);
    *(uint64_t*)(block + 4096) = (uint64_t)(block + 4096);
    uint64_t at = (uint64_t)(block + 4096), seen;
    __asm__ volatile("syscall"
                     : "=a"(seen)
                     : "a"((long)SYS_arch_prctl), "D"((long)ARCH_SET_FS), "S"(at)
                     : "rcx", "r11", "memory");
    __asm__ volatile("movl $20000000, %%ecx\n 1: decl %%ecx\n jnz 1b\n movq %%fs:0, %0"
                     : "=r"(seen)
                     :
                     : "rcx", "cc");
    long status;
    __asm__ volatile("syscall"
                     : "=a"(status)
                     : "a"((long)SYS_arch_prctl), "D"((long)ARCH_SET_FS), "S"(old)
                     : "rcx", "r11", "memory");
    EDGE_CHECK(seen == at && status == 0);
  }
}

static void robust_mutex(void) {
  pthread_mutexattr_t attributes;
  pthread_mutex_t mutex, shared, recursive, checking;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&shared, &attributes);
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&recursive, &attributes);
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&checking, &attributes);
  EDGE_CHECK(!pthread_mutex_lock(&mutex) && !pthread_mutex_lock(&shared) && !pthread_mutex_lock(&recursive) &&
             !pthread_mutex_lock(&checking));
  while (edge_more()) {
    EDGE_CHECK(pthread_mutex_lock(&mutex) == EDEADLK && pthread_mutex_lock(&shared) == EDEADLK &&
               pthread_mutex_lock(&checking) == EDEADLK);
    EDGE_CHECK(pthread_mutex_lock(&recursive) == 0);
    void* head;
    size_t size;
    EDGE_CHECK(syscall(SYS_get_robust_list, 0, &head, &size) == 0 && size == 24);
  }
  EDGE_CHECK(!pthread_mutex_unlock(&mutex) && !pthread_mutex_unlock(&shared) &&
             !pthread_mutex_unlock(&checking));
}

static void restartable_sequences(void) {  // glibc's rseq registration, if it succeeded
  extern const ptrdiff_t __rseq_offset;
  extern const unsigned int __rseq_size;
  struct rseq* area = (struct rseq*)((char*)__builtin_thread_pointer() + __rseq_offset);
  cpu_set_t all;
  EDGE_CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  while (edge_more())
    if (__rseq_size)
      EDGE_CHECK((int)area->cpu_id >= 0 && CPU_ISSET(area->cpu_id, &all) && sched_getcpu() >= 0);
}

// --- System calls ---

static void calls_of_unusual_arguments(void) {
  while (edge_more()) {
    EDGE_CHECK(syscall(100000) < 0 && errno == ENOSYS && syscall(-1) < 0 && errno == ENOSYS);
    EDGE_CHECK(syscall(SYS_mmap, NULL, 4096, 3, 0x22, 77, 4095) < 0 && errno == EINVAL);
    EDGE_CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, NULL, 4) < 0 && errno == EINVAL);
    EDGE_CHECK(syscall(SYS_rt_sigaction, 65, NULL, NULL, 8) < 0 && errno == EINVAL &&
               syscall(SYS_rt_sigaction, 0, NULL, NULL, 8) < 0);
    EDGE_CHECK(syscall(SYS_rt_sigaction, SIGKILL, &(struct sigaction){.sa_handler = SIG_IGN}, NULL, 8) < 0 &&
               errno == EINVAL);
    EDGE_CHECK(syscall(SYS_rt_sigprocmask, 9, &(long){1}, NULL, 8) < 0 && errno == EINVAL);
    EDGE_CHECK(syscall(SYS_open, (void*)1, O_RDONLY) < 0 && errno == EFAULT &&
               syscall(SYS_dup2, 99, 5000000) < 0 && errno == EBADF);
    EDGE_CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, (void*)1, NULL, 8) < 0 && errno == EFAULT);
    EDGE_CHECK(syscall(SYS_rt_sigaction, SIGUSR2, (void*)1, NULL, 8) < 0 && errno == EFAULT);
    EDGE_CHECK(syscall(SYS_sigaltstack, (void*)1, NULL) < 0 && errno == EFAULT);
    EDGE_CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, (void*)1, 8) < 0 && errno == EFAULT);
    EDGE_CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, (void*)0xffff800000000000, NULL, 8) < 0 &&
               errno == EFAULT);
    EDGE_CHECK(syscall(SYS_rt_sigaction, SIGUSR2, NULL, (void*)1, 8) < 0 && errno == EFAULT &&
               syscall(SYS_rt_sigsuspend, (void*)1, 8) < 0);
    EDGE_CHECK(syscall(SYS_readlink, "/proc/self/exe", (void*)1, 100) < 0 && errno == EFAULT &&
               syscall(SYS_ppoll, NULL, 0, NULL, (void*)1, 8) < 0);
    EDGE_CHECK(syscall(SYS_pselect6, 0, NULL, NULL, NULL, NULL, (void*)1) < 0 && errno == EFAULT);
    EDGE_CHECK(syscall(SYS_clone, CLONE_THREAD, 0, 0, 0, 0) < 0 && errno == EINVAL);
    EDGE_CHECK(syscall(SYS_close, -1) < 0 && errno == EBADF && syscall(SYS_dup3, 1, 1, 0) < 0 &&
               errno == EINVAL);
    EDGE_CHECK(syscall(SYS_fcntl, 1, F_DUPFD, 1 << 30) < 0 && errno == EINVAL &&
               syscall(SYS_close_range, 5, 4, 0) < 0 && errno == EINVAL);
    EDGE_CHECK(syscall(SYS_openat, AT_FDCWD, "", O_RDONLY) < 0 && errno == ENOENT && syscall(SYS_brk, 1) > 1);
    EDGE_CHECK(syscall(SYS_pipe2, NULL, 0x7fffffff) < 0 && (errno == EINVAL || errno == EFAULT));
    EDGE_CHECK(syscall(SYS_kill, getpid(), 65) < 0 && errno == EINVAL &&
               syscall(SYS_tgkill, getpid(), getpid(), -1) < 0 && errno == EINVAL);
    EDGE_CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), 0, &(siginfo_t){.si_code = SI_QUEUE}) == 0);
    EDGE_CHECK(syscall(SYS_mprotect, (void*)4096, 1l << 46, 1) < 0 && errno == ENOMEM &&
               syscall(SYS_madvise, NULL, 4096, 9999) < 0 && errno == EINVAL);
    EDGE_CHECK(syscall(SYS_prctl, 99999, 0, 0, 0, 0) < 0 && errno == EINVAL &&
               syscall(SYS_arch_prctl, 0, 0) < 0);
    EDGE_CHECK(syscall(SYS_execve, "/nowhere", NULL, NULL) < 0 && errno == ENOENT);
    EDGE_CHECK(syscall(SYS_readv, 0, NULL, -1) < 0 && errno == EINVAL &&
               syscall(SYS_getrandom, (void*)1, 1, 0) < 0 && errno == EFAULT);
  }
}

static void int_0x80_calls(void) {  // int 0x80 in a 64-bit program: getpid is 20, dup is 41, close 6, brk 45
  long there;
  __asm__ volatile("int $0x80" : "=a"(there) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
  while (edge_more()) {
    long result = 0;
    if (there == -38) continue;  // this kernel has no 32-bit calls
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    EDGE_CHECK(result == getpid());
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(41L), "b"((long)fileno(steplog_file))
                     : "memory", "r8", "r9", "r10", "r11");
    EDGE_CHECK(result > 2);
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(6L), "b"(result) : "memory", "r8", "r9", "r10", "r11");
    EDGE_CHECK(result == 0);
  }
}

// Blocking calls that a signal would end with EINTR: a cut must not.
static void waits_in_a_semaphore(void) {
  int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
  struct sembuf down = {0, -1, 0};
  struct timespec soon = {0, 30000000};
  while (edge_more()) EDGE_CHECK(semtimedop(id, &down, 1, &soon) < 0 && errno == EAGAIN);
  semctl(id, 0, IPC_RMID);
}

static void waits_in_a_futex(void) {
  static int word = 5;
  while (edge_more()) {
    struct timespec soon = {0, 30000000};
    EDGE_CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 5, &soon, NULL, 0) < 0 && errno == ETIMEDOUT);
    EDGE_CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 6, NULL, NULL, 0) < 0 && errno == EAGAIN);
  }
}

static void waits_for_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 5);
  sigprocmask(SIG_BLOCK, &set, NULL);
  while (edge_more()) {
    struct timespec soon = {0, 30000000};
    EDGE_CHECK(sigtimedwait(&set, NULL, &soon) < 0 && errno == EAGAIN);
  }
}

static void waits_in_poll_select_and_sleep(void) {
  while (edge_more()) {
    struct timeval soon = {0, 10000};
    struct timespec nap = {0, 10000000}, left = {7, 7};
    EDGE_CHECK(select(0, NULL, NULL, NULL, &soon) == 0 && syscall(SYS_poll, NULL, 0, 10) == 0);
    EDGE_CHECK(syscall(SYS_nanosleep, &nap, &left) == 0 && left.tv_sec == 7 &&
               syscall(SYS_ppoll, NULL, 0, &nap, NULL, 8) == 0);
    EDGE_CHECK(usleep(10000) == 0 && clock_nanosleep(CLOCK_REALTIME, 0, &nap, NULL) == 0);
  }
}

// a child holds a flock and a record lock; both are obtained when it ends
static void waits_for_a_lock(void) {
  int fd = edge_file("wanted", 10, 1, O_RDWR), status;
  while (edge_more()) {
    pid_t child = fork();
    if (!child) {
      int mine = open("wanted", O_RDWR);
      struct flock lock = {.l_type = F_WRLCK};
      flock(mine, LOCK_EX);
      fcntl(mine, F_SETLK, &lock);
      edge_sleep(10000);
      _exit(0);
    }
    edge_sleep(2000);
    struct flock lock = {.l_type = F_WRLCK}, none = {.l_type = F_UNLCK};
    EDGE_CHECK(flock(fd, LOCK_EX) == 0 && flock(fd, LOCK_UN) == 0 && fcntl(fd, F_SETLKW, &lock) == 0 &&
               fcntl(fd, F_SETLK, &none) == 0);
    EDGE_CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
}

static void system_names_and_sizes(void) {
  struct utsname first, now;
  EDGE_CHECK(uname(&first) == 0);
  long pages = sysconf(_SC_PHYS_PAGES), processors = sysconf(_SC_NPROCESSORS_ONLN);
  while (edge_more()) {
    EDGE_CHECK(uname(&now) == 0 && !memcmp(&first, &now, sizeof now) && sysconf(_SC_PHYS_PAGES) == pages &&
               sysconf(_SC_NPROCESSORS_ONLN) == processors);
    unsigned char bytes[8];
    EDGE_CHECK(getrandom(bytes, 8, 0) == 8 && sysconf(_SC_PAGESIZE) == 4096);
  }
}

#define KIND(name) \
  { #name, name }
static const struct edge_case table[] = {
    KIND(coroutines_on_4_kib),
    KIND(coroutines_on_6_kib),
    KIND(data_next_to_a_small_stack),
    KIND(small_alternate_stack),
    KIND(alternate_stack_seen_from_inside),
    KIND(recovers_from_stack_overflow),
    KIND(seven_megabytes_deep),
    KIND(ninety_megabytes_deep),
    KIND(jumps_between_frames),
    KIND(below_the_stack_pointer),
    KIND(permanently_switched_stack),
    KIND(rounding_and_masks),
    KIND(control_words),
    KIND(values_on_the_x87_stack),
    KIND(vector_registers),
    KIND(vector_registers_across_calls),
    KIND(division_by_zero_is_trapped),
    KIND(direction_and_alignment_flags),
    KIND(libraries_loaded_and_closed),
    KIND(loaded_objects),
    KIND(linker_namespace),
    KIND(thread_local_storage),
    KIND(indirect_function),
    KIND(thread_specific_keys),
    KIND(short_lived_threads),
    KIND(gs_base_set),
    KIND(fs_base_moved_temporarily),
    KIND(robust_mutex),
    KIND(restartable_sequences),
    KIND(calls_of_unusual_arguments),
    KIND(int_0x80_calls),
    KIND(waits_in_a_semaphore),
    KIND(waits_in_a_futex),
    KIND(waits_for_signals),
    KIND(waits_in_poll_select_and_sleep),
    KIND(waits_for_a_lock),
    KIND(system_names_and_sizes),
};

EDGE_MAIN(table)
