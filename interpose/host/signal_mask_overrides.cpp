// Prepares every thread that a library of the lower half starts: it handles no signal, and GS base 0 tells
// the core that it is not the program's. The executable's pthread_create precedes the C library's.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "interpose/seam/state.h"
#include "interpose/seam/thread.h"
#include "interpose/upper/raw.h"

namespace {

struct Start {
  void* (*run)(void*);
  void* argument;
};

long raw_mask(int how, const uint64_t* set, uint64_t* old) {
  return cropdl::upper::raw(SYS_rt_sigprocmask, how, cropdl::upper::as_word(set), cropdl::upper::as_word(old),
                            8);
}

void* begin(void* argument) {
  cropdl::seam::by_kernel::set_gs_base(0);  // clone(2) copied the parent's
  const Start start = *static_cast<Start*>(argument);
  free(argument);
  return start.run(start.argument);
}

// Like rt_sigprocmask, but leaves the suspend signal unchanged. Returns 0 or an errno.
int change_mask(int how, const sigset_t* set, sigset_t* old) {
  constexpr uint64_t kKept = 1ull << (cropdl::seam::kSuspendSignal - 1);
  uint64_t now = 0;
  long result = raw_mask(SIG_BLOCK, nullptr, &now);
  if (result == 0 && set != nullptr) {
    uint64_t wanted = set->__val[0] & ~kKept;
    if (how == SIG_SETMASK) wanted |= now & kKept;
    result = raw_mask(how, &wanted, nullptr);
  }
  if (result == 0 && old != nullptr) {
    sigemptyset(old);
    old->__val[0] = now;
  }
  return static_cast<int>(-result);
}

}  // namespace

extern "C" int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return change_mask(how, set, old);
}

extern "C" int sigprocmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  const int error = change_mask(how, set, old);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  auto* start = static_cast<Start*>(malloc(sizeof(Start)));
  if (start == nullptr) return EAGAIN;
  *start = {run, argument};
  const uint64_t all = ~0ull;
  uint64_t before = 0;
  raw_mask(SIG_SETMASK, &all, &before);
  const int error = create(thread, attributes, begin, start);
  raw_mask(SIG_SETMASK, &before, nullptr);
  if (error != 0) free(start);
  return error;
}
