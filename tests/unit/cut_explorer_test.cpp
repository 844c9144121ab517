// links: cropdl_coord
// Explores the agreement's real code over all interleavings of a few model ranks. One search covers all
// orders of program steps, message deliveries, polls and the request's moment. Time advances only when
// nothing else can happen (in some tests at any moment). Each state is checked for the conditions of every
// write and every end. A model rank runs a small script of collectives, of launches that its device performs
// later, and of blocking sends and receives.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <unordered_set>

#include "coord/cut.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace cropdl::coord {
namespace {

struct Calls {
  uint64_t comm, times;
};
struct Op {
  enum Kind {
    kCollective,
    kRooted,
    kMake,
    kSubgroupCall,
    kLaunch,
    kGroup,
    kFree,
    kEager,
    kRendezvous,
    kRecv,
    kSync,
    kCompute
  } kind;
  uint64_t arg = 0;               // communicator or peer
  uint32_t root = 0;              // for a rooted collective: the root leaves without waiting for the others
  std::vector<Calls> calls = {};  // that the agreement holds, on each communicator; empty: none
};
Op coll(uint64_t comm) { return {Op::kCollective, comm, 0, {{comm, 1}}}; }
Op rooted(uint64_t comm, uint32_t root) { return {Op::kRooted, comm, root, {{comm, 1}}}; }
// Makes communicator `made` by a collective on `comm`. (`made` is stored in `root`.)
Op make(uint64_t comm, uint32_t made) { return {Op::kMake, comm, made, {{comm, 1}}}; }
// A call that the host only launches, as NCCL's are: it is counted then, and the host goes on. The device
// performs a thread's launches in order, each when the devices of all members have come to it.
Op launch(uint64_t comm) { return {Op::kLaunch, comm, 0, {{comm, 1}}}; }
// Launches that begin together or not at all.
Op group(std::vector<Calls> calls) { return {Op::kGroup, 0, 0, std::move(calls)}; }
// Waits until the device has performed all that the thread has launched.
Op sync() { return {Op::kSync}; }
// Frees the communicator: not counted, and does not wait.
Op leave(uint64_t comm) { return {Op::kFree, comm}; }
// A call among processes that are not one communicator's members: listed only while a thread is inside or
// held there.
Op meet(uint64_t identity) { return {Op::kSubgroupCall, identity, 0, {{identity, 1}}}; }
Op eager(uint64_t to) { return {Op::kEager, to}; }
Op rendezvous(uint64_t to) { return {Op::kRendezvous, to}; }
Op recv(uint64_t from) { return {Op::kRecv, from}; }
Op compute() { return {Op::kCompute}; }

struct Program {
  std::map<uint64_t, std::vector<uint32_t>> comms;  // identity (not 0) -> members
  std::vector<std::vector<Op>> scripts;
  std::map<uint32_t, std::vector<Op>> second{};  // by rank: the script of a second thread
  // Each member predicts that an iteration ends at this call, and one later each time; the prediction may be
  // wrong.
  std::map<uint64_t, uint64_t> predicted{};
  // Communicators that count messages from one rank to another: not listed before one has begun.
  std::set<uint64_t> pairs{};
};

// Deliberate faults in the model, to show that the search finds them.
struct Faults {
  // a rank that has reached its targets parks at once, without further sends or receives
  bool park_at_targets = false;
  bool ignore_targets = false;    // a rank enters collectives although it was asked to hold
  bool no_raise = false;          // held ranks are never let through
  bool forget_a_message = false;  // draining stops one message short
  bool forget_at_once = false;    // a freed communicator's count is dropped when its own rank has freed it
  bool meet_unheld = false;       // subgroup calls ignore the hold
  bool count_meetings = false;    // targets of subgroup calls are counts, counted by each rank since its hold
  bool list_late = false;         // a communicator is listed only after the collective that made it has ended
  bool death_unnoticed = false;   // no rank learns of a rank's death
  bool one_thread_hides_another = false;  // a rank reports that it is inside only when all its threads are
  bool drain_late = false;                // a rank drains only after all its threads have stopped
  bool count_group_in_part = false;       // a held group counts those of its calls that the targets admit
  bool list_one_of_group = false;         // of a held group only the first communicator is listed, and raised
  bool list_one_call = false;             // a held group is listed as one call on each of its communicators
  bool count_after_launch = false;        // a thread counts a call after it has launched it
  bool save_while_devices_work = false;   // a drain does not wait for the device
};

constexpr size_t kRanks = 4;  // at most
constexpr size_t kComms = 5;  // at most; 0 is none
// The identity that a thread is inside of during a group: not counted.
constexpr uint64_t kSeveral = 0xff;

struct ModelThread {
  uint8_t pc = 0;
  uint8_t done = 0;      // launches that the device has performed
  bool in_call = false;  // inside a collective, a launch, a native send, or a wait for the device
  bool parked = false;
  bool let_in = false;                   // to the subgroup call before which it is held
  std::array<uint8_t, kComms> partly{};  // with the fault count_group_in_part: counted, but not begun
};

constexpr uint32_t kThreads = 2;  // of a rank, at most

struct ModelRank {  // plain bytes, copied into the state table
  std::array<ModelThread, kThreads> threads{};
  bool dead = false;
  uint8_t late = 0;     // the communicator that the fault list_late delays
  bool wanted = false;  // parks as soon as it is outside of calls
  bool holding = false;
  bool writing = false;
  bool image = false;
  bool told = false;                               // has targets
  std::array<uint8_t, kComms> begun{}, targets{};  // by communicator
  std::array<uint8_t, kComms> met{};               // subgroup calls entered since the hold
  std::array<bool, kComms> made{};       // listed; communicators that no script makes exist from the start
  std::array<bool, kComms> forgotten{};  // freed, and known to be freed by all members
  std::array<uint8_t, kRanks> sent{}, received{}, expected{};  // by peer
  std::array<uint8_t, kRanks> stored{};                        // drained but not yet received by the program
};

struct World {
  const Program* program;
  Faults faults;
  std::vector<ModelRank> ranks;
  Coordinator coordinator;
  std::vector<Participant> participants;
  std::vector<std::vector<Order>> down;
  std::vector<std::vector<Report>> up;
  int64_t now = 0;
  bool requested = false;
  bool begin_asked = false;
  bool published = false;
  bool finished = false;
  bool gave_up = false;
  int early_ticks = 0;
  std::vector<bool> told_of_death;  // which coordinators know of the death

  World(const Program& p, const Faults& f, const CutLimits& limits)
      : program(&p),
        faults(f),
        ranks(p.scripts.size()),
        coordinator(static_cast<uint32_t>(p.scripts.size()), limits),
        participants(p.scripts.size()),
        down(p.scripts.size()),
        up(p.scripts.size()),
        told_of_death(p.scripts.size()) {
    Actions none;
    for (uint32_t r = 0; r < ranks.size(); ++r) coordinator.joined(r, 0, &none);
    for (ModelRank& m : ranks) m.made.fill(true);
    for (uint32_t r = 0; r < ranks.size(); ++r)
      for (const Op& o : program->scripts[r])
        if (o.kind == Op::kMake) ranks[r].made[o.root] = false;
  }

