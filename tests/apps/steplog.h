// The log that every small C and C++ test program writes. It knows nothing of checkpoints; the driver reads
// it to tell whether a restarted run continued. Lines:
//   nonce HEX          a number from /dev/urandom, drawn once at the start
//   step K TIME        step K (from 1) is complete; seconds since 1970
//   at WORD TIME       the program is about to do WORD (block in a receive, ...)
//   ok HEX nonce=HEX   the self check passed: digest of the results, and the nonce as still in memory
//   failed TEXT        the self check failed; the program exits with 1
// Arguments: --log FILE (default: standard output; rank R > 0 appends .R), --steps N, --pace MICROSECONDS
// (pause after each step). Other arguments are the program's own.
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static FILE* steplog_file;
static uint64_t steplog_nonce;
static long steplog_done;
static long steplog_steps = 100;
static long steplog_pace = 20000;
static uint64_t steplog_digest = 0xcbf29ce484222325u;

static inline double steplog_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((format(printf, 1, 2), noreturn)) static inline void steplog_fail(const char* format, ...) {
  va_list list;
  char text[512];
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (steplog_file) fprintf(steplog_file, "failed %s\n", text);
  if (steplog_file) fflush(steplog_file);
  fprintf(stderr, "self check failed at step %ld: %s\n", steplog_done, text);
  _Exit(1);  // the launcher then ends the other ranks
}

#define STEPLOG_CHECK(condition)                                                 \
  do {                                                                           \
    if (!(condition)) steplog_fail("%s:%d: %s", __FILE__, __LINE__, #condition); \
  } while (0)

// rank: -1 for a program without MPI.
static inline void steplog_open(int argc, char** argv, int rank) {
  const char* path = NULL;
  for (int i = 1; i < argc; i++) {
    if (i + 1 < argc && !strcmp(argv[i], "--log")) path = argv[i + 1];
    if (i + 1 < argc && !strcmp(argv[i], "--steps")) steplog_steps = atol(argv[i + 1]);
    if (i + 1 < argc && !strcmp(argv[i], "--pace")) steplog_pace = atol(argv[i + 1]);
  }
  steplog_file = stdout;
  if (path) {
    char name[4096];
    if (rank > 0)
      snprintf(name, sizeof name, "%s.%d", path, rank);
    else
      snprintf(name, sizeof name, "%s", path);
    steplog_file = fopen(name, "w");
    if (!steplog_file) {
      perror(name);
      exit(1);
    }
  }
  setvbuf(steplog_file, NULL, _IOLBF, 4096);
  FILE* random = fopen("/dev/urandom", "rb");
  if (!random || fread(&steplog_nonce, sizeof steplog_nonce, 1, random) != 1) {
    perror("/dev/urandom");
    exit(1);
  }
  fclose(random);
  fprintf(steplog_file, "nonce %016llx\n", (unsigned long long)steplog_nonce);
}

static inline int steplog_has(int argc, char** argv, const char* option) {
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], option)) return 1;
  return 0;
}

static inline void steplog_mix(uint64_t value) {
  steplog_digest = (steplog_digest ^ value) * 0x100000001b3u;
  steplog_digest ^= steplog_digest >> 31;
}

static inline void steplog_mix_bytes(const void* bytes, size_t size) {
  const unsigned char* p = (const unsigned char*)bytes;
  for (size_t i = 0; i < size; i++) steplog_digest = (steplog_digest ^ p[i]) * 0x100000001b3u;
  steplog_digest ^= steplog_digest >> 31;
}

static inline void steplog_at(const char* word) {
  fprintf(steplog_file, "at %s %.6f\n", word, steplog_now());
}

// Computes without system calls (the vDSO reads the clock).
static inline void steplog_spin(long microseconds) {
  double end = steplog_now() + 1e-6 * (double)microseconds;
  while (steplog_now() < end)
    for (volatile int i = 0; i < 200; i++) {
    }
}

// Computes for a tenth of the time and sleeps for the rest. Programs tested in parallel thus share the
// processors, and checkpoints meet both states.
static inline void steplog_pass(long microseconds) {
  const double end = steplog_now() + 1e-6 * (double)microseconds;
  steplog_spin(microseconds / 10);
  struct timespec until;
  until.tv_sec = (time_t)end;
  until.tv_nsec = (long)((end - (double)until.tv_sec) * 1e9);
  while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL) == EINTR) {
  }
}

static inline void steplog_step(void) {
  steplog_done++;
  fprintf(steplog_file, "step %ld %.6f\n", steplog_done, steplog_now());
  if (steplog_pace > 0) steplog_pass(steplog_pace);
}

static inline void steplog_ok(void) {
  fprintf(steplog_file, "ok %016llx nonce=%016llx\n", (unsigned long long)steplog_digest,
          (unsigned long long)steplog_nonce);
  fclose(steplog_file);
}

static inline uint64_t steplog_random(uint64_t* state) {  // splitmix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
