// Memory that grows by an incompressible megabyte in each of the first hundred steps, and is checked.
#include "steplog.h"

enum { kBlocks = 100, kWords = 1 << 17 };

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  static uint64_t* blocks[kBlocks];
  while (steplog_done < steplog_steps) {
    long step = steplog_done;
    uint64_t random = (uint64_t)step;
    if (step < kBlocks) {
      blocks[step] = malloc(sizeof(uint64_t) * kWords);
      STEPLOG_CHECK(blocks[step]);
      for (int i = 0; i < kWords; i++) blocks[step][i] = steplog_random(&random);
    }
    long checked = (step * 7) % (step < kBlocks ? step + 1 : kBlocks);
    random = (uint64_t)checked;
    for (int i = 0; i < kWords; i++) STEPLOG_CHECK(blocks[checked][i] == steplog_random(&random));
    steplog_mix(random);
    steplog_step();
  }
  steplog_ok();
  return 0;
}