  const std::vector<Op>& script(uint32_t r, uint32_t t) const {
    static const std::vector<Op> none;
    if (t == 0) return program->scripts[r];
    const auto second = program->second.find(r);
    return second == program->second.end() ? none : second->second;
  }
  const Op* op(uint32_t r, uint32_t t) const {
    const auto& all = script(r, t);
    const uint8_t pc = ranks[r].threads[t].pc;
    return pc < all.size() ? &all[pc] : nullptr;
  }
  bool program_over(uint32_t r) const { return op(r, 0) == nullptr && op(r, 1) == nullptr; }
  bool parked(uint32_t r) const { return ranks[r].threads[0].parked && ranks[r].threads[1].parked; }
  bool member(uint32_t r, uint64_t comm) const {
    const auto c = program->comms.find(comm);
    return c != program->comms.end() && std::find(c->second.begin(), c->second.end(), r) != c->second.end();
  }
  bool meeting(uint64_t comm) const {
    for (uint32_t r = 0; r < ranks.size(); ++r)
      for (uint32_t t = 0; t < kThreads; ++t)
        for (const Op& o : script(r, t))
          if (o.kind == Op::kSubgroupCall && o.arg == comm) return true;
    return false;
  }
  bool may_begin(uint32_t r, uint32_t t, const Op& o) const {
    const ModelRank& m = ranks[r];
    const ModelThread& thread = m.threads[t];
    const bool meets = o.kind == Op::kSubgroupCall;
    if (!m.holding || faults.ignore_targets || (faults.meet_unheld && meets)) return true;
    if (meets && !faults.count_meetings) return thread.let_in;
    const auto& begun = meets ? m.met : m.begun;
    return m.told && std::ranges::all_of(o.calls, [&](const Calls& c) {
             return begun[c.comm] + c.times - thread.partly[c.comm] <= m.targets[c.comm];
           });
  }
  // The thread begins its next calls and counts them, if it may.
  bool begin(uint32_t r, uint32_t t, const Op& o) {
    ModelRank& m = ranks[r];
    ModelThread& thread = m.threads[t];
    if (faults.count_group_in_part && o.kind == Op::kGroup && m.holding) return begin_in_part(&m, &thread, o);
    if (!may_begin(r, t, o)) return false;
    if (!faults.count_after_launch || !launches(o)) count(&m, thread, o);
    thread.let_in = false;
    return thread.in_call = true;
  }
  static void count(ModelRank* m, const ModelThread& thread, const Op& o) {
    for (const Calls& c : o.calls) {
      m->begun[c.comm] = static_cast<uint8_t>(m->begun[c.comm] + c.times - thread.partly[c.comm]);
      if (m->holding) ++m->met[c.comm];
    }
  }
  static bool begin_in_part(ModelRank* m, ModelThread* thread, const Op& o) {
    bool all = true, some = false;
    for (const Calls& c : o.calls) {
      for (; thread->partly[c.comm] < c.times && m->told && m->begun[c.comm] < m->targets[c.comm];
           some = true)
        ++thread->partly[c.comm], ++m->begun[c.comm];
      all = all && thread->partly[c.comm] == c.times;
    }
    thread->in_call = all;
    return some || all;
  }

  static bool launches(const Op& o) { return o.kind == Op::kLaunch || o.kind == Op::kGroup; }
  // How many launches of the thread its device has got.
  uint32_t launched(uint32_t r, uint32_t t) const {
    const ModelThread& thread = ranks[r].threads[t];
    const auto& all = script(r, t);
    const Op* const now = op(r, t);
    const bool at_once = faults.count_after_launch && thread.in_call && now != nullptr && launches(*now);
    return static_cast<uint32_t>(std::count_if(all.begin(), all.begin() + thread.pc, launches)) + at_once;
  }
  // The launch that the device performs now for the thread; null: none.
  const Op* work(uint32_t r, uint32_t t) const {
    uint32_t n = ranks[r].threads[t].done;
    if (n >= launched(r, t)) return nullptr;
    for (const Op& o : script(r, t))
      if (launches(o) && n-- == 0) return &o;
    return nullptr;
  }
  bool device_idle(uint32_t r) const { return work(r, 0) == nullptr && work(r, 1) == nullptr; }
  // Calls on a communicator that the rank's device has come to.
  uint64_t started(uint32_t r, uint64_t comm) const {
    uint64_t calls = 0;
    for (uint32_t t = 0; t < kThreads; ++t) {
      uint32_t n = ranks[r].threads[t].done + (work(r, t) != nullptr);
      for (const Op& o : script(r, t))
        if (launches(o) && n > 0) {
          --n;
          for (const Calls& c : o.calls) calls += c.comm == comm ? c.times : 0;
        }
    }
    return calls;
  }
  // The device ends a launch. It needs no thread of the program for that.
  bool device_step(uint32_t r, uint32_t t) {
    const Op* const o = work(r, t);
    if (o == nullptr || ranks[r].dead) return false;
    for (const Calls& c : o->calls)
      for (const uint32_t peer : program->comms.at(c.comm))
        if (started(peer, c.comm) < started(r, c.comm)) return false;
    ++ranks[r].threads[t].done;
    return true;
  }
  // Calls on a communicator that the rank has made and left.
  uint64_t made(uint32_t r, uint64_t comm) const {
    uint64_t calls = 0;
    for (uint32_t t = 0; t < kThreads; ++t)
      for (uint8_t i = 0; i < ranks[r].threads[t].pc; ++i)
        for (const Calls& c : script(r, t)[i].calls) calls += c.comm == comm ? c.times : 0;
    return calls;
  }
  bool at_targets(uint32_t r) const {
    const ModelRank& m = ranks[r];
    if (!m.holding || !m.told) return false;
    for (size_t c = 0; c < kComms; ++c)
      if (member(r, c) && m.begun[c] < m.targets[c]) return false;
    return true;
  }
  bool has_freed(uint32_t r, uint64_t comm) const {
    for (uint32_t t = 0; t < kThreads; ++t) {
      const auto& all = script(r, t);
      if (std::any_of(all.begin(), all.begin() + ranks[r].threads[t].pc,
                      [&](const Op& o) { return o.kind == Op::kFree && o.arg == comm; }))
        return true;
    }
    return false;
  }
  // Rank r learns that the communicator's barrier has completed: all members have freed it.
  bool forget(uint32_t r, uint64_t comm) {
    if (!member(r, comm) || ranks[r].forgotten[comm] || !has_freed(r, comm)) return false;
    for (const uint32_t peer : program->comms.at(comm))
      if (!has_freed(peer, comm) && !faults.forget_at_once) return false;
    return ranks[r].forgotten[comm] = true;
  }
  uint64_t under_way(uint32_t from, uint32_t to) const {
    return ranks[from].sent[to] - ranks[to].received[from] - ranks[to].stored[from];
  }

