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
#include <utility>

#include "interpose/lower/thread_order.h"
#include "interpose/mpi/lower/counting.h"
#include "interpose/seam/state.h"

namespace cropdl::mpi {
namespace {

// A held thread looks again, and lets the MPI move other ranks' messages, this often: short against the
// agreement's round trips, long enough to leave the core to others.
constexpr long kNapNanoseconds = 50'000;

handles::SpinLock hold_lock;  // guards the targets, and undoing a count against reading it
using Targets = std::unordered_map<uint64_t, uint64_t>;
Targets targets;

// Calls that communicate among processes of which no one communicator tells (a meeting of two groups'
// leaders, of some members of a communicator) have an identity of their own. Nobody leaves one before all
// have begun, so they need not be listed but while a thread is inside one or held there. Nobody counts them
// across ranks: a member may have left, before its own hold, the one that another is seen inside of. So
// their targets are no counts: a higher one lets in the threads that are held there when it comes, and who
// comes later waits for a raise.
std::unordered_map<const seam::ThreadRecord*, uint64_t> let_in;  // and have not begun yet; under hold_lock
bool told = false;                                               // targets, in this hold; likewise

void nap() {
  progress_once();
  const timespec t{0, kNapNanoseconds};
  nanosleep(&t, nullptr);
}

// Of what a thread announced while a hold is active: if it may not begin, the announcement is taken back.
bool begin_if(bool allowed, uint64_t gid) {
  const bool yes = allowed || !collective_hold.wanted.load(std::memory_order_relaxed);
  if (!yes) stand_inside(0);
  stand_held(yes ? 0 : gid);
  return yes;
}

bool collective_allowed(CommRecord* c) {
  handles::SpinGuard guard(hold_lock);
  const auto target = targets.find(c->counted);
  if (begin_if(target != targets.end() && c->begun <= target->second, c->counted)) return true;
  count_collective(c, ~uint64_t{0});
  return false;
}

bool meeting_allowed(uint64_t gid) {
  handles::SpinGuard guard(hold_lock);
  const auto mine = let_in.find(seam::current_thread());
  const bool allowed = mine != let_in.end() && mine->second == gid;
  if (allowed) let_in.erase(mine);
  return begin_if(allowed, gid);
}

// False: the thread must leave the LH, in which it is then not held.
bool keep_waiting() {
  if (stop_wanted()) {
    handles::SpinGuard guard(hold_lock);
    let_in.erase(seam::current_thread());
    stand_held(0);
    return false;
  }
  nap();
  return true;
}

uint64_t target_in(const Targets& all, uint64_t gid) {
  const auto found = all.find(gid);
  return found == all.end() ? 0 : found->second;
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
  while (!collective_allowed(c)) {
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
    targets.clear();
    let_in.clear();
    told = false;
    if (collective_hold.wanted) return;
    collective_hold.wanted = true;
  }
  lower::order_all_threads();
}

void set_collective_targets(std::span<const coord::CollectiveCount> wanted_targets) {
  handles::SpinGuard guard(hold_lock);
  const auto before = std::exchange(targets, {});
  for (const coord::CollectiveCount& t : wanted_targets) targets[t.comm] = t.begun;
  told = true;
  each_thread([&](const seam::ThreadRecord& t) {
    if (const uint64_t gid = t.held;
        (gid & kMeeting) != 0 && target_in(targets, gid) > target_in(before, gid))
      let_in[&t] = gid;
  });
}

// Threads that are held notice by themselves.
void release_collectives() {
  handles::SpinGuard guard(hold_lock);
  collective_hold.wanted = false;
  targets.clear();
  let_in.clear();
  told = false;
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
    const uint64_t target = target_in(targets, c.comm);
    if (!told || c.begun <= target) continue;
    c.begun = target;
    std::erase(s.inside, c.comm);
    if (!contains(s.held, c.comm)) s.held.push_back(c.comm);
  }
}

// Short of its target is a rank of which a thread has been let in.
void add_meetings(coord::Standing& s) {
  std::unordered_map<uint64_t, uint64_t> at;
  for (const auto* all : {&s.inside, &s.held})
    for (const uint64_t gid : *all)
      if ((gid & kMeeting) != 0) at[gid] = target_in(targets, gid);
  for (const auto& [thread, gid] : let_in) at[gid] = target_in(targets, gid) - 1;
  for (const auto& [gid, begun] : at) s.counts.push_back({gid, begun});
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
        const uint64_t inside = t.inside, held = t.held;
        if (held != 0 && !contains(standing.held, held)) standing.held.push_back(held);
        // A thread that is held before a meeting only looks whether it may begin: when it does, it is not
        // held any more. (A collective is counted by then, and the look is told by that: take_back.)
        if (inside == 0 || ((inside & kMeeting) != 0 && held != 0)) return;
        if (!contains(standing.inside, inside)) standing.inside.push_back(inside);
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
