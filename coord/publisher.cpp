// See publisher.h.
#include "coord/publisher.h"

#include <exception>
#include <utility>

#include "base/caught.h"
#include "base/time.h"

namespace cropdl::coord {

// More than can wait in ended_: the hub takes one result before it asks for the next, and one tidies beside.
// note() thus allocates nothing, since its threads could not report that they have no memory.
constexpr size_t kMostEnded = 16;

Publisher::Publisher() { ended_.reserve(kMostEnded); }

void Publisher::publish(VersionSink* sink, NewVersion version) {
  run([sink, version = std::move(version)]() -> Ended {
    return caught([&] { return sink->publish(version); });
  });
}

void Publisher::discard(VersionSink* sink) {
  run([sink]() -> Ended {
    // The store discards what is left of a version when the next one begins.
    [[maybe_unused]] const Status s = caught([&] { sink->discard(); });
    return Discarded{};
  });
}

void Publisher::run(const std::function<Ended()>& work) {
  wait();
  try {
    thread_ = std::jthread([this, work] { note(work()); });
  } catch (const std::exception&) {  // no thread available for this user, or no memory: run it on this one
    note(work());
  }
}

void Publisher::note(Ended ended) {
  {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(ended));
  }
  done_.signal();
}

std::optional<Publisher::Ended> Publisher::take() {
  if (!done_.take()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  Ended first = std::move(ended_.front());
  ended_.erase(ended_.begin());
  return first;
}

template <typename Outcome>
bool Publisher::run_beside(const std::function<Outcome(const std::stop_token&)>& work) {
  if (runs_beside_.exchange(true)) return false;
  end(beside_);
  try {
    beside_ = std::jthread([this, work](const std::stop_token& stop) {
      Outcome outcome = caught([&] { return work(stop); });
      runs_beside_ = false;
      note(Beside<Outcome>{std::move(outcome), thread_seconds()});
    });
    return true;
  } catch (const std::exception&) {  // no thread available for this user, or no memory
    runs_beside_ = false;
    return false;
  }
}

void Publisher::tidy(VersionSink* sink) {
  run_beside<Status>([sink](const std::stop_token& /*stop*/) { return sink->tidy(); });
}

bool Publisher::measure_disk(VersionSink* sink) {
  return run_beside<Result<double>>([sink](const std::stop_token& stop) { return sink->measure_disk(stop); });
}

}  // namespace cropdl::coord
