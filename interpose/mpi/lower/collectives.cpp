// Counting collectives and holding them at the agreement's targets.
//
// LH, LH FS base. The program's threads begin and end collectives; the agent's thread sets the hold and reads
// the counts. The two meet without a fence on the program's path: a thread announces (inside, begun) and then
// looks for a hold, the agent sets the hold, makes every thread pass a barrier (membarrier) and then reads
// the announcements, so at least one sees the other.
#include "interpose/mpi/lower/collectives.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <unordered_map>

#include "interpose/mpi/lower/counting.h"

namespace cropdl::mpi {
namespace {

// A held thread looks again, and lets the MPI move other ranks' messages, this often: short against the
// agreement's round trips, long enough to leave the core to others.
constexpr long kNapNanoseconds = 50'000;

handles::SpinLock hold_lock;  // guards the targets, and undoing a count against reading it
std::unordered_map<uint64_t, uint64_t> targets;

// Calls that communicate among processes of which no one communicator tells (a meeting of two groups'
// leaders, of some members of a communicator): counted under an identity of their own, in this process only.
// Nobody leaves one before all have begun, so counts need not be listed but while one is begun; that they
// differ between ranks which met others under the same identity costs a raise of targets. A slot is taken
// over by the next identity that falls on it.
constexpr uint64_t kMeeting = uint64_t{1} << 63;  // no communicator's gid has this bit
std::array<CommRecord, 64> meetings;

CommRecord* meeting_of(uint64_t gid) {
  CommRecord& m = meetings[gid % meetings.size()];
  if (m.counted != gid) {
    m.begun = 0;
    m.counted = gid;
  }
  return &m;
}

void nap() {
  progress_once();
  const timespec t{0, kNapNanoseconds};
  nanosleep(&t, nullptr);
}

// Announced while a hold is active: true if the targets allow it, else the announcement has been taken back.
bool allowed(CommRecord* c) {
  handles::SpinGuard guard(hold_lock);
  const auto target = targets.find(c->counted);
  if (!collectives.hold.load(std::memory_order_relaxed) ||
      (target != targets.end() && c->begun <= target->second)) {
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

// Before there is a second thread: from then on the kernel waits for RCU, 5 to 25 ms
// (sync_runqueues_membarrier_state, kernel/sched/membarrier.c).
__attribute__((constructor)) static void register_for_membarrier() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

namespace {

bool begin_held(CommRecord* c) {
  while (!allowed(c)) {
    if (wanted()) return false;
    nap();
    announce_collective(c);
  }
  return true;
}

}  // namespace

bool begin_held(Vid comm) { return begin_held(comm_record(comm)); }

bool begin_meeting(uint64_t identity) {
  CommRecord* m = meeting_of(kMeeting | identity);
  announce_collective(m);
  return !collectives.hold.load(std::memory_order_relaxed) || begin_held(m);
}

bool begin_collective_or_meeting(Vid comm, uint64_t identity) {
  const CommRecord* c = comm_record(comm);
  return c && c->counted ? begin_collective(comm) : begin_meeting(identity);
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
  targets.clear();
  for (const coord::CollectiveCount& t : wanted_targets) targets[t.comm] = t.begun;
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
  // Counts before `inside`: a collective that begins in between is then seen as short of its target, not as
  // nowhere.
  handles::SpinGuard guard(hold_lock);
  standing.inside = collectives.inside.load(std::memory_order_relaxed);
  standing.held = collectives.held.load(std::memory_order_relaxed);
  for (const uint64_t gid : {standing.inside, standing.held}) {
    const CommRecord& m = meetings[gid % meetings.size()];
    if (gid & kMeeting && m.counted == gid) standing.counts.push_back({gid, m.begun});
    if (standing.inside == standing.held) break;
  }
  // A count beyond its target is an announcement about to be taken back: that collective will not begin. One
  // thread announces what it is inside of or has just been held at; only several make it worth to look at
  // every count.
  const uint64_t inside = standing.inside, held = standing.held;
  for (coord::CollectiveCount& c : standing.counts) {
    if (!multiple && c.comm != inside && c.comm != held) continue;
    const auto target = targets.find(c.comm);
    if (target == targets.end() || c.begun <= target->second) continue;
    c.begun = target->second;
    if (standing.inside == c.comm) standing.inside = 0;
    standing.held = c.comm;
  }
}

}  // namespace cropdl::mpi
