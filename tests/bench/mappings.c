// Times mmap + touching every page + munmap. Prints `mmap_SIZE NANOSECONDS`, the median over batches.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { kBatches = 15 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const char* name, size_t size, int calls) {
  double times[kBatches];
  for (int b = -1; b < kBatches; b++) {  // -1: warm-up
    double start = now();
    for (int i = 0; i < calls; i++) {
      volatile char* p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) abort();
      for (size_t at = 0; at < size; at += 4096) p[at] = 1;
      munmap((void*)p, size);
    }
    if (b >= 0) times[b] = (now() - start) / calls;
  }
  qsort(times, kBatches, sizeof times[0], by_value);
  printf("%s %.1f\n", name, times[kBatches / 2]);
}

int main(void) {
  measure("mmap_64k", 64 << 10, 2000);
  measure("mmap_1m", 1 << 20, 200);
  return 0;
}