  // One step of a thread of rank r's program. Returns false if it cannot make one now.
  bool step(uint32_t r, uint32_t t) {
    ModelRank& m = ranks[r];
    ModelThread& thread = m.threads[t];
    // the second step of the fault list_late
    if (m.late != 0 && !m.made[m.late]) return m.made[m.late] = true;
    const Op* o = op(r, t);
    if (o == nullptr || thread.parked || m.dead) return false;
    if (!thread.in_call) {
      if (m.wanted) return false;
      if (faults.park_at_targets && at_targets(r)) return false;
    }
    switch (o->kind) {
      case Op::kCompute:
        return advance(thread);
      case Op::kEager:
        ++m.sent[o->arg];
        return advance(thread);
      case Op::kRendezvous: {
        ModelRank& to = ranks[o->arg];
        if (!thread.in_call) {
          ++m.sent[o->arg];
          return thread.in_call = true;
        }
        if (to.received[r] + to.stored[r] < m.sent[o->arg]) return false;
        return advance(thread);
      }
      case Op::kRecv:
        if (m.stored[o->arg] > 0)
          --m.stored[o->arg];
        else if (under_way(static_cast<uint32_t>(o->arg), r) == 0)
          return false;
        ++m.received[o->arg];
        return advance(thread);
      case Op::kFree:
        return advance(thread);
      case Op::kSync:
        if (!thread.in_call) return thread.in_call = true;
        return work(r, t) == nullptr && advance(thread);
      case Op::kLaunch:
      case Op::kGroup:
        if (!thread.in_call) return begin(r, t, *o);
        if (faults.count_after_launch) count(&m, thread, *o);
        return advance(thread);
      case Op::kCollective:
      case Op::kRooted:
      case Op::kMake:
      case Op::kSubgroupCall:
        if (!thread.in_call) return begin(r, t, *o);
        if (o->kind == Op::kMake && faults.list_late && m.late != o->root) {
          for (const uint32_t peer : program->comms.at(o->arg))
            if (ranks[peer].begun[o->arg] < m.begun[o->arg]) return false;
          m.late = static_cast<uint8_t>(o->root);
          return advance(thread);
        }
        for (const uint32_t peer : program->comms.at(o->arg)) {
          if (o->kind == Op::kRooted && (o->root == r || peer != o->root)) continue;
          if (ranks[peer].begun[o->arg] < m.begun[o->arg]) return false;
        }
        if (o->kind == Op::kMake) m.made[o->root] = true;
        return advance(thread);
    }
    return false;
  }
  static bool advance(ModelThread& thread) {
    thread.in_call = false;
    thread.partly = {};
    ++thread.pc;
    return true;
  }

  void describe(std::string* out) const {
    for (const ModelRank& m : ranks) out->append(reinterpret_cast<const char*>(&m), sizeof m);
    coordinator.describe(now, out);
    for (const Participant& p : participants) p.describe(out);
    for (const auto& q : down) {
      for (const Order& o : q) coord::describe(o, out);
      *out += '|';
    }
    for (const auto& q : up) {
      for (const Report& o : q) coord::describe(o, out);
      *out += '|';
    }
    *out += static_cast<char>('0' + requested + 2 * begin_asked + 4 * published + 8 * finished +
                              16 * gave_up + 32 * early_ticks);
    for (const bool told : told_of_death) *out += told ? '+' : '-';
  }
};

// A model rank, as the participant sees it.
class Seen : public LocalRank {
 public:
  Seen(World* w, uint32_t r) : w_(w), r_(r), m_(w->ranks[r]) {}
  void hold() override {
    m_.holding = true;
    m_.told = false;
    m_.targets = m_.met = {};
  }
  // As in interpose/counting/agreement.cpp: a higher target for a subgroup call lets in the ranks held there.
  void set_targets(const std::vector<CollectiveCount>& targets) override {
    m_.told = true;
    const auto before = m_.targets;
    m_.targets = {};
    for (const CollectiveCount& t : targets)
      m_.targets[t.comm & ~kSubgroupCall] = static_cast<uint8_t>(t.begun);
    for (uint32_t t = 0; t < kThreads; ++t) {
      const Op* o = w_->op(r_, t);
      if (o == nullptr || o->kind != Op::kSubgroupCall || m_.threads[t].in_call) continue;
      if (m_.targets[o->arg] > before[o->arg]) m_.threads[t].let_in = true;
    }
  }
  RankStatus status() override {
    RankStatus s;
    for (size_t c = 1; c < kComms; ++c)
      if (w_->member(r_, c) && m_.made[c] && !m_.forgotten[c] && !w_->meeting(c) &&
          (m_.begun[c] != 0 || m_.targets[c] != 0 || !w_->program->pairs.contains(c)))
        s.counts.push_back({c, m_.begun[c]});
    s.progress = m_.threads[0].pc + m_.threads[1].pc;
    for (const auto& [comm, end] : w_->program->predicted) {
      if (!w_->member(r_, comm)) continue;
      const uint64_t next = std::max<uint64_t>(end, m_.begun[comm]);
      s.boundary.iteration = std::max(s.boundary.iteration, next - end + 1);
      s.boundary.counts.push_back({comm, next, 1});
    }
    for (uint32_t t = 0; t < kThreads; ++t) {
      const Op* o = w_->op(r_, t);
      if (o == nullptr || o->calls.empty()) continue;
      const bool inside = m_.threads[t].in_call;
      const uint64_t identity = o->arg | (o->kind == Op::kSubgroupCall ? kSubgroupCall : 0);
      if (inside) s.inside.push_back(o->kind == Op::kGroup ? kSeveral : identity);
      const bool held = !inside && !w_->may_begin(r_, t, *o);
      if (o->kind != Op::kSubgroupCall) {
        if (held) list_held(&s, m_.threads[t], o->calls);
        continue;
      }
      const uint64_t target = m_.targets[o->arg];
      uint64_t at = m_.threads[t].let_in ? target - 1 : target;
      if (w_->faults.count_meetings) {
        if (inside) m_.met[o->arg] = std::max<uint8_t>(m_.met[o->arg], 1);
        at = m_.met[o->arg];
      }
      s.counts.push_back({identity, at});
      if (held) s.held.push_back({identity, begun_on(s, identity) + 1});
    }
    // One flag for all threads: if one thread is outside, none counts as inside.
    if (w_->faults.one_thread_hides_another && !(m_.threads[0].in_call && m_.threads[1].in_call))
      s.inside.clear();
    return s;
  }
  bool try_stop(Status*) override {
    m_.wanted = true;
    for (ModelThread& t : m_.threads) t.parked = t.parked || !t.in_call;
    if (!w_->faults.drain_late && !w_->parked(r_) && only_sends()) {
      for (uint32_t from = 0; from < w_->ranks.size(); ++from)
        m_.stored[from] = static_cast<uint8_t>(m_.stored[from] + w_->under_way(from, r_));
    }
    return w_->parked(r_);
  }
  std::string refusal_when_stopped() override { return ""; }
  std::vector<PeerCount> sent() override {
    std::vector<PeerCount> v;
    for (uint32_t i = 0; i < w_->ranks.size(); ++i)
      if (m_.sent[i] != 0) v.push_back({i, m_.sent[i]});
    return v;
  }
  void begin_drain(const std::vector<PeerCount>& expected) override {
    m_.expected = {};
    for (const PeerCount& p : expected) m_.expected[p.world_rank] = static_cast<uint8_t>(p.messages);
  }
  bool drained(Status*) override {
    bool all = w_->device_idle(r_) || w_->faults.save_while_devices_work;
    for (uint32_t from = 0; from < w_->ranks.size(); ++from) {
      uint64_t got = m_.received[from] + m_.stored[from];
      while (got < m_.expected[from] && w_->under_way(from, r_) > 0) {
        if (w_->faults.forget_a_message && got + 1 == m_.expected[from]) break;
        ++m_.stored[from];
        ++got;
      }
      all = all && (got >= m_.expected[from] || w_->faults.forget_a_message);
    }
    return all;
  }
  void begin_write(const std::string&) override { m_.writing = true; }
  bool written(Status*, ImageSummary*) override {
    m_.image = true;
    return true;
  }
  uint64_t memory_bytes() override { return 0; }
  void resume() override {
    m_.holding = m_.wanted = m_.writing = m_.image = false;
    for (ModelThread& t : m_.threads) t.parked = t.let_in = false;
  }
  void leave(int) override {}
  void die(int) override {}

