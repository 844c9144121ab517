// The agreement of all ranks on a cut: two state machines, Coordinator (one, on rank 0) and Participant (one
// per rank). Pure: no I/O, no clock, no thread; time comes in as microseconds, messages go in and out as
// values. So the explorer in the tests runs this very code over all interleavings. Lower half, the agent's
// thread (LH FS base).
//
//   request -> Hold -> every rank reports where it stands -> Targets: per communicator the largest count
//   among its members. A rank short of a target goes on, and so does every other rank up to the first
//   collective beyond a target, because its sends and receives may be what a short one waits for. Short ranks
//   that make no progress while others are held: the held are let through that one collective, and the target
//   rises; at once, if one is held before a call among some members that another is inside of. Once nobody is
//   short or inside a collective -> Stop -> each rank, when it stopped, reports what it has sent -> Drain ->
//   Write -> publish -> Resume, or End. docs/cut.md says why this cannot deadlock and what it leaves to the
//   bound.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "coord/local_rank.h"

namespace cropdl::coord {

// --- Orders, from the coordinator to a rank. `attempt` tells late ones from those of the attempt under way.
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
// Instead of Resume: the version is published, and the rank leaves with this exit status. Its program stays
// stopped.
struct End {
  uint64_t attempt;
  int32_t status;
};
using Order = std::variant<Hold, Targets, Stop, Drain, Write, Resume, End>;

// --- Reports, from a rank to the coordinator.
struct StatusReport {
  uint64_t attempt;
  uint64_t revision;
  RankStatus status;
};  // revision of the targets it applied, 0: none
struct Sent {
  uint64_t attempt;
  bool stopped;
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
};  // the state cannot be saved; the rank itself is well
struct Failed {
  uint64_t attempt;
  std::string reason;
};  // draining or writing failed
using Report = std::variant<StatusReport, Sent, Drained, Written, Refused, Failed>;

// All in microseconds, except attempts.
struct CutLimits {
  int64_t raise_after =
      15'000;  // short ranks stand still this long: a scheduling hiccup on a full node is shorter
  int64_t raise_again_after = 5'000;  // later raises: the ranks are known to need several
  int64_t raise_anyway_after =
      300'000;  // a rank that polls looks like progress; letting the held ones on is always safe
  int64_t raise_anyway_again_after = 60'000;
  int64_t raise_awaited_after =
      2'000;  // so long a rank was seen held before the very call that another is inside of: no stale news
  int64_t prediction_bound =
      1'000'000;  // beyond two iterations, for an end of an iteration that does not come
  int64_t longest_iteration =
      30'000'000;  // of which the end is waited for: the program runs meanwhile, but whoever asked waits
  int64_t interim_drain_after =
      2'000;  // a rank still not stopped then may sit in a send that waits for its receiver
  int64_t attempt_bound = 10'000'000;    // from Hold to Write; then everyone goes on
  int64_t retry_pause = 1'000'000;       // between attempts, so that the program gets ahead
  int64_t stopped_bound = 5'000'000;     // for a rank whose process has been stopped
  int64_t join_bound = 3'000'000;        // for ranks that are still starting when a checkpoint is asked for
  int64_t say_after = 2'000'000;         // a request that takes longer says what it waits for,
  int64_t say_again_after = 10'000'000;  // again and again
  uint32_t attempts = 20;                // then the request is given up
};

// What became of a request.
struct Outcome {
  bool published = false;
  uint64_t version = 0;
  uint64_t bytes = 0;        // of all images
  double stall_seconds = 0;  // from Stop to Resume: while ranks are held, the program goes on
  double held_seconds = 0;   // from Hold (from Stop, if that was the end of an iteration) to Resume, of all
                             // attempts, published or not
  uint32_t attempts = 0;
  bool too_early = false;  // not published because a rank is still starting
  std::string line;        // for people, when not published
};

// --- What the coordinator wants done.
struct SendOrder {
  uint32_t rank;
  Order order;
};
struct BeginVersion {};  // answer: version_begun() or sink_failed()
struct Publish {
  std::vector<ImageSummary> images;
  double stall_seconds;
};                  // answer: published() or sink_failed()
struct Discard {};  // the version begun is void; answer: discarded(). Until then nothing is held
struct Finished {
  Outcome outcome;
};
using Action = std::variant<SendOrder, BeginVersion, Publish, Discard, Finished>;
using Actions = std::vector<Action>;

enum class Phase { kIdle, kHolding, kStopping, kDraining, kWriting, kPublishing };
const char* phase_name(Phase phase);

class Coordinator {
 public:
  explicit Coordinator(uint32_t ranks, CutLimits limits = {});

  // False: a request is being served already, nothing changes.
  bool request(int64_t now, Actions* out);
  // The version under way becomes the job's last one: behind it all ranks leave with this exit status, which
  // is not 0. 0: they go on, as behind any other. A request begins as an ordinary one.
  void end_with(int32_t status) { end_status_ = status; }
  // Ends a request, unless its version's images are being written already: that one is completed.
  void withdraw(const std::string& why, int64_t now, Actions* out);
  void joined(uint32_t rank, int64_t now, Actions* out);
  // The rank's process ended or its connection broke; `why` completes "rank R ...".
  void lost(uint32_t rank, const std::string& why, int64_t now, Actions* out);
  // Its process has been stopped for stopped_bound, and may be for ever: it is not waited for any longer.
  void stands_still(uint32_t rank, const std::string& why, int64_t now, Actions* out);
  void receive(uint32_t rank, const Report& report, int64_t now, Actions* out);
  void version_begun(const std::string& directory, int64_t now, Actions* out);
  void published(uint64_t version, int64_t now, Actions* out);
  void sink_failed(const std::string& reason, int64_t now, Actions* out);
  void discarded(int64_t now, Actions* out);
  void tick(int64_t now, Actions* out);

