// Tile registers (AMX): the main thread keeps values in all eight for the whole run, one thread uses and
// releases them in each step, one begins to use them in the middle, one never does.
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

enum { kRequestPermission = 0x1023, kTileData = 18, kTile = 1024, kTiles = 8 };

struct configuration {
  uint8_t palette, start, reserved[14];
  uint16_t bytes_of_a_row[16];
  uint8_t rows[16];
} __attribute__((packed));

static void configure(int rows) {
  struct configuration c = {.palette = 1};
  for (int i = 0; i < kTiles; i++) c.bytes_of_a_row[i] = 64, c.rows[i] = (uint8_t)rows;
  __asm__ volatile("ldtilecfg %0" ::"m"(c));
}

#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

static void load(const uint8_t (*from)[kTile]) {
#define LOAD(N) __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #N ::"r"(from[N]), "r"(64L) : "memory");
  EACH(LOAD)
}

static void store(uint8_t (*to)[kTile]) {
#define STORE(N) __asm__ volatile("tilestored %%tmm" #N ", (%0,%1,1)" ::"r"(to[N]), "r"(64L) : "memory");
  EACH(STORE)
}

static void fill(uint8_t (*tiles)[kTile], uint64_t seed) {
  for (int n = 0; n < kTiles; n++)
    for (int i = 0; i < kTile; i++) tiles[n][i] = (uint8_t)steplog_random(&seed);
}

static pthread_barrier_t barrier;
enum { kEachStep, kLate, kNever, kThreads };

static void* work(void* argument) {
  const long which = (long)argument;
  uint8_t given[kTiles][kTile], got[kTiles][kTile];
  int begun = 0;
  for (long step = 0; step < steplog_steps; step++) {
    if (which == kEachStep || (which == kLate && step == steplog_steps / 2)) {
      configure(16);
      fill(given, steplog_nonce + (uint64_t)which);
      load(given);
      begun = 1;
    }
    pthread_barrier_wait(&barrier);
    if (!begun) continue;
    store(got);
    STEPLOG_CHECK(memcmp(given, got, sizeof got) == 0);
    if (which == kEachStep) __asm__ volatile("tilerelease");
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  uint8_t given[kTiles][kTile], got[kTiles][kTile], sums[kTiles][kTile];
  steplog_open(argc, argv, -1);
  STEPLOG_CHECK(syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0);
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  configure(16);
  fill(given, 4711);
  load(given);
  while (steplog_done < steplog_steps) {
    // tmm0 and tmm1 are multiplied into tmm2, whose value thus depends on all steps before.
    __asm__ volatile("tdpbssd %tmm1, %tmm0, %tmm2");
    store(sums);
    steplog_mix_bytes(sums[2], kTile);
    steplog_spin(steplog_pace / 4);
    store(got);
    STEPLOG_CHECK(memcmp(sums, got, sizeof got) == 0);
    for (int n = 0; n < kTiles; n++) STEPLOG_CHECK(n == 2 || memcmp(given[n], got[n], kTile) == 0);
    pthread_barrier_wait(&barrier);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  steplog_ok();
  return 0;
}