 private:
  void list_held(RankStatus* s, const ModelThread& thread, const std::vector<Calls>& calls) const {
    for (const Calls& c : calls) {
      if (c.times == thread.partly[c.comm]) continue;
      const uint64_t more = w_->faults.list_one_call ? 1 : c.times - thread.partly[c.comm];
      s->held.push_back({c.comm, m_.begun[c.comm] + more});
      if (w_->faults.list_one_of_group) return;
    }
  }
  // Only threads inside a native send still run.
  bool only_sends() const {
    for (uint32_t t = 0; t < kThreads; ++t) {
      const Op* o = w_->op(r_, t);
      if (!m_.threads[t].parked && (o == nullptr || o->kind != Op::kRendezvous)) return false;
    }
    return true;
  }

  World* w_;
  uint32_t r_;
  ModelRank& m_;
};

struct Found {
  size_t states = 0;
  size_t ends = 0;      // states in which everything has ended
  size_t cuts = 0;      // ends with a published version
  size_t given_up = 0;  // ends without one
  size_t wedged = 0;    // states without successors although the program has not ended
  uint64_t most_raises = 0;
  std::vector<std::string> violations;
  bool complete = true;  // the whole state space was searched
};

// How much of the space is searched.
struct Search {
  int early_ticks = 0;          // this many times, time limits also expire while other events are possible
  bool prompt_reports = false;  // reports reach the coordinator at once; with four ranks there would be too
                                // many states otherwise
  bool first_failure = false;   // a failed attempt ends the search
  bool a_death = false;         // one rank dies, at any moment
};

class Explorer {
 public:
  explicit Explorer(Program program, Search search = {}, Faults faults = {})
      : program_(std::move(program)), faults_(faults), search_(search) {
    limits_.attempts = program_.predicted.empty() ? 1 : 2;  // a prediction applies to the first attempt
    if (faults_.no_raise) limits_.raise_after = limits_.raise_anyway_after = INT64_MAX / 4;
  }

  Found run(size_t state_bound = 3'000'000) {
    Stack stack;
    const World first(program_, faults_, limits_);
    push(first, key(first), &stack);
    while (!stack.empty()) {
      if (found_.states > state_bound || !found_.violations.empty() ||
          (search_.first_failure && found_.given_up > 0)) {
        found_.complete = false;
        break;
      }
      const auto [w, k] = std::move(stack.back());
      stack.pop_back();
      expand(w, k, &stack);
    }
    return found_;
  }

 private:
  struct Key {
    size_t a, b;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const { return k.a ^ k.b * 0x9e3779b97f4a7c15; }
  };

  using Stack = std::vector<std::pair<World, Key>>;

  // 128 bits: a collision among millions of states is practically impossible.
  Key key(const World& w) {
    text_.clear();
    w.describe(&text_);
    const XXH128_hash_t hash = XXH3_128bits(text_.data(), text_.size());
    return {hash.low64, hash.high64};
  }

  void push(const World& w, const Key& k, Stack* stack) {
    if (!seen_.insert(k).second) return;
    ++found_.states;
    stack->emplace_back(w, k);
  }

  void expand(const World& w, const Key& here, Stack* stack) {
    bool moved = false;
    World next = w;  // reused in each branch: its vectors keep their capacity
    // Once all ranks have stopped, and after the attempt, all events commute (the model programs use no
    // wildcards): one order represents all.
    const bool one_order = w.finished || w.coordinator.phase() >= Phase::kDraining;
    const auto branch = [&](auto change) {
      if (moved && one_order) return;
      next = w;
      if (!change(next)) return;
      const Key k = key(next);
      if (k == here) return;  // a poll that changed nothing
      moved = true;
      push(next, k, stack);
    };
    const auto n = static_cast<uint32_t>(w.ranks.size());
    if (!w.requested && !w.ranks[0].dead)
      branch([&](World& x) {
        x.requested = true;
        return act(x, [&](Actions* out) { x.coordinator.request(x.now, out); });
      });
    const bool death = std::any_of(w.ranks.begin(), w.ranks.end(), [](const ModelRank& m) { return m.dead; });
    const bool hub_dead = w.ranks[0].dead;
    for (uint32_t r = 0; r < n; ++r) {
      if (search_.a_death && !death) {  // at any moment, besides all other events
        World x = w;
        x.down[r].clear();
        x.ranks[r].dead = true;
        push(x, key(x), stack);
      }
      // What a dead rank sent arrives before its end is noticed; each rank notices the hub's end separately.
      if (w.ranks[r].dead && faults_.death_unnoticed) continue;
      if (w.ranks[r].dead && r != 0 && !w.told_of_death[r] && w.up[r].empty())
        branch([&](World& x) {
          x.told_of_death[r] = true;
          return act(x, [&](Actions* out) { x.coordinator.lost(r, "is gone", x.now, out); });
        });
      if (hub_dead && r != 0 && !w.told_of_death[r] && w.down[r].empty())
        branch([&](World& x) {
          Seen rank(&x, r);
          x.participants[r].abandon(rank);
          return x.told_of_death[r] = true;
        });
      for (uint32_t t = 0; t < kThreads; ++t) branch([&](World& x) { return x.step(r, t); });
      if (w.ranks[r].dead && !(r != 0 && !w.up[r].empty())) continue;
      for (const auto& [comm, members] : program_.comms) {
        const uint64_t c = comm;
        branch([&](World& x) { return x.forget(r, c); });
      }
      if (w.participants[r].poll_period() != 0 && !w.ranks[r].dead)
        branch([&](World& x) {
          Seen rank(&x, r);
          std::vector<Report> out;
          x.participants[r].poll(rank, &out);
          return send_up(x, r, std::move(out));
        });
      if (!w.down[r].empty() && !w.ranks[r].dead)
        branch([&](World& x) {
          Seen rank(&x, r);
          std::vector<Report> out;
          const Order order = x.down[r].front();
          x.down[r].erase(x.down[r].begin());
          x.participants[r].receive(rank, order, &out);
          return send_up(x, r, std::move(out));
        });
      if (!w.up[r].empty() && !hub_dead)
        branch([&](World& x) {
          const Report m = x.up[r].front();
          x.up[r].erase(x.up[r].begin());
          return act(x, [&](Actions* out) { x.coordinator.receive(r, m, x.now, out); });
        });
    }
    // Last: in the one order, all else happens before a device has ended its work.
    for (uint32_t r = 0; r < n; ++r)
      for (uint32_t t = 0; t < kThreads; ++t) branch([&](World& x) { return x.device_step(r, t); });
    const auto deadline = hub_dead ? std::nullopt : w.coordinator.deadline();
    if (deadline && (!moved || w.early_ticks < search_.early_ticks) && !w.gave_up) {
      const bool early = moved;
      branch([&](World& x) {
        x.now = std::max(x.now, *deadline);
        x.early_ticks += early;
        if (early && x.coordinator.deadline() && *deadline >= limits_.attempt_bound) return false;
        return act(x, [&](Actions* out) { x.coordinator.tick(x.now, out); });
      });
    }
    if (moved) return;
    // Ranks that wait for a dead one wait forever; no others may be held, stopped or requested.
    bool over = w.finished || hub_dead;
    for (uint32_t r = 0; r < n; ++r) {
      if (w.ranks[r].dead) continue;
      const bool free = !w.ranks[r].holding && !w.ranks[r].wanted && !w.ranks[r].threads[0].parked;
      over = over && ((w.program_over(r) && w.device_idle(r)) || death) &&
             w.participants[r].poll_period() == 0 && (free || !death);
    }
    if (!over) {
      ++found_.wedged;
      return;
    }
    ++found_.ends;
    ++(w.published ? found_.cuts : found_.given_up);
    if (death) return;
    for (uint32_t a = 0; a < n; ++a)
      for (uint32_t b = 0; b < n; ++b)
        if (w.ranks[b].stored[a] != 0 || w.under_way(a, b) != 0)
          violation(w, "a message was left over at the end");
  }

