/* Prints how many threads, of the --threads N that live at the same time, have their TLS block
 * (pthread_self() points to it) below 4 GiB. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMost = 600 };

static pthread_barrier_t all_live;
static int low;

static void* live(void* unused) {
  char stack[64 << 10];
  memset(stack, 7, sizeof stack);
  if ((uint64_t)pthread_self() >> 32 == 0) __atomic_fetch_add(&low, stack[100] == 7, __ATOMIC_RELAXED);
  pthread_barrier_wait(&all_live);
  return unused;
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 3;
  pthread_t threads[kMost];
  if (count > kMost) return 2;
  for (int round = 0; round < 3; ++round) {
    low = 0;
    pthread_barrier_init(&all_live, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; ++i)
      if (pthread_create(&threads[i], NULL, live, NULL) != 0) return 1;
    pthread_barrier_wait(&all_live);
    for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
    printf("%d of %d\n", low, count);
  }
  return 0;
}
