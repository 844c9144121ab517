// Thread state outside of ordinary memory: thread-local variables, errno, rounding modes of the x87 and SSE
// units, values that stay in SSE and AVX registers over a long computation, a held recursive mutex.
#define _GNU_SOURCE
#include <errno.h>
#include <fenv.h>
#include <immintrin.h>
#include <pthread.h>

#include "steplog.h"

static _Thread_local long counter = 5;
static _Thread_local char area[3000];

__attribute__((target("avx"), noinline)) static long avx_over(long microseconds) {
  // Loads eight registers, loops for long without calls or spills, and compares. Reading the clock would be a
  // call, so the number of rounds sets the length.
  long rounds = microseconds * 200, equal;
  double base[4] = {1.25, 2.5, 3.75, 5.0}, out[4] = {0};
  __asm__ volatile(
      "vmovupd %[base], %%ymm8\n\t"
      "vaddpd %%ymm8, %%ymm8, %%ymm9\n\t"
      "vmulpd %%ymm9, %%ymm8, %%ymm15\n\t"
      "1: dec %[rounds]\n\t"
      "jnz 1b\n\t"
      "vaddpd %%ymm9, %%ymm15, %%ymm15\n\t"
      "vsubpd %%ymm8, %%ymm15, %%ymm15\n\t"
      "vmovupd %%ymm15, %[out]\n\t"
      "vzeroupper\n\t"
      : [out] "=m"(out), [rounds] "+r"(rounds)
      : [base] "m"(base)
      : "ymm8", "ymm9", "ymm15", "cc");
  equal = 1;
  for (int i = 0; i < 4; i++) equal &= out[i] == 2 * base[i] * base[i] + base[i];
  return equal;
}

static long sse_over(long microseconds) {
  long rounds = microseconds * 200;
  double base[2] = {1.5, -2.5}, out[2] = {0};
  __asm__ volatile(
      "movupd %[base], %%xmm11\n\t"
      "1: dec %[rounds]\n\t"
      "jnz 1b\n\t"
      "movupd %%xmm11, %[out]\n\t"
      : [out] "=m"(out), [rounds] "+r"(rounds)
      : [base] "m"(base)
      : "xmm11", "cc");
  return out[0] == base[0] && out[1] == base[1];
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  pthread_mutexattr_t attributes;
  pthread_mutex_t held;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&held, &attributes);
  pthread_mutex_lock(&held);
  for (size_t i = 0; i < sizeof area; i++) area[i] = (char)(i * 3);
  fesetround(FE_UPWARD);
  _mm_setcsr(_mm_getcsr() | 0x8000);  // flush to zero
  int has_avx = __builtin_cpu_supports("avx");
  volatile double one = 1, three = 3;
  while (steplog_done < steplog_steps) {
    errno = EXDEV;
    STEPLOG_CHECK(counter == 5 + steplog_done);
    counter++;
    for (size_t i = 0; i < sizeof area; i++) STEPLOG_CHECK(area[i] == (char)(i * 3));
    STEPLOG_CHECK(has_avx ? avx_over(steplog_pace / 2) : 1);
    STEPLOG_CHECK(sse_over(steplog_pace / 2));
    STEPLOG_CHECK(errno == EXDEV);
    STEPLOG_CHECK(fegetround() == FE_UPWARD);
    STEPLOG_CHECK((_mm_getcsr() & 0xe000) == 0xc000);  // round up, flush to zero
    double third = one / three;
    STEPLOG_CHECK(third * 3 > 1.0);  // rounded upwards
    long double x87 = (long double)one / three;
    steplog_mix_bytes(&third, sizeof third);
    steplog_mix_bytes(&x87, 10);
    STEPLOG_CHECK(!pthread_mutex_lock(&held));
    STEPLOG_CHECK(!pthread_mutex_unlock(&held));
    steplog_step();
  }
  STEPLOG_CHECK(!pthread_mutex_unlock(&held));
  steplog_ok();
  return 0;
}