  bool send_up(World& x, uint32_t r, std::vector<Report> reports) {
    for (Report& m : reports)
      if (search_.prompt_reports)
        act(x, [&](Actions* out) { x.coordinator.receive(r, m, x.now, out); });
      else
        x.up[r].push_back(std::move(m));
    return true;
  }

  template <class F>
  bool act(World& x, F input) {
    Actions out;
    input(&out);
    for (size_t i = 0; i < out.size(); ++i) {
      const Action a = out[i];
      if (const auto* send = std::get_if<SendOrder>(&a)) {
        if (!x.ranks[send->rank].dead) x.down[send->rank].push_back(send->order);
      } else if (std::holds_alternative<BeginVersion>(a)) {
        check_cut(x);
        x.coordinator.version_begun("v", x.now, &out);
      } else if (std::holds_alternative<Publish>(a)) {
        for (uint32_t r = 0; r < x.ranks.size(); ++r)
          if (!x.ranks[r].image || !x.parked(r)) violation(x, "published without every rank's image");
        x.published = true;
        x.coordinator.published(1, x.now, &out);
      } else if (std::holds_alternative<Discard>(a)) {
        x.coordinator.discarded(x.now, &out);
      } else if (const auto* f = std::get_if<Finished>(&a)) {
        if (x.finished) violation(x, "finished twice");
        x.finished = true;
        x.gave_up = !f->outcome.published;
        if (f->outcome.published != x.published) violation(x, "the outcome and the version differ");
      }
      found_.most_raises = std::max(found_.most_raises, x.coordinator.raises());
    }
    return true;
  }

  // The conditions of a consistent cut.
  void check_cut(const World& x) {
    for (uint32_t r = 0; r < x.ranks.size(); ++r) {
      if (!x.parked(r)) violation(x, "a rank runs at the cut");
      for (const ModelThread& t : x.ranks[r].threads)
        if (t.in_call) violation(x, "a rank is inside a call at the cut");
      if (!x.device_idle(r)) violation(x, "a device works at the cut");
      for (uint32_t from = 0; from < x.ranks.size(); ++from)
        if (x.under_way(from, r) != 0) violation(x, "a message is under way at the cut");
    }
    for (const auto& [comm, members] : program_.comms)
      for (const uint32_t m : members)
        if (x.ranks[m].begun[comm] != x.ranks[members[0]].begun[comm])
          violation(x, "collective counts differ at the cut");
        else if (x.ranks[m].begun[comm] != x.made(m, comm))
          violation(x, "a call is counted at the cut that has not been made");
    // A restart makes it again on all of its members, or on none.
    for (const auto& [comm, members] : program_.comms)
      for (const uint32_t m : members)
        for (const uint32_t other : members)
          if (x.ranks[m].forgotten[comm] && !x.has_freed(other, comm))
            violation(x, "a member has forgotten a communicator that another has");
  }

  void violation(const World& x, const char* what) {
    std::string s;
    x.describe(&s);
    found_.violations.push_back(std::string(what) + "\n" + s);
  }

