// Holds counted calls at the targets of the agreement. LH, LH FS base. The program's threads begin and end
// calls; the agent's thread sets the hold and reads the counts. The program's path needs no fence: a thread
// announces a call (inside, begun), then reads the hold flag; the agent sets the flag, makes every thread
// pass a barrier (membarrier), then reads the announcements. So at least one of the two sees the other.
#include "interpose/counting/agreement.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "base/caught.h"
#include "base/time.h"
#include "coord/event.h"
#include "interpose/counting/counting.h"
#include "interpose/handles/spin_lock.h"
#include "interpose/seam/state.h"

namespace cropdl::counting {
namespace {

// After it a held thread looks again and lets the libraries move other ranks' messages: short against the
// agreement's round trips, long enough to leave the core to others.
constexpr long kNapNanoseconds = 50'000;

// Guards the targets, and orders undoing a count against reading it.
handles::SpinLock hold_lock;
using Targets = std::unordered_map<uint64_t, uint64_t>;
Targets targets;
std::atomic<const Source*> held_for;  // the source of the last hold
std::atomic<int64_t> hold_began;      // 0: no hold
std::atomic<int> agent_event = -1;    // see set_agent_event()

// Subgroup calls, among processes that share no record (the leaders of two groups, the makers of a
// communicator), have identities of their own. No member leaves one before all have begun it, so it is listed
// only while a thread is inside it or held before it. It is not counted across ranks: a member may have left,
// before its own hold, the call that another is seen inside of. So its target is no count: a raised target
// lets in the threads held before it at that time; later threads wait for the next raise.
//
// Threads let in that have not begun yet. Under hold_lock.
std::unordered_map<const seam::ThreadRecord*, uint64_t> let_in;
// For a held thread, the calls that it would begin together. Under hold_lock.
std::unordered_map<const seam::ThreadRecord*, std::vector<coord::HeldCalls>> held_together;
bool told = false;  // targets were set in this hold; under hold_lock
// Threads that are held now, since when one is, and how long one was before, in this hold. Under hold_lock.
uint32_t held_threads = 0;
int64_t held_from = 0, held_before = 0;

// The call before which this thread is held; 0: none. Under hold_lock.
void note_held(uint64_t identity) {
  const bool was_held = seam::current_thread()->held != 0, is_held = identity != 0;
  stand_held(identity);
  if (is_held && !was_held && held_threads++ == 0) held_from = monotonic_us();
  if (was_held && !is_held && --held_threads == 0) held_before += monotonic_us() - held_from;
}

// With no lock held: a system call. Without an event the agent looks later.
void wake_agent() { coord::signal_event(agent_event); }

// Decides on a call announced during a hold. If it may not begin, its announcement is taken back.
bool begin_if(bool allowed, uint64_t identity) {
  const bool yes = allowed || !hold_flag.wanted.load(std::memory_order_relaxed);
  if (!yes) stand_inside(0);
  note_held(yes ? 0 : identity);
  return yes;
}

uint64_t target_in(const Targets& all, uint64_t identity) {
  const auto found = all.find(identity);
  return found == all.end() ? 0 : found->second;
}

bool within_target(const Record* r, uint64_t more) {
  return r->begun + more <= target_in(targets, r->identity);
}

// kLast: a target of the call admits no further one; its end may be what the cut waits for.
enum class Answer { kHeld, kBegun, kLast };

// Of a call that has begun. Under hold_lock.
Answer answer_for(const Record* r) {
  return r->begun == target_in(targets, r->identity) ? Answer::kLast : Answer::kBegun;
}

void announce_parts(std::span<const Part> parts, seam::LibraryNumber library) {
  stand_inside(several_of(library));
  for (const Part& p : parts) add(&p.record->begun, p.times, true);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

// Counts under the lock, so nothing is ever undone but the announcement that met the hold.
Answer ask_for_parts(std::span<const Part> parts, seam::LibraryNumber library, bool announced) {
  handles::SpinGuard guard(hold_lock);
  const auto beyond = std::find_if(parts.begin(), parts.end(), [&](const Part& p) {
    return !within_target(p.record, announced ? 0 : p.times);
  });
  if (beyond == parts.end() || !hold_flag.wanted.load(std::memory_order_relaxed)) {
    if (!announced) announce_parts(parts, library);
    held_together.erase(seam::current_thread());
    note_held(0);
    const bool is_last =
        std::ranges::any_of(parts, [](const Part& p) { return answer_for(p.record) == Answer::kLast; });
    return is_last ? Answer::kLast : Answer::kBegun;
  }
  if (announced) undo(parts);
  stand_inside(0);
  note_held(beyond->record->identity);
  // A thread without memory for the list is held all the same, perhaps until the attempt's bound.
  const Status listed = caught([&] {
    auto& all = held_together[seam::current_thread()];
    all.clear();
    for (const Part& p : parts) all.push_back({p.record->identity, p.record->begun + p.times});
  });
  if (!listed) held_together.erase(seam::current_thread());
  return Answer::kHeld;
}

// Returns false if the thread must leave the LH; it then counts as held nowhere.
bool keep_waiting(uint64_t identity) {
  if (stop_wanted()) {
    handles::SpinGuard guard(hold_lock);
    let_in.erase(seam::current_thread());
    held_together.erase(seam::current_thread());
    note_held(0);
    return false;
  }
  const auto library = static_cast<seam::LibraryNumber>(identity >> 56 & 0x7f);
  if (const Source* source = held_for.load()) source->drive(library);
  const timespec nap{0, kNapNanoseconds};
  nanosleep(&nap, nullptr);
  return true;
}

// `ask` is called until the call may begin, with true the first time. Returns false as keep_waiting() does.
template <class Ask>
bool wait_to_begin(uint64_t identity, const Ask& ask) {
  Answer answer = ask(true);
  if (answer == Answer::kHeld && !stop_wanted()) wake_agent();
  while (answer == Answer::kHeld) {
    if (!keep_waiting(identity)) return false;
    answer = ask(false);
  }
  if (answer == Answer::kLast) wake_agent();
  return true;
}

uint64_t target_of(uint64_t identity) {
  handles::SpinGuard guard(hold_lock);
  return target_in(targets, identity);
}

// Calls `look` for the records of all threads that ever existed; an ended thread is inside of nothing.
template <class F>
void each_thread(F look) {
  const auto* s = seam::state();
  for (uint32_t i = 0; i < s->threads_high || i == 0; ++i) look(s->threads[i]);
}

}  // namespace

Hold hold_flag;

void order_all_threads() {
  // If not registered, or the kernel lacks it: the slow form orders all threads of the machine.
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

// Registers before a second thread exists. Later, the kernel waits for RCU, 5 to 25 ms
// (sync_runqueues_membarrier_state, kernel/sched/membarrier.c).
__attribute__((constructor)) static void register_for_membarrier() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

bool begin_held(Record* r) {
  return wait_to_begin(r->identity, [r](bool announced) {
    if (!announced) announce(r, true);
    handles::SpinGuard guard(hold_lock);
    if (begin_if(within_target(r, 0), r->identity)) return answer_for(r);
    add(&r->begun, ~uint64_t{0}, true);
    return Answer::kHeld;
  });
}

bool begin_held_subgroup_call(uint64_t identity) {
  return wait_to_begin(identity, [identity](bool announced) {
    if (!announced) stand_inside(identity);
    handles::SpinGuard guard(hold_lock);
    const auto mine = let_in.find(seam::current_thread());
    const bool allowed = mine != let_in.end() && mine->second == identity;
    if (allowed) let_in.erase(mine);
    return begin_if(allowed, identity) ? Answer::kLast : Answer::kHeld;
  });
}

bool begin_parts(std::span<const Part> parts, seam::LibraryNumber library) {
  announce_parts(parts, library);
  if (!held_back()) return true;
  return wait_to_begin(several_of(library),
                       [&](bool announced) { return ask_for_parts(parts, library, announced); });
}

void hold(const Source& source) {
  held_for = &source;
  hold_began = monotonic_us();
  {
    handles::SpinGuard guard(hold_lock);
    targets.clear();
    let_in.clear();
    told = false;
    held_from = hold_began;
    held_before = 0;
    if (hold_flag.wanted) return;
    hold_flag.wanted = true;
  }
  order_all_threads();
}

void set_targets(std::span<const coord::CollectiveCount> wanted) {
  handles::SpinGuard guard(hold_lock);
  const auto before = std::exchange(targets, {});
  for (const coord::CollectiveCount& t : wanted) targets[t.comm] = t.begun;
  told = true;
  each_thread([&](const seam::ThreadRecord& t) {
    if (const uint64_t identity = t.held;
        (identity & kSubgroupCall) != 0 && target_in(targets, identity) > target_in(before, identity))
      let_in[&t] = identity;
  });
}

// Held threads notice the release by themselves.
void release() {
  handles::SpinGuard guard(hold_lock);
  hold_flag.wanted = false;
  hold_began = 0;
  targets.clear();
  let_in.clear();
  told = false;
}

void set_agent_event(int descriptor) { agent_event = descriptor; }

int64_t held_since() { return hold_began; }

int64_t waited() {
  handles::SpinGuard guard(hold_lock);
  return held_before + (held_threads != 0 ? monotonic_us() - held_from : 0);
}

namespace {

std::vector<coord::CollectiveCount> counts_of(const Source& source) {
  std::vector<coord::CollectiveCount> counts;
  source.add_counts(counts, target_of);
  return counts;
}

bool contains(const std::vector<uint64_t>& all, uint64_t one) {
  return std::ranges::find(all, one) != all.end();
}

bool is_held(const coord::RankStatus& s, uint64_t identity) {
  return std::ranges::find(s.held, identity, &coord::HeldCalls::comm) != s.held.end();
}

// In place of HeldCalls::wanted, until the counts are known: the count and one call.
constexpr uint64_t kOneMore = 0;

void add_held(coord::RankStatus& s, const coord::HeldCalls& calls) {
  const auto at = std::ranges::find(s.held, calls.comm, &coord::HeldCalls::comm);
  if (at == s.held.end())
    s.held.push_back(calls);
  else
    at->wanted = std::max(at->wanted, calls.wanted);
}

// A count beyond its target is an announcement about to be taken back: the call will not begin. A thread
// announces the call that it is inside of or was just held before. (For calls that begin together it
// announces several_of(), and the report proves nothing until it has taken them back.) Under hold_lock.
void take_back(coord::RankStatus& s) {
  for (coord::CollectiveCount& c : s.counts) {
    if (!contains(s.inside, c.comm) && !is_held(s, c.comm)) continue;
    const uint64_t target = target_in(targets, c.comm);
    if (!told || c.begun <= target) continue;
    c.begun = target;
    std::erase(s.inside, c.comm);
    add_held(s, {c.comm, kOneMore});
  }
}

// A rank with a thread that has been let in is reported one short of its target.
void add_subgroup_calls(coord::RankStatus& s) {
  std::unordered_map<uint64_t, uint64_t> at;
  const auto list = [&](uint64_t identity) {
    if ((identity & kSubgroupCall) != 0) at[identity] = target_in(targets, identity);
  };
  for (const uint64_t identity : s.inside) list(identity);
  for (const coord::HeldCalls& held : s.held) list(held.comm);
  for (const auto& [thread, identity] : let_in) at[identity] = target_in(targets, identity) - 1;
  for (const auto& [identity, begun] : at) s.counts.push_back({identity, begun});
}

// Under hold_lock.
void add_threads(coord::RankStatus& s) {
  each_thread([&](const seam::ThreadRecord& t) {
    const uint64_t inside = t.inside, held = t.held;
    if (held != 0) add_held(s, {held, kOneMore});
    // A thread held before a subgroup call only checks whether it may begin; once it begins, it is no longer
    // held. (A collective is already counted then; take_back sees that by the count.)
    if (inside == 0 || ((inside & kSubgroupCall) != 0 && held != 0)) return;
    if (!contains(s.inside, inside)) s.inside.push_back(inside);
  });
  for (const auto& [thread, all] : held_together)
    for (const coord::HeldCalls& calls : all) add_held(s, calls);
}

}  // namespace

// Reads the counts before the threads, so that a call that begins in between is seen as short of its target,
// not as absent. And again after them: a call that makes a communicator may have ended in between, and the
// rank would seem short of nothing although another member has begun a call on the new communicator.
void fill(const Source& source, coord::RankStatus& status) {
  constexpr int kLooks = 4;
  bool same = false;
  for (int i = 0; i < kLooks && !same; ++i) {
    status.counts = counts_of(source);
    status.inside.clear();
    status.held.clear();
    const std::vector<coord::CollectiveCount> before = status.counts;
    {
      handles::SpinGuard guard(hold_lock);
      add_threads(status);
      add_subgroup_calls(status);
      take_back(status);
    }
    for (coord::HeldCalls& held : status.held)
      if (held.wanted == kOneMore) held.wanted = begun_on(status, held.comm) + 1;
    same = counts_of(source) == before;
  }
  // The counts keep changing: this entry keeps the report from completing a cut.
  if (!same && status.inside.empty()) status.inside.push_back(several_of(seam::kLibraryMpi));
}

}  // namespace cropdl::counting
