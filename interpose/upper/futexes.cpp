// Futexes that hold the owner's thread id: mutexes with priority inheritance, and those in robust lists.
// After a restart these ids are of the first run, unknown to the kernel. So the core does the kernel's work
// (man 2 futex, man 2 get_robust_list; Linux kernel/futex), without priority inheritance. UH, any thread.
#include <asm/unistd.h>
#include <linux/futex.h>

#include "interpose/upper/clocks.h"
#include "interpose/upper/core.h"

namespace cropdl::upper {
namespace {

constexpr long kDeadlock = -35, kWouldBlock = -11;
constexpr uint32_t kOwner = FUTEX_TID_MASK, kWaiters = FUTEX_WAITERS, kOwnerDied = FUTEX_OWNER_DIED;

bool is_thread(uint32_t upper) {
  const auto* s = seam::state();
  for (uint32_t i = 0; i < s->threads_high || i == 0; ++i) {
    const auto& t = s->threads[i];
    const bool ended = t.used != seam::kLive || (i == 0 && t.gone != 0);
    if (!ended && static_cast<uint32_t>(t.virtual_tid) == upper) return true;
  }
  return false;
}

bool replace(uint32_t* word, uint32_t& seen, uint32_t by) {
  return __atomic_compare_exchange_n(word, &seen, by, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// Takes the lock. Returns kWouldBlock if the caller must wait; `due` is then the value to wait on.
long take(uint32_t* word, bool waited, uint32_t* due) {
  const auto own = static_cast<uint32_t>(seam::current_thread()->virtual_tid);
  for (uint32_t seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);;) {
    const uint32_t owner = seen & kOwner;
    if (owner == own) return kDeadlock;
    if (owner == 0) {
      // A thread that has waited does not know whether others wait.
      const uint32_t mine = own | (seen & (kOwnerDied | kWaiters)) | (waited ? kWaiters : 0);
      if (replace(word, seen, mine)) return 0;
      continue;
    }
    if (!is_thread(owner)) {  // unless the owner has released the futex and ended meanwhile
      const uint32_t again = __atomic_load_n(word, __ATOMIC_SEQ_CST);
      if (again == seen) return kNoSuchProcess;
      seen = again;
      continue;
    }
    *due = seen | kWaiters;
    if ((seen & kWaiters) != 0 || replace(word, seen, seen | kWaiters)) return kWouldBlock;
  }
}

// FUTEX_LOCK_PI's timeout is absolute, of the wall clock; FUTEX_LOCK_PI2's clock depends on its flag.
long wait_for(uint32_t* word, uint32_t due, const SystemCall& c) {
  const bool wall = (c.a[1] & FUTEX_CMD_MASK) == FUTEX_LOCK_PI || (c.a[1] & FUTEX_CLOCK_REALTIME) != 0;
  const SystemCall wait{
      __NR_futex,
      {as_word(word), FUTEX_WAIT_BITSET | (c.a[1] & FUTEX_PRIVATE_FLAG) | (wall ? FUTEX_CLOCK_REALTIME : 0),
       static_cast<long>(due), c.a[3], 0, static_cast<long>(FUTEX_BITSET_MATCH_ANY)}};
  return c.a[3] != 0 ? futex_wait(wait) : pass_on(wait);
}

// Whether the timeout is one that the kernel refuses before any other check.
bool has_bad_time(const SystemCall& c) {
  TimeSpec given;
  return c.a[3] != 0 && (!copy_in(&given, c.a[3]) || !is_valid(given));
}

long lock(const SystemCall& c) {
  constexpr long kTimedOut = -110;
  if (has_bad_time(c)) return pass_on(c);
  auto* word = reinterpret_cast<uint32_t*>(c.a[0]);
  for (bool waited = false;; waited = true) {
    uint32_t due = 0;
    const long result = take(word, waited, &due);
    if (result != kWouldBlock) return result;
    const long woken = wait_for(word, due, c);
    if (woken == kTimedOut || woken == kBadAddress || woken == kInvalid) return woken;
  }
}

long unlock(const SystemCall& c) {
  auto* word = reinterpret_cast<uint32_t*>(c.a[0]);
  if ((__atomic_load_n(word, __ATOMIC_SEQ_CST) & kOwner) !=
      static_cast<uint32_t>(seam::current_thread()->virtual_tid))
    return kNotPermitted;
  __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
  raw(__NR_futex, c.a[0], FUTEX_WAKE | (c.a[1] & FUTEX_PRIVATE_FLAG), 1);
  return 0;
}

void let_go(uint64_t address, bool inherits, uint32_t own) {
  auto* word = reinterpret_cast<uint32_t*>(address);
  if ((address & 3) != 0 || !can_be_written(word, sizeof *word)) return;
  for (uint32_t seen = __atomic_load_n(word, __ATOMIC_SEQ_CST); (seen & kOwner) == own;) {
    if (!replace(word, seen, (seen & kWaiters) | kOwnerDied)) continue;
    if ((seen & kWaiters) != 0 || inherits) raw(__NR_futex, static_cast<long>(address), FUTEX_WAKE, 1);
    return;
  }
}

}  // namespace

bool futex_has_owner(long command) {
  command &= FUTEX_CMD_MASK;
  return command == FUTEX_LOCK_PI || command == 13 /* FUTEX_LOCK_PI2 */ || command == FUTEX_TRYLOCK_PI ||
         command == FUTEX_UNLOCK_PI;
}

bool futex_requeues(long command) {
  command &= FUTEX_CMD_MASK;
  return command == FUTEX_CMP_REQUEUE_PI || command == FUTEX_WAIT_REQUEUE_PI;
}

// The kernel gives the futex to a waiter, under the kernel's thread id. No current C library uses these.
long requeue_call(const SystemCall& c) {
  const bool waits = (c.a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_REQUEUE_PI;
  uint32_t word;
  const bool refused_anyhow =
      (waits && (has_bad_time(c) || !copy_in(&word, c.a[0]) || word != static_cast<uint32_t>(c.a[2]))) ||
      !can_be_written(reinterpret_cast<const void*>(c.a[4] & ~3l), sizeof(uint32_t));
  if (is_child() || refused_anyhow) return pass_on(c);
  if (seam::control()->restarted != 0) {
    say_once(kNoRequeue,
             "cropdl: the program uses FUTEX_WAIT_REQUEUE_PI or FUTEX_CMP_REQUEUE_PI after a restart, where "
             "it is told ENOSYS\n");
    return kNoSuchCall;
  }
  if (!waits) return pass_on(c);
  __atomic_fetch_add(&seam::state()->requeue_waits, 1, __ATOMIC_RELAXED);
  const long result = c.a[3] != 0 ? futex_wait(c) : pass_on(c);
  __atomic_fetch_sub(&seam::state()->requeue_waits, 1, __ATOMIC_RELAXED);
  return result;
}

long owned_futex(const SystemCall& c) {
  const auto* word = reinterpret_cast<const void*>(c.a[0]);
  if ((c.a[0] & 3) != 0 || !can_be_written(word, sizeof(uint32_t)))
    return pass_on(c);  // the kernel refuses it
  const long command = c.a[1] & FUTEX_CMD_MASK;
  if (command == FUTEX_UNLOCK_PI) return unlock(c);
  if (command != FUTEX_TRYLOCK_PI) return lock(c);
  uint32_t due = 0;
  return take(reinterpret_cast<uint32_t*>(c.a[0]), false, &due);
}

void release_held_futexes(seam::ThreadRecord* t) {
  constexpr int kLimit = 2048;  // ROBUST_LIST_LIMIT
  const auto own = static_cast<uint32_t>(t->virtual_tid);
  raw(__NR_get_robust_list, 0, as_word(&t->robust_list), as_word(&t->robust_size));
  robust_list_head head;  // a pointer's lowest bit marks priority inheritance
  // Else the kernel would walk the list, too, and take another thread's new lock for one of this thread,
  // whose number there it may have.
  raw(__NR_set_robust_list, 0, sizeof head);
  if (t->robust_list == 0 || !copy_in(&head, static_cast<long>(t->robust_list))) return;
  const uint64_t last = reinterpret_cast<uint64_t>(head.list_op_pending), pending = last & ~1ull;
  auto entry = reinterpret_cast<uint64_t>(head.list.next);
  for (int i = 0; i < kLimit && (entry & ~1ull) != t->robust_list; ++i) {
    const uint64_t at = entry & ~1ull;
    const bool inherits = (entry & 1) != 0;
    uint64_t next;
    // Read before let_go(): then another thread may reuse the mutex's memory.
    const bool readable = copy_in(&next, static_cast<long>(at));
    if (at != pending) let_go(at + static_cast<uint64_t>(head.futex_offset), inherits, own);
    if (!readable) break;
    entry = next;
  }
  if (pending != 0) let_go(pending + static_cast<uint64_t>(head.futex_offset), (last & 1) != 0, own);
}

}  // namespace cropdl::upper
