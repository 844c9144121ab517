// Counting collectives and holding them at the agreement's targets.
//
// LH, LH FS base. The program's threads begin and end collectives; the agent's thread sets the hold and reads the
// counts. The two meet without a fence on the program's path: a thread announces (inside, begun) and then looks for a
// hold, the agent sets the hold, makes every thread pass a barrier (membarrier) and then reads the announcements, so at
// least one sees the other.
#include "interpose/mpi/lower/collectives.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "interpose/mpi/lower/counting.h"

namespace cropdl::lower {
namespace {

// A held thread looks again, and lets the MPI move other ranks' messages, this often: short against the agreement's
// round trips, long enough to leave the core to others.
constexpr long kNapNanoseconds = 50'000;

handles::SpinLock hold_lock;   // guards the targets, and undoing a count against reading it
std::vector<coord::CollectiveCount> targets;

void nap() {
  progress_once();
  const timespec t{0, kNapNanoseconds};
  nanosleep(&t, nullptr);
}

// Announced while a hold is active: true if the targets allow it, else the announcement has been taken back.
bool allowed(CommRecord* c) {
  handles::SpinGuard guard(hold_lock);
  bool ok = !collectives.hold.load(std::memory_order_relaxed);
  for (const coord::CollectiveCount& t : targets) ok = ok || (t.comm == c->counted && c->begun <= t.begun);
  if (ok) {
    collectives.held.store(0, std::memory_order_relaxed);
    return true;
  }
  count_collective(c, ~uint64_t{0});
  collectives.inside.store(0, std::memory_order_relaxed);
  collectives.held.store(c->counted, std::memory_order_relaxed);
  return false;
}

void order_all_threads() {
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
    // Not registered, or a kernel without it: the slow form orders all threads of the machine.
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
  }
}

}  // namespace

Collectives collectives;

void register_for_membarrier() { syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0); }

bool begin_held(Vid comm) {
  CommRecord* c = comm_record(comm);
  while (!allowed(c)) {
    if (wanted()) return false;
    nap();
    announce_collective(c);
  }
  return true;
}

bool begin_uncounted(Vid comm) {
  CommRecord* c = comm_record(comm);
  if (wanted()) return false;
  if (c && c->counted) collectives.inside.store(c->counted, std::memory_order_relaxed);
  return true;
}

void hold_collectives() {
  {
    handles::SpinGuard guard(hold_lock);
    if (collectives.hold) return;
    targets.clear();
    collectives.hold = true;
  }
  order_all_threads();
}

void set_collective_targets(std::span<const coord::CollectiveCount> wanted_targets) {
  handles::SpinGuard guard(hold_lock);
  targets.assign(wanted_targets.begin(), wanted_targets.end());
}

void release_collectives() {
  handles::SpinGuard guard(hold_lock);
  collectives.hold = false;
  targets.clear();
  collectives.held = 0;
}

void fill_collectives(coord::Standing& standing) {
  {
    handles::SpinGuard guard(structure_lock);
    for (uint64_t at = state->comms; at;) {
      const CommRecord* c = reinterpret_cast<const CommRecord*>(at);
      if (c->counted) standing.counts.push_back({c->counted, c->begun});
      at = c->next;
    }
  }
  // Counts before `inside`: a collective that begins in between is then seen as short of its target, not as nowhere.
  handles::SpinGuard guard(hold_lock);
  standing.inside = collectives.inside.load(std::memory_order_relaxed);
  standing.held = collectives.held.load(std::memory_order_relaxed);
  // A count beyond its target is an announcement about to be taken back: that collective will not begin.
  for (coord::CollectiveCount& c : standing.counts) {
    for (const coord::CollectiveCount& t : targets) {
      if (t.comm != c.comm || c.begun <= t.begun) continue;
      c.begun = t.begun;
      if (standing.inside == c.comm) standing.inside = 0;
      standing.held = c.comm;
    }
  }
}

}  // namespace cropdl::lower
