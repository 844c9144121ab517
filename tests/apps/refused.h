// A program that holds something that prevents a checkpoint, and releases it after half of its steps.
#pragma once

#include "steplog.h"

static inline void refused_steps(int argc, char** argv, void (*take)(const char*),
                                 void (*let_go)(const char*)) {
  steplog_open(argc, argv, -1);
  take(argv[1]);
  while (steplog_done < steplog_steps) {
    if (steplog_done == steplog_steps / 2) let_go(argv[1]);
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
}

static inline int refused_main(int argc, char** argv, void (*take)(const char*),
                               void (*let_go)(const char*)) {
  if (argc < 2) return 2;
  refused_steps(argc, argv, take, let_go);
  steplog_ok();
  return 0;
}
