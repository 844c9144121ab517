// OpenMP with one long-lived pool of threads: parallel loops with integer reductions, tasks, critical
// sections, locks, nested regions and threadprivate variables.
#include <omp.h>

#include "steplog.h"

enum { kWords = 20000, kTeam = 4 };

static uint64_t words[kWords];
static uint64_t own;
#pragma omp threadprivate(own)

static uint64_t count_tasks(int depth) {
  uint64_t left = 0, right = 0;
  if (depth == 0) return 1;
#pragma omp task shared(left)
  left = count_tasks(depth - 1);
#pragma omp task shared(right)
  right = count_tasks(depth - 1);
#pragma omp taskwait
  return left + right + 1;
}

int main(int argc, char** argv) {
  omp_lock_t lock;
  long entered = 0, locked = 0;
  steplog_open(argc, argv, -1);
  omp_set_dynamic(0);
  omp_set_num_threads(kTeam);
  omp_init_lock(&lock);
  while (steplog_done < steplog_steps) {
    uint64_t sum = 0, tasks = 0;
#pragma omp parallel for schedule(dynamic, 100) reduction(+ : sum)
    for (int i = 0; i < kWords; i++) {
      uint64_t state = words[i] + (uint64_t)i;
      words[i] = steplog_random(&state);
      sum += words[i];
    }
#pragma omp parallel
    {
      own += 1;
#pragma omp critical
      entered++;
      omp_set_lock(&lock);
      locked++;
      omp_unset_lock(&lock);
#pragma omp single
      tasks = count_tasks(7);
#pragma omp barrier
      if (own != (uint64_t)steplog_done + 1)
        steplog_fail("a threadprivate variable is %lu", (unsigned long)own);
    }
    STEPLOG_CHECK(entered == kTeam * (steplog_done + 1) && locked == entered && tasks == 255);
    steplog_mix(sum);
    steplog_step();
  }
  omp_destroy_lock(&lock);
  steplog_ok();
  return 0;
}
