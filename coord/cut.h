// The agreement of all ranks on a cut: two state machines, Coordinator (rank 0) and Participant (each rank).
// Pure: no I/O, clock or thread; times (us) and messages are values. The explorer in the tests runs this code
// over all interleavings. Lower half, agent's thread (LH FS base).
//
//   request -> Hold -> each rank reports its status -> Targets: the largest count per communicator ->
//   (raise targets until no rank is short or inside a collective) -> Stop -> each rank stops and reports its
//   sent counts -> Drain -> Write -> publish -> Resume, or End.
//
// docs/cut.md: rules for raising targets, why this cannot deadlock, and what only the bound ends.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coord/local_rank.h"

namespace cropdl::coord {

// --- Orders, from the coordinator to a rank. `attempt` identifies late orders, which are ignored.
struct Hold {
  uint64_t attempt;
};
struct Targets {
  uint64_t attempt;
  uint64_t revision;
  std::vector<CollectiveCount> targets;
};
struct Stop {
  uint64_t attempt;
};
struct Drain {
  uint64_t attempt;
  uint64_t revision;
  std::vector<PeerCount> expected;
};
struct Write {
  uint64_t attempt;
  std::string directory;
};
struct Resume {
  uint64_t attempt;
};
// Replaces Resume: the version is published; the rank exits with this status, its program still stopped.
struct End {
  uint64_t attempt;
  int32_t status;
};
using Order = std::variant<Hold, Targets, Stop, Drain, Write, Resume, End>;

// --- Reports, from a rank to the coordinator.
struct StatusReport {
  uint64_t attempt;
  uint64_t revision;
  int64_t waited;  // LocalRank::waited()
  RankStatus status;
};  // `revision`: of the targets that the rank applied, 0: none
struct Sent {
  uint64_t attempt;
  bool stopped;
  bool examining;  // not yet `stopped`, because its state is being examined
  int64_t waited;  // LocalRank::waited()
  std::vector<PeerCount> sent;
};  // final once stopped
struct Drained {
  uint64_t attempt;
  uint64_t revision;
};
struct Written {
  uint64_t attempt;
  ImageSummary image;
};
struct Refused {
  uint64_t attempt;
  std::string reason;
};  // the state cannot be saved; the rank keeps working
struct Failed {
  uint64_t attempt;
  std::string reason;
};  // draining or writing failed
using Report = std::variant<StatusReport, Sent, Drained, Written, Refused, Failed>;

// In microseconds, except `attempts`.
struct CutLimits {
  // First raise: no progress of the short ranks for longer than a scheduling hiccup on a full node.
  int64_t raise_after = 15'000;
  int64_t raise_again_after = 5'000;  // later raises: the program is known to need several
  // Raise despite progress: a polling rank looks like progress, and raising is always safe.
  int64_t raise_anyway_after = 300'000;
  int64_t raise_anyway_again_after = 60'000;
  // How long a rank is held at a subgroup call that another rank is inside of; excludes stale reports.
  int64_t raise_awaited_after = 2'000;
  // How long to wait for a predicted end of an iteration, beyond two iterations.
  int64_t prediction_bound = 1'000'000;
  // No wait for the end of a longer iteration: the program runs meanwhile, but the requester waits.
  int64_t longest_iteration = 30'000'000;
  // When to drain before all ranks have stopped: a rank may be in a send that waits for its receiver.
  int64_t interim_drain_after = 2'000;
  int64_t attempt_bound = 10'000'000;  // from Hold to Write; then all ranks resume
  // Instead, while a rank examines its state: Linux walks all its pages, some 10 s for 256 GiB.
  int64_t examination_bound = 1'800'000'000;
  int64_t retry_pause = 1'000'000;       // between attempts, so that the program makes progress
  int64_t stopped_bound = 5'000'000;     // how long a rank's process may be stopped
  int64_t join_bound = 3'000'000;        // how long a request waits for ranks that are starting,
  int64_t user_join_bound = 60'000'000;  // and one that nobody repeats, whose user is told for whom it waits
  int64_t say_after = 2'000'000;         // a longer request reports what it waits for,
  int64_t say_again_after = 10'000'000;  // and repeats that at this interval
  uint32_t attempts = 20;                // then the request fails
};

// The result of a request.
struct Outcome {
  bool published = false;
  uint64_t version = 0;
  uint64_t bytes = 0;        // of all images
  double stall_seconds = 0;  // from Stop to Resume; ranks held before Stop still run
  // Time from Hold to Resume, of all attempts, published or not. If the targets were the end of an iteration:
  // from Stop to Resume, and the longest that a rank was held before a collective until then.
  double held_seconds = 0;
  uint32_t attempts = 0;
  bool too_early = false;  // not published because a rank is starting
  std::string line = {};   // error line for people, when not published
};

// --- The coordinator's actions, carried out by the caller.
struct SendOrder {
  uint32_t rank;
  Order order;
};
struct BeginVersion {};  // answered by version_begun() or sink_failed()
struct Publish {
  NewVersion version;
};  // answered by published() or sink_failed()
// Removes the version that was begun. Answered by discarded(); until then no rank is held.
struct Discard {};
struct Finished {
  Outcome outcome;
};
using Action = std::variant<SendOrder, BeginVersion, Publish, Discard, Finished>;
using Actions = std::vector<Action>;

enum class Phase { kIdle, kHolding, kStopping, kDraining, kWriting, kPublishing };  // as in phase_name()
const char* phase_name(Phase phase);
std::string rank_name(uint32_t rank);  // "rank 3"

// A rank at its targets runs up to the first collective beyond them, because a short rank may wait for its
// messages. If the short ranks make no progress while others are held, the targets rise so that each held
// thread begins the collective, or the whole group, before which it is held; immediately, if a rank is held
// before a subgroup call that another rank is inside of.
class Coordinator {
 public:
  explicit Coordinator(uint32_t ranks, CutLimits limits = {});

