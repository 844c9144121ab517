// A libucp.so.0 that wraps the real one (REAL_UCP): a caller that polls repeatedly without progress yields
// the processor. Open MPI has a setting for that (mpi_yield_when_idle), MPICH has none. Tests run more ranks
// than there are processors; without yielding, four polling ranks are several times slower.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned (*progress)(void* worker);

__attribute__((constructor)) static void open_the_real_one(void) {
  void* real = dlopen(REAL_UCP, RTLD_NOW | RTLD_GLOBAL);
  if (real) *(void**)&progress = dlsym(real, "ucp_worker_progress");
  if (!progress) {
    fprintf(stderr, "yielding_ucp: %s\n", dlerror());
    abort();
  }
}

unsigned ucp_worker_progress(void* worker) {
  static __thread int in_vain;
  const unsigned events = progress(worker);
  if (events) {
    in_vain = 0;
  } else if (++in_vain > 50) {
    in_vain = 0;
    sched_yield();
  }
  return events;
}
