// In each step, writes a line to standard output and standard error, and reads one from standard input while
// --input N lines are left (line K contains the number K). --second FILE: first closes standard error and
// opens FILE, which gets its number.
#include <fcntl.h>
#include <unistd.h>

#include "steplog.h"

int main(int argc, char** argv) {
  long input = 0;
  const char* second = NULL;
  for (int i = 1; i + 1 < argc; i++) {
    if (!strcmp(argv[i], "--input")) input = atol(argv[i + 1]);
    if (!strcmp(argv[i], "--second")) second = argv[i + 1];
  }
  steplog_open(argc, argv, -1);
  if (second) {
    close(2);
    STEPLOG_CHECK(open(second, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600) == 2);
  }
  char line[64];
  while (steplog_done < steplog_steps) {
    if (steplog_done < input) {
      STEPLOG_CHECK(fgets(line, sizeof line, stdin) && atol(line) == steplog_done);
      steplog_mix((uint64_t)atol(line));
    }
    int n = snprintf(line, sizeof line, "out %ld\n", steplog_done);
    STEPLOG_CHECK(write(1, line, (size_t)n) == n);
    n = snprintf(line, sizeof line, "err %ld\n", steplog_done);
    STEPLOG_CHECK(write(2, line, (size_t)n) == n);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