  // Starts a request. False: one is being served already; nothing changes. `by_user`: by `cropdl checkpoint`.
  bool request(int64_t now, Actions* out, bool by_user = false);
  // Makes the version in progress the last: all ranks then exit with this status. 0, as at first: resume.
  void end_with(int32_t status) { end_status_ = status; }
  // The request in progress waits for starting ranks as if it were not `by_user`.
  void hurry() { by_user_ = false; }
  // Ends a request, unless its version has been begun.
  void withdraw(const std::string& why, int64_t now, Actions* out);
  // A lost rank may join again (another process) while no request is being served.
  void joined(uint32_t rank, int64_t now, Actions* out);
  // The rank's process ended or its connection broke. `why` completes "rank R ...".
  void lost(uint32_t rank, const std::string& why, int64_t now, Actions* out);
  // The rank's process has been stopped for stopped_bound, perhaps forever: no longer wait for it.
  void stands_still(uint32_t rank, const std::string& why, int64_t now, Actions* out);
  void receive(uint32_t rank, const Report& report, int64_t now, Actions* out);
  void version_begun(const std::string& directory, int64_t now, Actions* out);
  void published(uint64_t version, int64_t now, Actions* out);
  void sink_failed(const std::string& reason, int64_t now, Actions* out);
  void discarded(int64_t now, Actions* out);
  void tick(int64_t now, Actions* out);

  // When tick() must be called next if nothing arrives before.
  std::optional<int64_t> deadline() const;
  bool busy() const { return stage_ != Stage::kIdle; }
  Phase phase() const;
  // What the request waits for now, in words that name ranks; "": no request.
  std::string waits_for() const;
  uint64_t raises() const { return raises_; }  // of all held ranks together, in this attempt

  // Appends all state that decides future behaviour, times relative to `now`: for the explorer's state table.
  void describe(int64_t now, std::string* out) const;

 private:
  enum class Stage { kIdle, kJoining, kHolding, kStopping, kWriting, kPublishing, kPausing };
  struct RankSlot {
    bool joined = false;
    std::string gone;       // why the rank left the job, or ""
    bool reported = false;  // `status` was reported in this attempt
    uint64_t revision = 0;  // of the targets under which `status` was taken
    RankStatus status;
    int64_t reported_at = 0, waited = 0;  // as of `status`, then of the last Sent
    // What compare() finds: short of a target, or inside a collective; short of a predicted end.
    bool behind = false, short_of_end = false;
    std::vector<HeldCalls> held_back;  // of `status.held`: those that the targets do not admit
    bool stopped = false, examining = false;
    std::vector<uint64_t> sent;      // messages to each rank; final when stopped
    std::vector<uint64_t> expected;  // sent with the last Drain
    uint32_t unexpected = 0;         // ranks whose `sent` to this one differs from it
    uint64_t drain_revision = 0;     // of the last Drain sent, 0: none
    uint64_t drained_revision = 0;   // of the last Drained
    bool write_over = false;
    ImageSummary image;
  };

