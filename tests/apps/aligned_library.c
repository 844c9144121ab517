// Loaded by ld.so at a program's start: wants an alignment above that of pages, so that ld.so reserves
// addresses for it first, before there is a thread block.
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
