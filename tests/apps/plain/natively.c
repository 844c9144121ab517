// What a program and its children see of themselves: the whole environment (including LD_PRELOAD),
// /proc/self/exe, the command's name, argv[0], the file name in the auxiliary vector. The digest contains all
// of it, and must be the undisturbed run's.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "steplog.h"

extern char** environ;

static int compare(const void* a, const void* b) { return strcmp(*(char* const*)a, *(char* const*)b); }

// Independent of the order; without the variables that the test's environment and shells change.
static uint64_t environment_hash(char** variables, size_t count) {
  static const char* const others[] = {"CROPDL_TEST_MARK=", "TMPDIR=", "_=", "PWD=", "OLDPWD=", "SHLVL="};
  uint64_t before = steplog_digest, hash;
  qsort(variables, count, sizeof *variables, compare);
  steplog_digest = 1;
  for (size_t i = 0; i < count; i++) {
    int other = 0;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
      other |= !strncmp(variables[i], others[k], strlen(others[k]));
    if (!other) steplog_mix_bytes(variables[i], strlen(variables[i]));
  }
  hash = steplog_digest;
  steplog_digest = before;
  return hash;
}

static uint64_t own_environment(void) {
  char* copy[4096];
  size_t count = 0;
  for (char** e = environ; *e && count < 4096; e++) copy[count++] = *e;
  return environment_hash(copy, count);
}

static uint64_t childs_environment(void) {
  static char text[1 << 17];
  FILE* out = popen("exec env -0", "r");
  STEPLOG_CHECK(out);
  size_t bytes = fread(text, 1, sizeof text - 1, out), count = 0;
  STEPLOG_CHECK(bytes > 0 && pclose(out) == 0);
  char* lines[4096];
  for (char* at = text; at < text + bytes && count < 4096; at += strlen(at) + 1) lines[count++] = at;
  return environment_hash(lines, count);
}

static void childs_link(char* to, size_t size) {
  FILE* out = popen("exec readlink /proc/self/exe", "r");
  STEPLOG_CHECK(out && fgets(to, (int)size, out) && pclose(out) == 0);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  // The same natively and after a restart, which keeps the values of the first start.
  while (steplog_done < steplog_steps) {
    char exe[4096], name[16] = {0}, link[4096] = {0};
    memset(exe, 0, sizeof exe);
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    STEPLOG_CHECK(length > 0);
    for (size_t i = (size_t)length; i < sizeof exe; i++)
      STEPLOG_CHECK(exe[i] == 0);  // nothing is written behind the string's end
    char cut[5] = {0};
    STEPLOG_CHECK(readlink("/proc/self/exe", cut, 4) == 4 && !memcmp(cut, exe, 4) && cut[4] == 0);
    const char* file_name = (const char*)getauxval(AT_EXECFN);
    steplog_mix_bytes(file_name, strlen(file_name));
    STEPLOG_CHECK(!prctl(PR_GET_NAME, name));
    steplog_mix_bytes(exe, strlen(exe));
    steplog_mix_bytes(name, strlen(name));
    steplog_mix_bytes(argv[0], strlen(argv[0]));
    steplog_mix_bytes(program_invocation_short_name, strlen(program_invocation_short_name));
    steplog_mix(getauxval(AT_SECURE) + getauxval(AT_PAGESZ) + getauxval(AT_HWCAP));
    steplog_mix(own_environment());
    if (steplog_done % 8 == 0) {
      steplog_mix(childs_environment());
      childs_link(link, sizeof link);
      steplog_mix_bytes(link, strlen(link));
    }
    steplog_step();
  }
  steplog_ok();
  return 0;
}