  void start(int64_t now, Actions* out);
  void begin_attempt(int64_t now, Actions* out);
  void on(uint32_t rank, const StatusReport& m, int64_t now, Actions* out);
  void on(uint32_t rank, const Sent& m, int64_t now, Actions* out);
  void on(uint32_t rank, const Drained& m, int64_t now, Actions* out);
  void on(uint32_t rank, const Written& m, int64_t now, Actions* out);
  void on(uint32_t rank, const Refused& m, int64_t now, Actions* out);
  void on(uint32_t rank, const Failed& m, int64_t now, Actions* out);
  std::string incomplete_communicator() const;
  void compare(RankSlot* slot) const;  // call when its status or the targets have changed
  std::map<uint64_t, uint64_t> held_back() const;
  void look_for_awaited(int64_t now);
  bool all_current() const;  // all ranks reported under the current targets
  bool runs_to_ends() const { return !ends_.empty() && raises_ == 0; }
  bool is_on_the_way(uint64_t comm) const;
  std::optional<int64_t> raise_at() const;
  std::optional<int64_t> ordinary_raise_at() const;
  void raise(int64_t now, Actions* out);
  void send_targets(Actions* out);
  void send_drains(int64_t now, Actions* out);
  int64_t attempt_ends() const;
  int64_t patience() const;  // 0 for a last version
  int64_t join_bound() const { return by_user_ ? limits_.user_join_bound : limits_.join_bound; }
  bool all_stopped() const;
  bool someone_examines() const;
  void consider_write(int64_t now, Actions* out);
  void consider_publish(int64_t now, Actions* out);
  void give_up_attempt(int64_t now, Actions* out);
  std::string what_is_missing() const;
  std::string who_is_ahead_of(const RankSlot& slot) const;
  void predict();  // sets targets at the end of an iteration, if all ranks agree on one
  void fail(const std::string& line, int64_t now, Actions* out, bool too_early = false);
  // While images are written, not before every rank's write is over.
  void fail_after_writes(const std::string& line, int64_t now, Actions* out);
  int64_t longest_wait(int64_t now) const;
  void end_attempt(int64_t now, Actions* out);  // sends Resume to all, then Discard if a version was begun
  void finish(Outcome outcome, Actions* out);
  void broadcast(const Order& order, Actions* out);

  CutLimits limits_;
  Stage stage_ = Stage::kIdle;
  std::vector<RankSlot> slots_;
  uint64_t attempt_ = 0;  // never reused; identifies late reports
  uint32_t tries_ = 0;    // attempts of this request
  uint64_t revision_ = 0;
  std::map<uint64_t, uint64_t> targets_;
  uint64_t drain_revision_ = 0;
  uint64_t raises_ = 0;
  bool version_begun_ = false;
  bool discarding_ = false;  // a new request waits: the store does one thing at a time
  std::string missed_;       // why the previous attempt failed
  std::string failure_;      // of the write stage, reported when all ranks' writes are over
  int32_t end_status_ = 0;   // 0: ranks resume after this version
  bool by_user_ = false;
  int64_t held_ = 0;        // time held by this request's finished attempts
  int64_t started_ = 0;     // start of this attempt; or of joining or pausing
  int64_t bound_from_ = 0;  // start of this attempt, or the end of the last examination in it
  int64_t raised_ = 0;      // time of the first targets or of the last raise of all held ranks
  // Targets at the predicted end of an iteration; empty: nothing was predicted.
  std::map<uint64_t, uint64_t> ends_;
  // Extra time before the first raise: two iterations if the targets end one, else 0.
  int64_t patience_ = 0;
  // Subgroup calls that a rank is held before and another rank is inside of -> since when.
  std::map<uint64_t, int64_t> awaited_;
  int64_t last_motion_ = 0;  // last change in a report of a rank that is behind
  int64_t stop_told_ = 0;
  int64_t stopped_at_ = 0, write_told_ = 0;  // when all ranks had stopped, and were told to write
  int64_t last_drains_ = 0;
};

// One rank's state machine. Each call gets the rank to drive and appends reports to send to `out`.
class Participant {
 public:
  void receive(LocalRank& rank, const Order& order, std::vector<Report>* out);
  void poll(LocalRank& rank, std::vector<Report>* out);  // call every poll_period() while that is not 0
  int64_t poll_period() const;                           // microseconds; 0: do not poll
  // The status with which this process must exit now, its program still stopped; 0: it must not exit.
  int32_t end_status() const { return end_status_; }
  void abandon(LocalRank& rank);  // the coordinator is gone: ends the attempt and resumes the rank

  void describe(std::string* out) const;

 private:
  enum class Stage { kIdle, kHolding, kStopping, kStopped, kDraining, kWriting, kOver };
  void obey(LocalRank& rank, const Order& order, std::vector<Report>* out);
  void look(LocalRank& rank, std::vector<Report>* out);
  void failed(const Status& why, std::vector<Report>* out);
  void report_standing(LocalRank& rank, bool even_if_unchanged, std::vector<Report>* out);
  void report_sent(LocalRank& rank, bool stopped, std::vector<Report>* out);

  Stage stage_ = Stage::kIdle;
  uint64_t attempt_ = 0;
  uint64_t revision_ = 0;
  uint64_t drain_revision_ = 0;
  RankStatus last_status_;
  std::vector<PeerCount> last_sent_;
  bool sent_reported_ = false, last_examining_ = false;
  int32_t end_status_ = 0;
};

// Appends a readable form of a message to `out`: for traces and the explorer's state table.
void describe(const Order& order, std::string* out);
void describe(const Report& report, std::string* out);

}  // namespace cropdl::coord
