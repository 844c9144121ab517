// Reads a line of a file in each step, and says how many lines it read; the file must be there: FILE has
// "line N\n" in each.
#include <stdlib.h>

#include "steplog.h"

int main(int argc, char** argv) {
  const char* name = "in";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--in")) name = argv[i + 1];
  steplog_open(argc, argv, -1);
  FILE* in = fopen(name, "r");
  STEPLOG_CHECK(in);
  setvbuf(in, NULL, _IONBF, 0);
  long number;
  while (steplog_done < steplog_steps) {
    STEPLOG_CHECK(fscanf(in, "line %ld\n", &number) == 1);
    steplog_mix((uint64_t)number);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
