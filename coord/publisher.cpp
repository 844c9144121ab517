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

void Publisher::tidy(VersionSink* sink) {
  if (tidying_.exchange(true)) return;
  wait_for_tidy();
  try {
    tidier_ = std::jthread([this, sink] {
      Tidied tidied{caught([&] { return sink->tidy(); })};
      tidied.processor_seconds = thread_seconds();
      tidying_ = false;
      note(std::move(tidied));
    });
  } catch (const std::exception&) {  // no thread available for this user, or no memory
    tidying_ = false;                // the next version tidies
  }
}

}  // namespace cropdl::coord
