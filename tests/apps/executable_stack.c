// A program with an executable stack, since it takes the address of a nested function. Built with
// WITHOUT_NESTED, its stack is ordinary until it loads a library that demands an executable one (--library
// FILE).
#include <dlfcn.h>

#include "steplog.h"

#ifndef WITHOUT_NESTED
__attribute__((noinline)) static long apply(long (*function)(long), long value) { return function(value); }
#endif

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  long (*twice)(long) = NULL;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--library")) {
      void* library = dlopen(argv[i + 1], RTLD_NOW);
      if (!library) steplog_fail("%s", dlerror());
      *(void**)&twice = dlsym(library, "twice_on_the_stack");
      STEPLOG_CHECK(twice);
    }
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    if (twice) STEPLOG_CHECK(twice(step) == 2 * step);
#ifndef WITHOUT_NESTED
    long added(long value) { return value + step; }  // its trampoline is code on the stack
    STEPLOG_CHECK(apply(added, 5) == 5 + step);
#endif
    steplog_mix((uint64_t)(step + (twice ? twice(step) : 1)));
    steplog_step();
  }
  steplog_ok();
  return 0;
}
