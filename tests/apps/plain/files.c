// Regular files held open: one read at an offset, one appended to, one written through two descriptors that
// share an offset (dup), one written by position, one opened and closed in each step.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "steplog.h"

static void path_of(char* path, const char* directory, const char* name) {
  snprintf(path, 4096, "%s/%s", directory, name);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  const char* directory = ".";
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--work")) directory = argv[i + 1];
  char input[4096], appended[4096], shared[4096], positioned[4096], brief[4096];
  path_of(input, directory, "input");
  path_of(appended, directory, "appended");
  path_of(shared, directory, "shared");
  path_of(positioned, directory, "positioned");
  path_of(brief, directory, "brief");

  FILE* file = fopen(input, "w");
  STEPLOG_CHECK(file);
  for (long i = 0; i < steplog_steps; i++) fprintf(file, "%08ld\n", i * 37);
  fclose(file);
  file = fopen(input, "r");  // buffered reading: the descriptor is ahead of the data that the program used
  int raw = open(input, O_RDONLY | O_CLOEXEC);
  int append = open(appended, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0640);
  int one = open(shared, O_RDWR | O_CREAT | O_TRUNC, 0600);
  int two = dup(one);
  int high = fcntl(one, F_DUPFD, 200);
  int at = open(positioned, O_RDWR | O_CREAT | O_TRUNC, 0600);
  STEPLOG_CHECK(file && raw >= 0 && append >= 0 && one >= 0 && two >= 0 && high >= 200 && at >= 0);

  char line[64];
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    STEPLOG_CHECK(fgets(line, sizeof line, file) && atol(line) == step * 37);
    memset(line, 0, sizeof line);
    STEPLOG_CHECK(read(raw, line, 9) == 9 && atol(line) == step * 37);
    STEPLOG_CHECK(lseek(raw, 0, SEEK_CUR) == (step + 1) * 9);
    STEPLOG_CHECK(fcntl(raw, F_GETFD) == FD_CLOEXEC);
    int n = snprintf(line, sizeof line, "append %ld\n", step);
    STEPLOG_CHECK(write(append, line, (size_t)n) == n);
    STEPLOG_CHECK(fcntl(append, F_GETFL) & O_APPEND);
    STEPLOG_CHECK(write(one, "a", 1) == 1 && write(two, "b", 1) == 1 && write(high, "c", 1) == 1);
    STEPLOG_CHECK(lseek(two, 0, SEEK_CUR) == (step + 1) * 3);
    STEPLOG_CHECK(pwrite(at, &step, sizeof step, step * (long)sizeof step) == sizeof step);
    int closed = open(brief, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    STEPLOG_CHECK(closed >= 0 && write(closed, line, (size_t)n) == n);
    close(closed);
    steplog_mix((uint64_t)step);
    steplog_step();
  }
  struct stat about;
  STEPLOG_CHECK(!fstat(one, &about) && about.st_size == steplog_steps * 3);
  STEPLOG_CHECK(!fstat(at, &about) && about.st_size == steplog_steps * (long)sizeof(long));
  for (long i = 0; i < steplog_steps; i++) {
    long value;
    STEPLOG_CHECK(pread(at, &value, sizeof value, i * (long)sizeof value) == sizeof value && value == i);
  }
  close(append);
  FILE* again = fopen(appended, "r");
  for (long i = 0; i < steplog_steps; i++) {
    STEPLOG_CHECK(fgets(line, sizeof line, again));
    STEPLOG_CHECK(!strncmp(line, "append ", 7) && atol(line + 7) == i);
  }
  STEPLOG_CHECK(!fgets(line, sizeof line, again));
  steplog_ok();
  return 0;
}
