// Loaded by ld.so at program start: it needs an alignment larger than a page, so that ld.so first reserves
// addresses for it, before a thread block exists.
#include <stdio.h>
#include <stdlib.h>

static unsigned long words[20000] = {1, 2, 3};

__attribute__((constructor)) static void begin(void) {
  if (words[2] != 3) abort();
  words[2] = (unsigned long)&words;
}

__attribute__((destructor)) static void end(void) {
  if (words[2] != (unsigned long)&words) fprintf(stderr, "not the words of the beginning\n"), abort();
}
