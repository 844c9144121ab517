// Records the program's System V objects for a cut (restart/session/process_state.cpp). UH, any thread.
#include <asm/unistd.h>

#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

constexpr long kRemoved = -43;  // EIDRM
constexpr long kStat = 2;       // IPC_STAT

// Without a buffer the kernel fails in any case: with EFAULT if the object exists (Linux ipc/*.c, ksys_*ctl).
bool is_gone(long control, long id) {
  const long result = control == __NR_semctl ? raw(control, id, 0, kStat, 0) : raw(control, id, kStat, 0);
  return result == kInvalid || result == kRemoved;
}

bool is_listed(const uint32_t* entries, const int32_t* ids, long id) {
  const uint32_t known = __atomic_load_n(entries, __ATOMIC_ACQUIRE);
  for (uint32_t i = 0; i < known && i < seam::SystemVObjects::kMax; ++i)
    if (__atomic_load_n(&ids[i], __ATOMIC_RELAXED) == id) return true;
  return false;
}

// `control`: the call by which an object of this kind is examined.
void note(uint32_t* entries, int32_t* ids, long control, long id) {
  constexpr uint32_t kMax = seam::SystemVObjects::kMax;
  if (is_child() || is_listed(entries, ids, id)) return;  // semop seldom needs the lock
  const NotesHeld held;
  if (is_listed(entries, ids, id) || *entries > kMax) return;
  const auto put = [&](uint32_t i) { __atomic_store_n(&ids[i], static_cast<int32_t>(id), __ATOMIC_SEQ_CST); };
  if (*entries < kMax) {
    put(*entries);
    __atomic_store_n(entries, *entries + 1, __ATOMIC_RELEASE);
    return;
  }
  for (uint32_t i = 0; i < kMax; ++i) {
    const int32_t former = ids[i];
    if (!is_gone(control, former)) continue;
    put(i);
    if (is_gone(control, former)) return;
    __atomic_store_n(&ids[i], former, __ATOMIC_SEQ_CST);  // made again, and perhaps just found in the list
  }
  __atomic_store_n(entries, kMax + 1, __ATOMIC_RELEASE);
}

}  // namespace

long system_v_call(const SystemCall& c) {
  auto& known = seam::state()->system_v;
  if (c.nr == __NR_semop || c.nr == __NR_semtimedop) {
    // Recorded before the call: SEM_UNDO leaves an adjustment for this process in the kernel (man 2 semop). A
    // set that another process made counts as well; a set that does not exist is no obstacle.
    note(&known.semaphores, known.semaphore, __NR_semctl, static_cast<int32_t>(c.a[0]));
    return timed_wait(c);
  }
  const Undisturbed undisturbed;
  const long id = raw(c.nr, c.a[0], c.a[1], c.a[2]);
  if (failed(id)) return id;
  if (c.nr == __NR_shmget)
    note(&seam::state()->segments.entries, seam::state()->segments.segment, __NR_shmctl, id);
  else if (c.nr == __NR_semget)
    note(&known.semaphores, known.semaphore, __NR_semctl, id);
  else
    note(&known.queues, known.queue, __NR_msgctl, id);
  return id;
}

}  // namespace cropdl::upper
