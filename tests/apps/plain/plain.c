// The smallest program: steps and a digest. Also built statically linked, which must be refused.
#include "steplog.h"

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  while (steplog_done < steplog_steps) {
    steplog_mix((uint64_t)steplog_done);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
