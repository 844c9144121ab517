// The callback thread blocks all signals. It runs code of the program: its stack has the default size.
#include "interpose/cuda/upper/callbacks.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

namespace cropdl::cuda_shim {
namespace {

int call(seam::CudaShimCall what) {
  // A forked child has no lower half; the call that follows says so.
  if (seam::state()->forked != 0) return 0;
  return seam::call_lower<int>(&seam::control()->libraries[seam::kLibraryCudaShims].table, what);
}

void* run(void*) {
  for (;;) call(seam::kRunCallbacks);
}

bool has_thread;  // cached per shim: the thread exists

}  // namespace

bool need_callback_thread() {
  if (__atomic_load_n(&has_thread, __ATOMIC_RELAXED)) return true;
  int answer;
  while ((answer = call(seam::kNeedCallbackThread)) == seam::kAwaitThread) sched_yield();
  if (answer == seam::kNoThread) return false;
  if (answer == seam::kMakeThread) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int failed = pthread_create(&thread, &attributes, run, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (failed) {
      call(seam::kNoCallbackThread);
      return false;
    }
  }
  __atomic_store_n(&has_thread, true, __ATOMIC_RELAXED);
  return true;
}

}  // namespace cropdl::cuda_shim
