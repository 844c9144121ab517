// See hub.h: versions taken without a command (by the interval, by a signal, the job's last one); metrics.
#include "base/caught.h"
#include "base/format.h"
#include "base/time.h"
#include "base/words.h"
#include "coord/hub.h"
#include "coord/last_version.h"

namespace cropdl::coord {

// A request during a start or restart (minutes) is retried this often, to succeed soon after the end.
constexpr int64_t kTooEarlyPause = 500'000;  // us
// Without a known version, the cost is estimated from the memory of all ranks, which write to one file
// system: a plain disk or a shared one takes about 500 MB/s. If a fast one would allow the first version much
// earlier, the disk is measured. What still costs more exceeds the bound with the first version, and the next
// waits until that is made up for.
constexpr double kAssumedSpeed = 500e6, kFastDisk = 4e9;  // bytes/s
// us; if that found no fast disk, or could not begin
constexpr int64_t kMeasureAgain = 1800'000'000, kTryToMeasureAgain = 60'000'000;
// s; what a program loses in its first steps after a version (docs/performance.md), which cannot be measured
constexpr double kColdCaches = 0.012;
constexpr int64_t kLookAgain = 1'000'000;      // us; if the version is no longer due
constexpr int64_t kAskAgain = 1'000'000;       // us; after a refused last version
constexpr int64_t kMetricsEvery = 15'000'000;  // us; Prometheus scrapes every 15 s to 60 s

void Hub::at_interval(int64_t now) {
  if (!policy_) {
    // Intervals that pass during a checkpoint do not queue requests.
    next_interval_ = now + in_us(config_.schedule.seconds);
    return request(now);
  }
  policy_->beside(beside_seconds());
  next_interval_ = foresee(now);
  if (now < next_interval_) {
    // Each look costs processor time, which puts the version off a little.
    next_interval_ = std::max(next_interval_, now + kLookAgain);
    return;
  }
  // finished() sets the next one, even if this request is refused because a version is in progress.
  next_interval_ = 0;
  request(now);
}

// When to look again: when the next version is due, or the disk is to be measured: as soon as a fast one
// would allow the version.
int64_t Hub::foresee(int64_t now) {
  if (policy_->measured()) return in_us(policy_->due());
  const auto due_if_it_costs = [this](double cost) {
    policy_->expect(cost);
    return in_us(policy_->due());
  };
  if (config_.plausible_cost > 0) return due_if_it_costs(config_.plausible_cost);
  // The program may have grown since the last estimate.
  if (disk_speed_ > 0) return due_if_it_costs(cost_at(disk_speed_));
  const int64_t soonest = std::max(due_if_it_costs(cost_at(kFastDisk)), measure_at_);
  const int64_t due = due_if_it_costs(cost_at(kAssumedSpeed));
  if (shares_descriptors_ || now >= due || due - soonest <= in_us(config_.worth_measuring)) return due;
  if (now < soonest) return soonest;
  const bool measures = !coordinator_.busy() && publisher_.measure_disk(sink_);
  measure_at_ = now + (measures ? kMeasureAgain : kTryToMeasureAgain);
  return std::min(due, measure_at_);
}

// A slow result may have a reason that passes (a server that hung, a suspended job, the program's own
// output), and one rank alone may be slower than all together. So only a fast one counts.
void Hub::disk_measured(const Result<double>& speed, int64_t now) {
  if (!speed || *speed <= kAssumedSpeed || policy_->measured()) return;
  disk_speed_ = *speed;
  policy_->expect(cost_at(disk_speed_));
  if (next_interval_ == 0) return;  // a version is being taken
  next_interval_ = now;
  if (!config_.quiet)
    say(formatted("the disk takes {} a second: {}", amount(static_cast<uint64_t>(disk_speed_)),
                  policy_->reason()));
}

// What the run costs beside versions: the processor time, which the program may lack, of this thread (without
// what it did while the program stood still) and of removing old versions or measuring the disk; kColdCaches.
double Hub::beside_seconds() const {
  return stands_since_.value_or(thread_seconds()) - still_seconds_ + background_seconds_;
}

double Hub::cost_at(double speed) const {
  if (config_.fastest > 0) speed = std::min(speed, config_.fastest);
  return kAssumedFixed + static_cast<double>(memory_()) * config_.ranks / speed;
}

double Hub::predicted_cost() const {
  if (policy_ && policy_->measured()) return policy_->predicted_cost();
  if (last_cost_ > 0) return last_cost_;
  // The first version's: the speed of an idle disk is no promise for then.
  return config_.former_cost > 0 ? config_.former_cost : cost_at(kAssumedSpeed);
}

static_assert(CutLimits().attempt_bound + CutLimits().retry_pause == kLongestWait * 1e6);

int64_t Hub::last_version_at() const {
  return static_cast<int64_t>(coord::last_version_at(in_seconds(began_), in_seconds(limit_), predicted_cost(),
                                                     in_seconds(static_cast<int64_t>(iterations_.us))) *
                              1e6);
}

void Hub::begin_to_watch_the_limit(int64_t now) {
  if (config_.time_limit == 0) return;
  short_limit_ = now + in_us(std::max(config_.time_limit, 0.0));
  watch_the_limit_if_long_enough(now);
  if (limit_ != 0) return;
  const double left = in_seconds(short_limit_ - now), cost = predicted_cost();
  say(formatted(
      "the time limit is {:.0f} s from now, which is too short for a last version: one may take {:.2g} s, "
      "and {:.2g} s are reserved for it; none is taken for it, unless another version proves quicker",
      left, cost, time_for_last_version(left, cost, in_seconds(static_cast<int64_t>(iterations_.us)))));
}

// The expected cost is a guess, so a limit that is too short for it is examined again after a version.
void Hub::watch_the_limit_if_long_enough(int64_t now) {
  if (short_limit_ == 0) return;
  limit_ = short_limit_;
  if (now < last_version_at()) {
    short_limit_ = 0;
    next_end_ = now;
  } else {
    limit_ = 0;
  }
}

// Programs grow, so the moment moves: check again at half of the remaining time.
void Hub::at_limit(int64_t now) {
  constexpr int64_t kNear = 1'000'000;  // us
  if (now < limit_) {
    const int64_t at = last_version_at();
    next_end_ = now >= at ? limit_ : at - now < 2 * kNear ? at : now + (at - now) / 2;
    if (now >= at && last_for_ == LastFor::kNothing) ask_for_last_version(LastFor::kTimeLimit, now);
    return;
  }
  limit_ = 0;
  if (last_for_ == LastFor::kCommand) return;  // it continues; the job ends after it
  const bool is_under_way = last_for_ != LastFor::kNothing;
  if (is_under_way) why_no_last_ = coordinator_.waits_for();
  say(formatted("no last version was taken before the time limit: {}; the program goes on", why_no_last_));
  if (!is_under_way) return;
  coordinator_.end_with(0);
  take_step(now, &Coordinator::withdraw, "the time limit has passed");
  last_for_ = LastFor::kNothing;  // images in progress become an ordinary version
}

// A version in progress becomes the last: the program does not run between its cut and its end.
void Hub::ask_for_last_version(LastFor why, int64_t now) {
  last_for_ = why;
  look_for_remote_ranks(now);
  Actions out;
  began_for_it_ = coordinator_.request(now, &out, why == LastFor::kCommand);
  if (began_for_it_) asked_by_client_ = false;
  if (why != LastFor::kCommand) coordinator_.hurry();
  coordinator_.end_with(kTryAgainLater);
  carry_out(std::move(out), now);
}

void Hub::got_sigterm(uint32_t rank, int64_t now) {
  terminated_[rank] = true;
  limit_ = short_limit_ = next_end_ = 0;
  if (!lost_.empty()) {  // the launcher ends the other ranks
    if (!std::exchange(told_of_loss_, true))
      config_.report(
          formatted("no last version was taken at SIGTERM: {}; the job dies of it", lost_.front().second));
    return let_die();
  }
  const LastFor former = std::exchange(last_for_, LastFor::kSigterm);
  if (former == LastFor::kNothing) return ask_for_last_version(LastFor::kSigterm, now);
  if (former != LastFor::kSigterm) began_for_it_ = false;  // if that version fails, another one is taken
}

// The launcher decides on the other ranks, as natively.
void Hub::let_die() {
  for (uint32_t r = 0; r < config_.ranks; ++r)
    if (terminated_[r]) to_rank(r, Die{});
  terminated_.assign(config_.ranks, false);
}

// The ranks get End after this returns; then the launcher may give rank 0 little time. So old versions are
// only renamed: the ender of the job may not wait until gigabytes are removed.
void Hub::last_version_is_over(const Outcome& outcome, int64_t now) {
  constexpr const char* kOccasions[] = {"", "before the time limit", "at SIGTERM",
                                        "by `cropdl checkpoint --last`"};  // by LastFor
  const LastFor why = std::exchange(last_for_, LastFor::kNothing);
  if (outcome.published) {
    next_end_ = next_interval_ = 0;
    remove_job_file(config_.directory);
    // What it throws must not keep the End orders from the ranks.
    tell_what_stays(caught([&] { return sink_->set_aside(); }));
    return config_.report(
        formatted("version {} was taken {}; the job ends with status {}, and cropdl-restart {} continues it",
                  outcome.version, kOccasions[static_cast<size_t>(why)], kTryAgainLater, config_.directory));
  }
  if (why == LastFor::kCommand) {  // the client has received the reason
    coordinator_.end_with(0);
    why_no_last_ = outcome.line;
    if (limit_ != 0) next_end_ = now;
    return;
  }
  if (why == LastFor::kSigterm) {
    if (!began_for_it_) {
      next_end_ = now;  // the cause of that failure may not apply to a new request
      return;
    }
    config_.report(formatted("no last version was taken at SIGTERM: {}; the job dies of it", outcome.line));
    return let_die();
  }
  if (limit_ == 0) return;
  // A refusal may pass. With too little time left, the next check reports why there is no version.
  why_no_last_ = outcome.line;
  const bool again = now + kAskAgain + in_us(predicted_cost()) < limit_;
  next_end_ = again ? now + kAskAgain : now;
  if (!again) limit_ = now;
}

// Every version counts for the automatic interval, regardless of its requester.
void Hub::learn(const Outcome& outcome, int64_t now) {
  int64_t earliest = 0;
  policy_->beside(beside_seconds());
  if (outcome.too_early)
    earliest = now + kTooEarlyPause;
  else if (outcome.published)
    policy_->taken(in_seconds(now), outcome.held_seconds);
  else
    policy_->failed(in_seconds(now), outcome.held_seconds);
  next_interval_ = std::max(earliest, in_us(policy_->due()));
  if (!outcome.published) return;
  const double interval = policy_->interval();
  if (interval <= 2 * told_interval_ && told_interval_ <= 2 * interval) return;
  told_interval_ = interval;
  if (!config_.quiet) say(policy_->reason());
}

void Hub::request(int64_t now) {
  look_for_remote_ranks(now);
  Actions out;
  if (!coordinator_.request(now, &out)) return;
  asked_by_client_ = false;
  carry_out(std::move(out), now);
}

void Hub::signalled(int64_t now) {
  asked_by_signal_ = true;
  request(now);
}

void Hub::finished(Outcome outcome, int64_t now) {
  // A rank that has not joined by now never will.
  if (!all_joined() && now >= began_ + in_us(config_.rendezvous_seconds)) outcome.too_early = false;
  again_at_ = outcome.too_early && asked_by_signal_ ? now + kTooEarlyPause : 0;
  asked_by_signal_ = asked_by_signal_ && outcome.too_early;
  const bool ends = outcome.published && last_for_ != LastFor::kNothing;
  last_line_ = outcome.line;
  metrics_.held_seconds += outcome.held_seconds;
  if (outcome.published) {
    last_cost_ = outcome.held_seconds;
    background_seconds_ += kColdCaches;
    if (!ends) publisher_.tidy(sink_);
    ++metrics_.versions;
    metrics_.last_version = outcome.version;
    metrics_.last_version_time = ::time(nullptr);
    metrics_.last_version_bytes = outcome.bytes;
    metrics_.last_version_memory = memory_written_;
    metrics_.last_version_stall = outcome.stall_seconds;
  } else if (!outcome.too_early) {
    ++metrics_.failures;
  }
  if (policy_ && !ends) learn(outcome, now);
  if (outcome.published && !ends) watch_the_limit_if_long_enough(now);
  if (!outcome.too_early) next_metrics_ = now + 1;  // after the Resume orders
  for (Connection& c : connections_)
    if (std::exchange(c.waits, false)) send(c, Done{outcome});
  if (last_for_ != LastFor::kNothing) return last_version_is_over(outcome, now);
  if (asked_by_client_) return;
  if (outcome.too_early) {  // retry when the ranks are ready
    if (next_interval_ != 0) next_interval_ = std::min(next_interval_, now + kTooEarlyPause);
  } else if (outcome.line != last_reported_) {
    if (!outcome.line.empty() && !closes_) say(outcome.line);
    last_reported_ = outcome.line;
  }
}

void Hub::bring_metrics_up_to_date(int64_t now) {
  metrics_.ranks = config_.ranks;
  metrics_.joined = alive();
  metrics_.run_seconds = in_seconds(now - began_);
  if (began_to_tick_) metrics_.beside_seconds = beside_seconds();
  metrics_.next_version.reset();
  if (metrics_.up && next_interval_ != 0)
    metrics_.next_version = in_seconds(std::max<int64_t>(0, next_interval_ - now));
  metrics_.iteration = iterations_.complete;
  metrics_.iteration_seconds = in_seconds(static_cast<int64_t>(iterations_.us));
}

void Hub::write_metrics(int64_t now) {
  if (!metrics_file_) return;
  next_metrics_ = now + kMetricsEvery;
  bring_metrics_up_to_date(now);
  metrics_file_->write(metrics_);
}

}  // namespace cropdl::coord
