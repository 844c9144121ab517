// The participant's side of the agreement, see cut.h. Pure but for its LocalRank; each rank's agent thread.
#include "base/caught.h"
#include "coord/cut.h"

namespace cropdl::coord {

// The rank allocates memory in almost each step. If there is none, its attempt fails.
void Participant::receive(LocalRank& rank, const Order& order, std::vector<Report>* out) {
  const Status obeyed = caught([&] { obey(rank, order, out); });
  if (!obeyed) failed(obeyed, out);
}

void Participant::poll(LocalRank& rank, std::vector<Report>* out) {
  const Status looked = caught([&] { look(rank, out); });
  if (!looked) failed(looked, out);
}

void Participant::failed(const Status& why, std::vector<Report>* out) {
  if (stage_ == Stage::kIdle) return;
  stage_ = Stage::kOver;
  out->push_back(Failed{attempt_, why.error().message});
}

void Participant::obey(LocalRank& rank, const Order& order, std::vector<Report>* out) {
  if (const auto* m = std::get_if<Hold>(&order)) {
    attempt_ = m->attempt;
    revision_ = drain_revision_ = 0;
    last_sent_.clear();
    sent_reported_ = false;
    stage_ = Stage::kHolding;
    rank.hold();
    return report_standing(rank, true, out);
  }
  if (const auto* m = std::get_if<Resume>(&order)) {
    if (m->attempt == attempt_) abandon(rank);
    return;
  }
  if (const auto* m = std::get_if<End>(&order)) {
    if (m->attempt != attempt_ || stage_ == Stage::kIdle) return;
    stage_ = Stage::kIdle;  // the rank is not resumed
    end_status_ = m->status;
    return;
  }
  const uint64_t attempt = std::visit([](const auto& m) { return m.attempt; }, order);
  if (attempt != attempt_ || stage_ == Stage::kIdle || stage_ == Stage::kOver) return;
  if (const auto* m = std::get_if<Targets>(&order)) {
    revision_ = m->revision;
    rank.set_targets(m->targets);
    report_standing(rank, true, out);
  } else if (std::holds_alternative<Stop>(order)) {
    stage_ = Stage::kStopping;
  } else if (const auto* m = std::get_if<Drain>(&order)) {
    drain_revision_ = m->revision;
    stage_ = Stage::kDraining;
    rank.begin_drain(m->expected);
  } else if (const auto* m = std::get_if<Write>(&order)) {
    stage_ = Stage::kWriting;
    rank.begin_write(m->directory);
  }
}

void Participant::look(LocalRank& rank, std::vector<Report>* out) {
  Status failure;
  ImageSummary image;
  switch (stage_) {
    case Stage::kIdle:
    case Stage::kStopped:
    case Stage::kOver:
      return;
    case Stage::kHolding:
      return report_standing(rank, false, out);
    case Stage::kStopping: {
      const bool stopped = rank.try_stop(&failure);
      if (!failure) break;
      if (!stopped) return report_sent(rank, false, out);
      if (const std::string why = rank.refusal_when_stopped(); !why.empty()) {
        stage_ = Stage::kOver;
        out->push_back(Refused{attempt_, why});
        return;
      }
      stage_ = Stage::kStopped;
      return report_sent(rank, true, out);
    }
    case Stage::kDraining:
      if (!rank.drained(&failure) || !failure) break;
      stage_ = Stage::kStopped;
      out->push_back(Drained{attempt_, drain_revision_});
      break;
    case Stage::kWriting:
      if (!rank.written(&failure, &image) || !failure) break;
      stage_ = Stage::kOver;
      out->push_back(Written{attempt_, image});
      break;
  }
  if (!failure) failed(failure, out);
}

// Holding: the program runs, a collective takes up to milliseconds. Stopping and draining: it is waiting.
int64_t Participant::poll_period() const {
  switch (stage_) {
    case Stage::kIdle:
    case Stage::kStopped:
    case Stage::kOver:
      return 0;
    case Stage::kHolding:
      return 1000;
    case Stage::kStopping:
    case Stage::kDraining:
      return 100;
    case Stage::kWriting:
      return 500;
  }
  return 0;
}

void Participant::abandon(LocalRank& rank) {
  if (stage_ == Stage::kIdle) return;
  stage_ = Stage::kIdle;
  rank.resume();
}

void Participant::report_standing(LocalRank& rank, bool even_if_unchanged, std::vector<Report>* out) {
  RankStatus s = rank.status();
  if (!even_if_unchanged && s == last_status_) return;
  last_status_ = s;
  out->push_back(StatusReport{attempt_, revision_, rank.waited(), std::move(s)});
}

void Participant::report_sent(LocalRank& rank, bool stopped, std::vector<Report>* out) {
  std::vector<PeerCount> sent = rank.sent();
  const bool examining = !stopped && rank.examining();
  if (!stopped && sent_reported_ && examining == last_examining_ && sent == last_sent_) return;
  sent_reported_ = true;
  last_examining_ = examining;
  last_sent_ = sent;
  out->push_back(Sent{attempt_, stopped, examining, rank.waited(), std::move(sent)});
}

}  // namespace cropdl::coord
