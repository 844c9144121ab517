// Reads a line of a file in each step, and prints how many lines it read; FILE must exist and have the lines
// "line N\n". --directory DIR: has read some of the 60 names in DIR, and reads the others at the end.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steplog.h"

// Reads names into a small buffer; returns their number.
static int some_names(int directory) {
  char buffer[256];
  const long size = syscall(SYS_getdents64, directory, buffer, sizeof buffer);
  STEPLOG_CHECK(size >= 0);
  int names = 0;
  for (long at = 0; at < size; at += *(unsigned short*)(buffer + at + 16)) names++;
  return names;
}

int main(int argc, char** argv) {
  const char *name = "in", *listed = NULL;
  for (int i = 1; i + 1 < argc; i++) {
    if (!strcmp(argv[i], "--in")) name = argv[i + 1];
    if (!strcmp(argv[i], "--directory")) listed = argv[i + 1];
  }
  steplog_open(argc, argv, -1);
  FILE* in = fopen(name, "r");
  STEPLOG_CHECK(in);
  setvbuf(in, NULL, _IONBF, 0);
  const int directory = listed ? open(listed, O_RDONLY | O_DIRECTORY) : -1;
  int names = listed ? some_names(directory) : 0;
  long number;
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(fscanf(in, "line %ld\n", &number) == 1);
    steplog_mix((uint64_t)number);
    steplog_step();
  }
  for (int more = listed != NULL; more > 0; names += more) more = some_names(directory);
  STEPLOG_CHECK(!listed || names == 62);  // including . and ..
  steplog_ok();
  return 0;
}