  // When tick() has something to do next, if nothing arrives before.
  std::optional<int64_t> deadline() const;
  bool busy() const { return stage_ != Stage::kIdle; }
  Phase phase() const;
  std::string waits_for() const;  // what keeps the request now, in words that name ranks; "": there is none
  uint64_t raises() const { return raises_; }  // of all that were held, in this attempt

  // Appends everything that decides future behaviour, times relative to `now`: for the explorer's state
  // table.
  void describe(int64_t now, std::string* out) const;

 private:
  enum class Stage { kIdle, kJoining, kHolding, kStopping, kWriting, kPublishing, kPausing };
  struct RankSlot {
    bool joined = false;
    std::string gone;       // why the rank takes part no more, or ""
    bool reported = false;  // `status` is of this attempt
    uint64_t revision = 0;  // of the targets under which it was taken
    RankStatus status;
    bool stopped = false;
    std::vector<uint64_t> sent;      // to each rank; final when stopped
    std::vector<uint64_t> expected;  // told with the last Drain
    uint64_t drain_revision = 0;     // of the last Drain told, 0: none
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
  void consider_stop(int64_t now, Actions* out);
  bool behind(const RankSlot& slot) const;  // short of a target, or a thread is inside a collective
  bool held_back(const RankSlot& slot, uint64_t comm) const;  // of one held there: the targets let none on
  std::map<uint64_t, uint64_t> held_back() const;
  void look_for_awaited(int64_t now);
  bool all_current() const;  // all reported under the current targets
  bool runs_to_ends() const { return !ends_.empty() && raises_ == 0; }
  bool is_on_the_way(uint64_t comm) const;
  std::optional<int64_t> raise_at() const;
  std::optional<int64_t> ordinary_raise_at() const;
  void raise(int64_t now, Actions* out);
  void send_targets(Actions* out);
  void send_drains(Actions* out);
  int64_t attempt_ends() const;
  int64_t patience() const;  // none where others are about to end the job
  bool all_stopped() const;
  void consider_write(int64_t now, Actions* out);
  void consider_publish(int64_t now, Actions* out);
  void give_up_attempt(int64_t now, Actions* out);
  std::string what_is_missing() const;
  std::string who_is_ahead_of(const RankSlot& slot) const;
  void predict();  // targets at the end of an iteration, if all ranks agree on one
  void fail(const std::string& line, int64_t now, Actions* out, bool too_early = false);
  void end_attempt(int64_t now, Actions* out);  // Resume to all, then Discard if a version was begun
  void finish(Outcome outcome, Actions* out);
  void broadcast(const Order& order, Actions* out);

  CutLimits limits_;
  Stage stage_ = Stage::kIdle;
  std::vector<RankSlot> slots_;
  uint64_t attempt_ = 0;  // never reused: late reports are told by it
  uint32_t tries_ = 0;    // attempts of this request
  uint64_t revision_ = 0;
  std::map<uint64_t, uint64_t> targets_;
  uint64_t drain_revision_ = 0;
  uint64_t raises_ = 0;
  bool version_begun_ = false;
  bool discarding_ = false;  // a request waits, since the store does one thing at a time
  std::string missed_;       // what was missing in the attempt before
  std::string failure_;      // of the write stage, reported once every rank's write is over
  int32_t end_status_ = 0;   // 0: ranks go on behind this version
  int64_t held_ = 0;         // by the attempts of this request that are over
  int64_t started_ = 0;      // this attempt; or, while joining or pausing, when that began
  int64_t raised_ = 0;       // the first targets, or the last raise of all that were held
  std::map<uint64_t, uint64_t>
      ends_;              // the targets that are the end of an iteration; empty: nothing was predicted
  int64_t patience_ = 0;  // more time before the first raise: two iterations, if their end is the target
  std::map<uint64_t, int64_t>
      awaited_;              // meetings that ranks are held before and another is inside of: since
  int64_t last_motion_ = 0;  // a rank that is behind did something
  int64_t stop_told_ = 0;
  int64_t last_drains_ = 0;
};

// One rank's side. Every call gets the rank it drives; reports to send are appended to `out`.
class Participant {
 public:
  void receive(LocalRank& rank, const Order& order, std::vector<Report>* out);
  // To be called every poll_period() while that is not 0.
  void poll(LocalRank& rank, std::vector<Report>* out);
  int64_t poll_period() const;  // microseconds; 0: nothing to poll for
  // The exit status with which this process is to leave, its program as it is now; 0: it is not.
  int32_t end_status() const { return end_status_; }
  // The coordinator is gone: whatever was under way is over.
  void abandon(LocalRank& rank);

  void describe(std::string* out) const;

 private:
  enum class Stage { kIdle, kHolding, kStopping, kStopped, kDraining, kWriting, kOver };
  void report_standing(LocalRank& rank, bool even_if_unchanged, std::vector<Report>* out);
  void report_sent(LocalRank& rank, bool stopped, std::vector<Report>* out);

  Stage stage_ = Stage::kIdle;
  uint64_t attempt_ = 0;
  uint64_t revision_ = 0;
  uint64_t drain_revision_ = 0;
  RankStatus last_status_;
  std::vector<PeerCount> last_sent_;
  bool sent_reported_ = false;
  int32_t end_status_ = 0;
};

// Appends to `out` a readable form of a message: traces, and the explorer's state table.
void describe(const Order& order, std::string* out);
void describe(const Report& report, std::string* out);

}  // namespace cropdl::coord
