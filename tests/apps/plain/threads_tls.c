// Thread-local storage: the program's, that of a library which is loaded and unloaded while threads run, and
// keys with destructors that run at a thread's end.
#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>

#include "steplog.h"

enum { kThreads = 3, kKeys = 5 };

static _Thread_local uint64_t own = 3;
static _Thread_local char large[20000];
static pthread_key_t keys[kKeys];
static pthread_barrier_t barrier;
static long destroyed;
static uint64_t ends;
static unsigned long (*count)(int);

static void destroy(void* value) {
  __atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&ends, (uint64_t)value * own, __ATOMIC_SEQ_CST);
}

static void* short_lived(void* argument) {
  STEPLOG_CHECK(own == 3 && large[19999] == 0 && count(0) == 1001 && pthread_getspecific(keys[0]) == NULL);
  own = (uint64_t)argument;
  for (long i = 0; i < kKeys; i++) pthread_setspecific(keys[i], (void*)(i + 1));
  for (int i = 0; i < 20000; i++) large[i] = (char)i;
  pthread_exit(argument);
}

static void* work(void* argument) {
  const long me = (long)argument;
  pthread_t thread;
  pthread_setspecific(keys[0], (void*)(me + 100));
  for (long round = 0; round < steplog_steps; round++) {
    pthread_barrier_wait(&barrier);  // the library is loaded
    own = own * 7 + (uint64_t)me;
    STEPLOG_CHECK(count(0) == 1001);  // fresh after each load
    for (int i = 1; i < 300; i++) STEPLOG_CHECK(count(i) == 1001);
    STEPLOG_CHECK(pthread_getspecific(keys[0]) == (void*)(me + 100));
    STEPLOG_CHECK(pthread_create(&thread, NULL, short_lived, (void*)round) == 0);
    for (int i = 1; i < 300; i++) STEPLOG_CHECK(count(i) == 2002);
    STEPLOG_CHECK(pthread_join(thread, NULL) == 0);
    pthread_barrier_wait(&barrier);
  }
  __atomic_fetch_add(&ends, own, __ATOMIC_SEQ_CST);
  pthread_setspecific(keys[0], NULL);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  char path[4096], self[4096];
  steplog_open(argc, argv, -1);
  snprintf(self, sizeof self, "%s", argv[0]);
  snprintf(path, sizeof path, "%s/threads_tls_library.so", dirname(self));
  for (int i = 0; i < kKeys; i++) pthread_key_create(&keys[i], destroy);
  pthread_barrier_init(&barrier, NULL, kThreads + 1);
  for (long i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_create(&threads[i], NULL, work, (void*)i) == 0);
  while (steplog_done < steplog_steps) {
    void* library = dlopen(path, RTLD_NOW);
    if (!library) steplog_fail("%s", dlerror());
    *(void**)&count = dlsym(library, "count");
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    STEPLOG_CHECK(dlclose(library) == 0);
    steplog_step();
  }
  for (int i = 0; i < kThreads; i++) STEPLOG_CHECK(pthread_join(threads[i], NULL) == 0);
  STEPLOG_CHECK(destroyed == kThreads * kKeys * steplog_steps);
  steplog_mix(ends);
  steplog_ok();
  return 0;
}