  Program program_;
  Faults faults_;
  Search search_;
  CutLimits limits_;
  Found found_;
  std::string text_;
  std::unordered_set<Key, KeyHash> seen_;
};

Found expect_always_cut(const Program& p, Search search = {}) {
  const Found f = Explorer(p, search).run();
  EXPECT_TRUE(f.violations.empty()) << f.violations[0];
  EXPECT_TRUE(f.complete) << f.states << " states";
  EXPECT_EQ(f.wedged, 0u);
  EXPECT_EQ(f.given_up, 0u);
  EXPECT_GT(f.cuts, 0u);
  ::testing::Test::RecordProperty("states", static_cast<int>(f.states));
  std::printf("    %zu states, %zu ends, up to %lu raises\n", f.states, f.ends, f.most_raises);
  return f;
}

constexpr uint64_t X = 1, Y = 2, W = 3, V = 4;

// For programs with hundreds of thousands of states: late reports only in the long form.
Search many() { return {.prompt_reports = std::getenv("CROPDL_TEST_LATE_REPORTS") == nullptr}; }

// A and C share X. C has entered X; A must first receive from B, which has no collective as a target.
Program message_before_the_collective(Op (*send)(uint64_t)) {
  return {{{X, {0, 2}}}, {{recv(1), coll(X)}, {send(0)}, {coll(X)}}};
}

TEST(CutExplorer, TwoRanksInCollectivesReachACut) {
  expect_always_cut({{{W, {0, 1}}}, {{coll(W), coll(W), compute()}, {coll(W), compute(), coll(W)}}});
}

TEST(CutExplorer, AMessageThatAShortRankWaitsForIsStillSent) {
  expect_always_cut(message_before_the_collective(eager));
  expect_always_cut(message_before_the_collective(rendezvous));
}

TEST(CutExplorer, TheEndOfAnIterationIsReached) {
  const std::vector<Op> loop = {coll(W), coll(W), coll(W)};
  expect_always_cut({{{W, {0, 1}}}, {loop, loop}, {}, {{W, 2}}});
  // Only one rank can make the other's last call possible.
  expect_always_cut(
      {{{W, {0, 1}}}, {{coll(W), recv(1), coll(W)}, {coll(W), rendezvous(0), coll(W)}}, {}, {{W, 2}}});
}

TEST(CutExplorer, AWrongPredictionEndsInACutAllTheSame) {
  // The iteration never ends there: the program makes no more calls.
  const std::vector<Op> once = {coll(X)};
  expect_always_cut({{{X, {0, 1}}}, {once, once}, {}, {{X, 9}}});
  // The iteration cannot end in the middle of a group.
  const std::vector<Op> groups = {group({{X, 2}, {Y, 1}}), group({{X, 2}, {Y, 1}})};
  expect_always_cut({{{X, {0, 1}}, {Y, {0, 1}}}, {groups, groups}, {}, {{X, 3}, {Y, 2}}}, many());
}

TEST(CutExplorer, CallsOnTheWayToTheEndOfAnIterationDoNotBlock) {
  // A rank on its way to the end of X needs Y, for which nothing was predicted.
  const std::vector<Op> between = {coll(Y), coll(X)};
  const auto cut = [](const Program& p) { return expect_always_cut(p).most_raises; };
  EXPECT_EQ(cut({{{X, {0, 1}}, {Y, {0, 1}}}, {between, between}, {}, {{X, 1}}}), 0u);
  EXPECT_EQ(cut({{{X, {0, 1}}, {Y, {0, 1}}},
                 {{coll(Y), recv(1), coll(X)}, {coll(Y), rendezvous(0), coll(X)}},
                 {},
                 {{X, 1}}}),
            0u);
}

TEST(CutExplorer, OverlappingCommunicatorsReachACut) {
  expect_always_cut({{{X, {0, 1}}, {Y, {0, 2}}}, {{coll(X), coll(Y)}, {coll(X)}, {coll(Y)}}});
  expect_always_cut({{{X, {0, 1}}, {W, {0, 1, 2}}}, {{coll(X), coll(W)}, {coll(X), coll(W)}, {coll(W)}}},
                    many());
}

// C is inside X. A joins only after a message that B sends after a collective Y, which is B's own or shared
// with D.
Program message_behind_a_held_collective(bool shared) {
  Program p{{{X, {0, 2}}, {Y, {1}}}, {{recv(1), coll(X)}, {coll(Y), eager(0)}, {coll(X)}}};
  if (shared) {
    p.comms[Y] = {1, 3};
    p.scripts.push_back({coll(Y)});
  }
  return p;
}

TEST(CutExplorer, HeldRanksAreLetThroughForARankThatIsBehind) {
  EXPECT_GT(expect_always_cut(message_behind_a_held_collective(false)).most_raises, 0u);
  Search four_ranks;
  four_ranks.prompt_reports = true;
  EXPECT_GT(expect_always_cut(message_behind_a_held_collective(true), four_ranks).most_raises, 0u);
}

TEST(CutExplorer, SendsThatWaitForAParkedReceiverComplete) {
  expect_always_cut({{}, {{rendezvous(1), recv(1)}, {recv(0), rendezvous(0)}}});
  expect_always_cut({{}, {{rendezvous(1)}, {recv(0), rendezvous(2)}, {recv(1)}}});
  expect_always_cut({{}, {{rendezvous(1), rendezvous(1)}, {compute(), recv(0), recv(0)}}});
}

TEST(CutExplorer, MessagesUnderWayAreDrainedAndReceivedLater) {
  expect_always_cut({{{W, {0, 1}}}, {{eager(1), eager(1), coll(W)}, {coll(W), recv(0), recv(0)}}});
  expect_always_cut({{}, {{eager(1), recv(1)}, {eager(0), recv(0)}}});
}

TEST(CutExplorer, ARootThatLeavesEarlyIsNoObstacle) {
  expect_always_cut({{{W, {0, 1, 2}}}, {{rooted(W, 0), eager(1)}, {rooted(W, 0), recv(0)}, {rooted(W, 0)}}},
                    many());
  expect_always_cut({{{W, {0, 1}}}, {{rooted(W, 0), rooted(W, 1)}, {rooted(W, 0), rooted(W, 1)}}});
}

TEST(CutExplorer, RaisingTooEarlyDoesNoHarm) {
  expect_always_cut({{{X, {0, 1}}, {Y, {0, 1}}}, {{coll(X), coll(Y)}, {compute(), coll(X), coll(Y)}}},
                    {.early_ticks = 2});
  expect_always_cut(message_before_the_collective(eager), {.early_ticks = 1});
}

// The second rank frees X late, after a message that the first one sends after freeing it.
Program freed_at_different_times() {
  return {{{X, {0, 1}}}, {{coll(X), leave(X), eager(1)}, {coll(X), recv(0), leave(X), compute()}}};
}

TEST(CutExplorer, AFreedCommunicatorIsForgottenOnceAllHaveFreedIt) {
  expect_always_cut(freed_at_different_times(), many());
  // One rank never frees it, and no rank waits for that.
  expect_always_cut(
      {{{X, {0, 1}}}, {{coll(X), leave(X), eager(1), compute()}, {coll(X), recv(0), compute()}}});
  // In different orders, as destructors and garbage collectors do.
  expect_always_cut({{{X, {0, 1}}, {Y, {0, 1}}}, {{leave(X), leave(Y)}, {leave(Y), leave(X)}}},
                    {.prompt_reports = true});
  expect_always_cut(
      {{{X, {0, 1}}, {W, {0, 1}}}, {{rooted(X, 0), leave(X), coll(W)}, {rooted(X, 0), leave(X), coll(W)}}},
      many());
}

TEST(CutExplorer, CallsAmongSomeMembersAreHeldAndLetThrough) {
  expect_always_cut({{{X, {0, 1}}}, {{meet(X), compute(), meet(X)}, {compute(), meet(X), meet(X)}}});
  expect_always_cut({{{X, {0, 1}}}, {{eager(1), meet(X)}, {recv(0), meet(X), compute()}}});
  expect_always_cut({{{X, {0, 2}}, {W, {0, 1}}}, {{coll(W), meet(X)}, {coll(W)}, {meet(X)}}},
                    {.prompt_reports = true});
  // Also if a rank is let in before that is necessary, and with two threads of one rank.
  expect_always_cut({{{X, {0, 1}}}, {{meet(X), compute(), meet(X)}, {compute(), meet(X), meet(X)}}},
                    {.early_ticks = 2, .prompt_reports = true});
  expect_always_cut({{{X, {0, 1}}}, {{meet(X)}, {compute(), meet(X), meet(X)}}, {{0, {meet(X)}}}},
                    {.prompt_reports = true});
}

// X is made from W; its first collective has a root that leaves early.
Program made_meanwhile() {
  return {{{W, {0, 1}}, {X, {0, 1}}},
          {{make(W, X), rooted(X, 0), compute()}, {make(W, X), compute(), rooted(X, 0)}}};
}

TEST(CutExplorer, ACommunicatorMayBeMadeAndFreedMeanwhile) {
  expect_always_cut(made_meanwhile());
  expect_always_cut({{{W, {0, 1}}, {X, {0, 1}}},
                     {{make(W, X), rooted(X, 0), leave(X)}, {make(W, X), rooted(X, 0), leave(X)}}},
                    {.prompt_reports = true});
}

// Thread 0 of both ranks shares X, thread 1 shares Y.
TEST(CutExplorer, ThreadsInCollectivesOfTheirOwnReachACut) {
  expect_always_cut({{{X, {0, 1}}, {Y, {0, 1}}},
                     {{coll(X), compute()}, {compute(), coll(X)}},
                     {{0, {coll(Y)}}, {1, {coll(Y)}}}},
                    {.prompt_reports = true});
  // A thread is held before Y while the other is inside X, which the peer enters after Y.
  expect_always_cut({{{X, {0, 1}}, {Y, {0, 1}}}, {{coll(X)}, {coll(Y), coll(X)}}, {{0, {coll(Y)}}}},
                    {.prompt_reports = true});
}

TEST(CutExplorer, AThreadThatSendsFreesOneThatIsShort) {
  expect_always_cut({{{X, {0, 1}}}, {{recv(1), coll(X)}, {coll(X)}}, {{1, {compute(), eager(0)}}}},
                    {.prompt_reports = true});
  expect_always_cut({{{X, {0, 1}}}, {{coll(X)}, {coll(X)}}, {{0, {rendezvous(1)}}, {1, {recv(0)}}}},
                    {.prompt_reports = true});
}

// A thread of each rank sends to the other rank, whose receiver may have stopped already.
Program crossing_sends() {
  return {{}, {{rendezvous(1)}, {rendezvous(0)}}, {{0, {compute(), recv(1)}}, {1, {compute(), recv(0)}}}};
}

TEST(CutExplorer, SendsOfThreadsThatCrossComeFree) {
  expect_always_cut(crossing_sends(), {.prompt_reports = true});
  // In a circle, and to a rank whose only thread has stopped.
  expect_always_cut({{},
                     {{rendezvous(1)}, {rendezvous(2)}, {rendezvous(0)}},
                     {{0, {recv(2)}}, {1, {recv(0)}}, {2, {recv(1)}}}},
                    {.prompt_reports = true});
  // Both threads of one rank send, and the second one of the other rank.
  expect_always_cut({{},
                     {{rendezvous(1), recv(1)}, {compute(), recv(0), recv(0)}},
                     {{0, {rendezvous(1)}}, {1, {rendezvous(0)}}}},
                    {.prompt_reports = true});
}

TEST(CutExplorer, OneThreadFreesACommunicatorWhileAnotherIsInACollective) {
  expect_always_cut({{{X, {0, 1}}, {Y, {0, 1}}},
                     {{coll(X), leave(X)}, {coll(X), leave(X)}},
                     {{0, {coll(Y)}}, {1, {coll(Y)}}}},
                    {.prompt_reports = true});
}

Program launches_that_run_ahead() {
  return {{{X, {0, 1}}}, {{launch(X), launch(X), sync()}, {launch(X), compute(), launch(X)}}};
}

TEST(CutExplorer, LaunchesThatRunAheadOfTheirDeviceReachACut) {
  expect_always_cut(launches_that_run_ahead(), many());
  // A device waits for one that waits for a third.
  expect_always_cut({{{X, {0, 1}}, {Y, {1, 2}}}, {{launch(X), sync()}, {launch(X), launch(Y)}, {launch(Y)}}},
                    many());
  // Messages from one rank to the other (X) and back (Y).
  expect_always_cut(
      {.comms = {{X, {0, 1}}, {Y, {0, 1}}},
       .scripts = {{launch(X), launch(X), launch(Y), sync()}, {launch(X), launch(X), launch(Y)}},
       .pairs = {X, Y}},
      many());
}

TEST(CutExplorer, AGroupOfCallsBeginsAsAWhole) {
  const Op both = group({{X, 1}, {Y, 1}});
  expect_always_cut({{{X, {0, 1}}, {Y, {0, 1}}}, {{both, both, sync()}, {both, compute(), both}}}, many());
  // One rank sends and receives in one group; the other makes its calls one after the other.
  expect_always_cut({.comms = {{X, {0, 1}}, {Y, {0, 1}}},
                     .scripts = {{group({{X, 2}, {Y, 1}}), sync()}, {launch(X), launch(X), launch(Y)}},
                     .pairs = {X, Y}},
                    many());
  expect_always_cut(
      {{{X, {0, 1}}, {Y, {0, 2}}}, {{both, compute()}, {launch(X), compute()}, {compute(), launch(Y)}}},
      many());
}

// C is inside X. A joins only after a message that B sends after a group, whose calls C makes after X.
Program message_behind_a_held_group(const Op& held) {
  Program p{{{X, {0, 2}}}, {{recv(1), coll(X)}, {held, eager(0)}, {coll(X), held}}};
  for (const Calls& c : held.calls) p.comms[c.comm] = {1, 2};
  return p;
}

// A has launched one of two calls; before the other one it waits for a message that B sends after a group of
// both.
Program group_that_the_target_admits_in_part() {
  return {.comms = {{Y, {0, 1}}},
          .scripts = {{launch(Y), recv(1), launch(Y)}, {group({{Y, 2}}), eager(0)}},
          .pairs = {Y}};
}

TEST(CutExplorer, AHeldGroupIsLetThroughForARankThatIsBehind) {
  for (const Op& held : {group({{Y, 2}}), group({{Y, 1}, {V, 1}}), group({{V, 1}, {Y, 3}})})
    EXPECT_GT(expect_always_cut(message_behind_a_held_group(held), many()).most_raises, 0u);
  EXPECT_GT(expect_always_cut(group_that_the_target_admits_in_part()).most_raises, 0u);
}

// W's calls, as MPI's, keep the host until all members have begun them; X's, as NCCL's, do not.
TEST(CutExplorer, CallsOfTwoLibrariesInterleave) {
  expect_always_cut({{{X, {0, 1}}, {W, {0, 1}}}, {{launch(X), coll(W), sync()}, {coll(W), launch(X)}}},
                    many());
  expect_always_cut({{{X, {1, 2}}, {W, {0, 1}}}, {{coll(W)}, {launch(X), sync(), coll(W)}, {launch(X)}}},
                    many());
  expect_always_cut({{{X, {0, 1}}}, {{launch(X), rendezvous(1), sync()}, {recv(0), launch(X), compute()}}},
                    many());
  const Op both = group({{X, 1}, {Y, 1}});
  expect_always_cut({{{X, {0, 1}}, {Y, {0, 1}}, {W, {0, 1}}}, {{both, coll(W), both}, {coll(W), both, both}}},
                    many());
  // A thread for each library.
  expect_always_cut({{{X, {0, 1}}, {W, {0, 1}}},
                     {{coll(W), compute()}, {coll(W)}},
                     {{0, {launch(X), sync()}}, {1, {launch(X)}}}},
                    {.prompt_reports = true});
}

// A rank dies: the attempt ends, no version is published without its image, and no rank stays held or
// stopped.
void expect_nobody_left_behind(const Program& p, Search search = {}) {
  search.a_death = true;
  const Found f = Explorer(p, search).run();
  EXPECT_TRUE(f.violations.empty()) << f.violations[0];
  EXPECT_TRUE(f.complete) << f.states << " states";
  EXPECT_EQ(f.wedged, 0u);
  EXPECT_GT(f.cuts, 0u);
  EXPECT_GT(f.given_up, 0u);
  std::printf("    %zu states, %zu ends\n", f.states, f.ends);
}

TEST(CutExplorer, ARankMayDieAtEveryStep) {
  expect_nobody_left_behind({{{W, {0, 1}}}, {{coll(W), compute()}, {compute(), coll(W)}}});
  expect_nobody_left_behind({{}, {{rendezvous(1)}, {compute(), recv(0)}}});
  expect_nobody_left_behind({{{X, {0, 2}}, {W, {0, 1}}}, {{coll(W), coll(X)}, {coll(W)}, {coll(X)}}},
                            {.prompt_reports = true});
  expect_nobody_left_behind({{{X, {0, 1}}}, {{group({{X, 2}}), sync()}, {launch(X), compute(), launch(X)}}},
                            {.prompt_reports = true});
}

// --- The search finds each fault.

TEST(CutExplorer, FindsThatANewCommunicatorMustBeListedInTime) {
  Faults faults;
  faults.list_late = true;
  const Found f = Explorer(made_meanwhile(), {}, faults).run();
  EXPECT_FALSE(f.violations.empty() && f.given_up == 0);
}

TEST(CutExplorer, FindsThatADeathMustBeNoticed) {
  Faults faults;
  faults.death_unnoticed = true;
  const Found f =
      Explorer({{{W, {0, 1}}}, {{coll(W), compute()}, {compute(), coll(W)}}}, {.a_death = true}, faults)
          .run();
  EXPECT_GT(f.wedged + f.violations.size(), 0u);
}

TEST(CutExplorer, FindsThatOneThreadMustNotHideAnother) {
  Faults faults;
  faults.one_thread_hides_another = true;
  // The other side enters the subgroup call only if it is not stopped before.
  const Program p = {{{X, {0, 1}}}, {{meet(X)}, {compute(), meet(X)}}, {{0, {compute(), compute()}}}};
  expect_always_cut(p, {.prompt_reports = true});
  const Found f = Explorer(p, {.prompt_reports = true, .first_failure = true}, faults).run();
  EXPECT_GT(f.given_up, 0u);
}

TEST(CutExplorer, FindsThatARankMustDrainWhileItsThreadsStillSend) {
  Faults faults;
  faults.drain_late = true;
  const Found f = Explorer(crossing_sends(), {.prompt_reports = true, .first_failure = true}, faults).run();
  EXPECT_GT(f.given_up, 0u);
}

TEST(CutExplorer, FindsThatForgettingAFreedCommunicatorAtOnceTearsTheCut) {
  Faults faults;
  faults.forget_at_once = true;
  const Found f =
      Explorer({{{X, {0, 1}}}, {{rooted(X, 0), leave(X)}, {rooted(X, 0), leave(X)}}}, {}, faults).run();
  EXPECT_FALSE(f.violations.empty());
}

TEST(CutExplorer, FindsThatACallAmongSomeMembersMustBeHeld) {
  Faults faults;
  faults.meet_unheld = true;
  const Found f =
      Explorer({{{X, {0, 1}}}, {{meet(X)}, {compute(), meet(X)}}}, {.first_failure = true}, faults).run();
  EXPECT_GT(f.given_up, 0u);
}

// One rank left the call before its own hold, while the other is still seen inside.
TEST(CutExplorer, FindsThatSubgroupCallsCannotBeCountedPerRank) {
  Faults faults;
  faults.count_meetings = true;
  const Program p = {{{X, {0, 1}}}, {{meet(X), compute(), meet(X)}, {meet(X), compute(), meet(X)}}};
  expect_always_cut(p);
  const Found f = Explorer(p, {.first_failure = true}, faults).run();
  EXPECT_GT(f.given_up, 0u);
}

// The tests above search the same programs without a fault.
Found with_fault(bool Faults::*fault, const Program& p) {
  Faults faults;
  faults.*fault = true;
  return Explorer(p, {.prompt_reports = true, .first_failure = true}, faults).run();
}

TEST(CutExplorer, FindsThatAGroupMustNotBeCountedInPart) {
  const Found f = with_fault(&Faults::count_group_in_part, group_that_the_target_admits_in_part());
  EXPECT_FALSE(f.violations.empty() && f.given_up == 0);
}

TEST(CutExplorer, FindsThatAllCommunicatorsOfAHeldGroupMustBeRaised) {
  const Found f =
      with_fault(&Faults::list_one_of_group, message_behind_a_held_group(group({{Y, 1}, {V, 1}})));
  EXPECT_GT(f.given_up, 0u);
}

TEST(CutExplorer, FindsThatAHeldGroupMustBeRaisedByAllItsCalls) {
  for (const Program& p :
       {message_behind_a_held_group(group({{Y, 2}})), group_that_the_target_admits_in_part()}) {
    const Found f = with_fault(&Faults::list_one_call, p);
    EXPECT_GT(f.given_up, 0u);
  }
}

// Even if the thread is seen inside the call from before the launch until after the count.
TEST(CutExplorer, FindsThatALaunchMustBeCountedBefore) {
  const Found f = with_fault(&Faults::count_after_launch, launches_that_run_ahead());
  EXPECT_FALSE(f.violations.empty() && f.given_up == 0);
}

TEST(CutExplorer, FindsThatDevicesMustBeIdleBeforeTheyAreSaved) {
  const Found f = with_fault(&Faults::save_while_devices_work, launches_that_run_ahead());
  EXPECT_FALSE(f.violations.empty());
}

TEST(CutExplorer, FindsThatParkingAtTheTargetsDeadlocks) {
  Faults faults;
  faults.park_at_targets = true;
  const Found f = Explorer(message_before_the_collective(eager), {.first_failure = true}, faults).run();
  EXPECT_GT(f.given_up, 0u) << "the naive rule reached a cut in every order; the search proves nothing";
}

TEST(CutExplorer, FindsThatWithoutRaisingSomeAttemptsHaveNoEnd) {
  Faults faults;
  faults.no_raise = true;
  const Found f = Explorer(message_behind_a_held_collective(false), {.first_failure = true}, faults).run();
  EXPECT_GT(f.given_up, 0u);
}

TEST(CutExplorer, FindsACollectiveBegunBeyondItsTarget) {
  Faults faults;
  faults.ignore_targets = true;
  const Found f =
      Explorer({{{W, {0, 1}}}, {{coll(W), coll(W)}, {coll(W), coll(W)}}}, {.first_failure = true}, faults)
          .run();
  EXPECT_FALSE(f.violations.empty() && f.given_up == 0);
}

TEST(CutExplorer, FindsALostMessage) {
  Faults faults;
  faults.forget_a_message = true;
  const Found f =
      Explorer({{}, {{eager(1), recv(1)}, {eager(0), recv(0)}}}, {.first_failure = true}, faults).run();
  EXPECT_FALSE(f.violations.empty());
}

}  // namespace
}  // namespace cropdl::coord
