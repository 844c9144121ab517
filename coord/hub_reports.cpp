// See hub.h: what people, metrics and tests get to see.

#include "base/format.h"
#include "base/say.h"
#include "base/time.h"
#include "coord/hub.h"

namespace cropdl::coord {

constexpr int64_t kMetricsEvery = 15'000'000;  // us; Prometheus scrapes every 15 s to 60 s
constexpr int64_t kDrawEvery = 1'000'000;      // us

void Hub::draw_progress(int64_t now) {
  next_draw_ = now + kDrawEvery;
  bring_metrics_up_to_date(now);
  progress_->draw(metrics_, ::time(nullptr));
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

void Hub::tell() {
  for (const std::string& line : std::exchange(lines_, {})) config_.report(line);
}

// Reports the same error once: tidying may fail after each version.
void Hub::tell_what_stays(const Status& tidied) {
  if (tidied || tidied.error().message == last_untidy_) return;
  last_untidy_ = tidied.error().message;
  say(last_untidy_);
}

void Hub::say_what_is_awaited(int64_t now) {
  if (!coordinator_.busy() || !asked_by_client_ || now < say_at_) return;
  say_at_ = now + config_.limits.say_again_after;
  const std::string line =
      formatted("waiting for {:.0f} s: {}", in_seconds(now - asked_at_), coordinator_.waits_for());
  for (Connection& c : connections_)
    if (c.waits && !c.broken) send(c, Waiting{line});
}

void Hub::trace_phase() {
  if (!config_.trace_phase || traced_ == coordinator_.phase()) return;
  traced_ = coordinator_.phase();
  // Tracing is for tests; a full disk must not fail the checkpoint.
  [[maybe_unused]] const Status s = write_phase(config_, phase_name(traced_));
}

// For beside_seconds(). To be called before the orders of a new phase are sent.
void Hub::note_whether_it_stands() {
  const bool stands = coordinator_.phase() >= Phase::kStopping;
  if (stands == stands_since_.has_value()) return;
  if (stands) {
    stands_since_ = thread_seconds();
  } else {
    still_seconds_ += thread_seconds() - *stands_since_;
    stands_since_.reset();
  }
}

}  // namespace cropdl::coord
