// Records the System V semaphores, message queues and shared memory that the program uses: a cut names them
// (restart/session/process_state.cpp). UH, any thread.
#include <asm/unistd.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

void note(uint32_t* entries, int32_t* ids, long id) {
  if (is_child()) return;
  const uint32_t known = __atomic_load_n(entries, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < known && i < seam::SystemVObjects::kMax; ++i)
    if (ids[i] == id) return;
  if (known > seam::SystemVObjects::kMax) return;  // the count must not begin anew
  const uint32_t mine = __atomic_fetch_add(entries, 1, __ATOMIC_ACQ_REL);
  if (mine < seam::SystemVObjects::kMax) ids[mine] = static_cast<int32_t>(id);
}

}  // namespace

long system_v_call(const SystemCall& c) {
  auto& known = seam::state()->system_v;
  if (c.nr == __NR_semop || c.nr == __NR_semtimedop) {
    // Recorded before the call: SEM_UNDO leaves an adjustment for this process in the kernel (man 2 semop). A
    // set that another process made counts as well; a set that does not exist is no obstacle.
    note(&known.semaphores, known.semaphore, c.a[0]);
    return timed_wait(c);
  }
  const Undisturbed undisturbed;
  const long id = raw(c.nr, c.a[0], c.a[1], c.a[2]);
  if (failed(id)) return id;
  if (c.nr == __NR_shmget)
    note(&seam::state()->segments.entries, seam::state()->segments.segment, id);
  else if (c.nr == __NR_semget)
    note(&known.semaphores, known.semaphore, id);
  else
    note(&known.queues, known.queue, id);
  return id;
}

}  // namespace cropdl::upper
