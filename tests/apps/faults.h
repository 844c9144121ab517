// Whether access to an address raises the signal that catch_faults() handles.
#pragma once

#include <setjmp.h>
#include <signal.h>

static sigjmp_buf faults_back;
static inline void faults_caught(int sig) { siglongjmp(faults_back, sig); }
static inline void catch_faults(int sig) { signal(sig, faults_caught); }

static inline int faults(const volatile unsigned char* p) {
  if (sigsetjmp(faults_back, 1)) return 1;
  (void)*p;
  return 0;
}
