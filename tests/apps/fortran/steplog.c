// steplog.h for Fortran programs. Module steplog in stencil.F90 declares these functions.
#include "steplog.h"

// `words`: the command line, `count` words of `length` characters each, each followed by a zero.
void fortran_log_open(char* words, int count, int length, int rank) {
  char* argv[64];
  if (count > 64) count = 64;
  for (int i = 0; i < count; i++) argv[i] = words + (size_t)i * (size_t)length;
  steplog_open(count, argv, rank);
}

int fortran_log_steps(void) { return (int)steplog_steps; }

void fortran_log_mix(const void* bytes, int size) { steplog_mix_bytes(bytes, (size_t)size); }

void fortran_log_step(void) { steplog_step(); }

void fortran_log_ok(void) { steplog_ok(); }

void fortran_log_fail(const char* text) { steplog_fail("%s", text); }
