// Threads of the lower half's libraries, whoever starts them and when: no signal of the program is ever
// handled on one, and GS base 0 tells the core that it is none of the program's. The executable's definition
// of pthread_create stands before the C library's for all of them.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <cstdlib>

#include "interpose/seam/thread.h"

namespace {

struct Start {
  void* (*run)(void*);
  void* argument;
};

void* begin(void* argument) {
  cropdl::seam::set_gs_base(0);  // clone(2) gave it its parent's
  const Start start = *static_cast<Start*>(argument);
  free(argument);
  return start.run(start.argument);
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                              void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  auto* start = static_cast<Start*>(malloc(sizeof(Start)));
  if (start == nullptr) return EAGAIN;
  *start = {run, argument};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = create(thread, attributes, begin, start);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) free(start);
  return error;
}
