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

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "interpose/lower/thread_order.h"
#include "interpose/mpi/lower/counting.h"
#include "interpose/seam/state.h"

namespace cropdl::mpi {
namespace {

// A held thread looks again, and lets the MPI move other ranks' messages, this often: short against the
// agreement's round trips, long enough to leave the core to others.
constexpr long kNapNanoseconds = 50'000;

handles::SpinLock hold_lock;  // guards the targets, and undoing a count against reading it
std::unordered_map<uint64_t, uint64_t> targets;

// Calls that communicate among processes of which no one communicator tells (a meeting of two groups'
// leaders, of some members of a communicator) have an identity of their own, and are counted in this process
// only, while a hold lasts. Nobody leaves one before all have begun, so they need not be listed but while a
// thread is inside one or held there; that their counts differ between ranks costs a raise of targets.
std::unordered_map<uint64_t, uint64_t> meetings;  // under hold_lock

void nap() {
  progress_once();
  const timespec t{0, kNapNanoseconds};
  nanosleep(&t, nullptr);
}

// Announced while a hold is active: true if the targets allow it, else the announcement has been taken back.
// `begun` counts what was announced.
bool allowed(uint64_t gid, uint64_t begun) {
  const auto target = targets.find(gid);
  const bool yes = !collective_hold.wanted.load(std::memory_order_relaxed) ||
                   (target != targets.end() && begun <= target->second);
  if (!yes) stand_inside(0);
  stand_held(yes ? 0 : gid);
  return yes;
}

bool allowed(CommRecord* c) {
  handles::SpinGuard guard(hold_lock);
  if (allowed(c->counted, c->begun)) return true;
  count_collective(c, ~uint64_t{0});
  return false;
}

bool meeting_allowed(uint64_t gid) {
  handles::SpinGuard guard(hold_lock);
  const auto met = meetings.find(gid);
  const uint64_t begun = (met == meetings.end() ? 0 : met->second) + 1;
  if (!allowed(gid, begun)) return false;
  if (collective_hold.wanted.load(std::memory_order_relaxed)) meetings[gid] = begun;
  return true;
}

// False: the thread must leave the LH, in which it is then not held.
bool keep_waiting() {
  if (stop_wanted()) {
    handles::SpinGuard guard(hold_lock);
    stand_held(0);
    return false;
  }
  nap();
  return true;
}

// The records of all threads there ever were: one that has ended is inside of nothing.
template <class F>
void each_thread(F look) {
  const auto* s = seam::state();
  for (uint32_t i = 0; i < s->threads_high || i == 0; ++i) look(s->threads[i]);
}

}  // namespace

CollectiveHold collective_hold;

// Before there is a second thread: from then on the kernel waits for RCU, 5 to 25 ms
// (sync_runqueues_membarrier_state, kernel/sched/membarrier.c).
__attribute__((constructor)) static void register_for_membarrier() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

bool begin_held(Vid comm) {
  CommRecord* c = comm_record(comm);
  while (!allowed(c)) {
    if (!keep_waiting()) return false;
    announce_collective(c);
  }
  return true;
}

bool begin_held_meeting(uint64_t gid) {
  while (!meeting_allowed(gid)) {
    if (!keep_waiting()) return false;
    stand_inside(gid);
  }
  return true;
}

bool begin_collective_or_meeting(Vid comm, uint64_t identity) {
  const CommRecord* c = comm_record(comm);
  return c && c->counted ? begin_collective(comm) : begin_meeting(identity);
}

void hold_collectives() {
  {
    handles::SpinGuard guard(hold_lock);
    if (collective_hold.wanted) return;
    targets.clear();
    meetings.clear();
    collective_hold.wanted = true;
  }
  lower::order_all_threads();
}

void set_collective_targets(std::span<const coord::CollectiveCount> wanted_targets) {
  handles::SpinGuard guard(hold_lock);
  targets.clear();
  for (const coord::CollectiveCount& t : wanted_targets) targets[t.comm] = t.begun;
}

// Threads that are held notice by themselves.
void release_collectives() {
  handles::SpinGuard guard(hold_lock);
  collective_hold.wanted = false;
  targets.clear();
}

namespace {

std::vector<coord::CollectiveCount> counts_of_comms() {
  handles::SpinGuard guard(structure_lock);
  std::vector<coord::CollectiveCount> counts;
  for (uint64_t at = state->comms; at;) {
    const CommRecord* c = reinterpret_cast<const CommRecord*>(at);
    if (c->counted) counts.push_back({c->counted, c->begun});
    at = c->next;
  }
  return counts;
}

bool contains(const std::vector<uint64_t>& all, uint64_t one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// A count beyond its target is an announcement about to be taken back: that collective will not begin. A
// thread announces what it is inside of or has just been held at. Under hold_lock.
void take_back(coord::Standing& s) {
  for (coord::CollectiveCount& c : s.counts) {
    if (!contains(s.inside, c.comm) && !contains(s.held, c.comm)) continue;
    const auto target = targets.find(c.comm);
    if (target == targets.end() || c.begun <= target->second) continue;
    c.begun = target->second;
    std::erase(s.inside, c.comm);
    if (!contains(s.held, c.comm)) s.held.push_back(c.comm);
  }
}

void add_meetings(coord::Standing& s) {
  for (const uint64_t gid : s.inside) {
    if ((gid & kMeeting) == 0) continue;
    uint64_t& met = meetings[gid];
    met = std::max<uint64_t>(met, 1);  // it may have begun before the hold
    s.counts.push_back({gid, met});
  }
  for (const uint64_t gid : s.held) {
    if ((gid & kMeeting) == 0 || contains(s.inside, gid)) continue;
    const auto met = meetings.find(gid);
    s.counts.push_back({gid, met == meetings.end() ? 0 : met->second});
  }
}

}  // namespace

// Counts before the threads: a collective that begins in between is then seen as short of its target, not as
// nowhere. And again after them: a collective that makes a communicator may have ended in between, and the
// rank would seem to be short of nothing while another member has begun a collective on the new one.
void fill_collectives(coord::Standing& standing) {
  constexpr int kLooks = 4;
  bool same = false;
  for (int i = 0; i < kLooks && !same; ++i) {
    standing.counts = counts_of_comms();
    standing.inside.clear();
    standing.held.clear();
    const std::vector<coord::CollectiveCount> before = standing.counts;
    {
      handles::SpinGuard guard(hold_lock);
      each_thread([&](const seam::ThreadRecord& t) {
        if (const uint64_t gid = t.inside; gid != 0 && !contains(standing.inside, gid))
          standing.inside.push_back(gid);
        if (const uint64_t gid = t.held; gid != 0 && !contains(standing.held, gid))
          standing.held.push_back(gid);
      });
      add_meetings(standing);
      take_back(standing);
    }
    same = counts_of_comms() == before;
  }
  // It changes all the time: no cut is made by this report.
  if (!same && standing.inside.empty()) standing.inside.push_back(kWorldGid);
}

}  // namespace cropdl::mpi
