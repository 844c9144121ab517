// See publisher.h.
#include "coord/publisher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <system_error>

namespace cropdl::coord {

Publisher::Publisher() : done_(move_high(Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)))) {}

void Publisher::start(VersionSink* sink, std::vector<ImageSummary> images, double stall_seconds) {
  wait();
  result_.reset();
  const auto publish = [this, sink, images = std::move(images), stall_seconds] {
    result_ = sink->publish(images, stall_seconds);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(done_.fd(), &one, sizeof one);
  };
  try {
    thread_ = std::thread(publish);
  } catch (const std::system_error&) {  // no more threads for this user: here and now, then
    publish();
  }
}

std::optional<Result<uint64_t>> Publisher::take() {
  uint64_t count = 0;
  if (read(done_.fd(), &count, sizeof count) != sizeof count) return std::nullopt;
  wait();
  return std::exchange(result_, std::nullopt);
}

void Publisher::wait() {
  if (thread_.joinable()) thread_.join();
}

void Publisher::tidy(VersionSink* sink) {
  if (tidying_.exchange(true)) return;
  wait_for_tidy();
  try {
    tidier_ = std::thread([this, sink] {
      sink->tidy();
      tidying_ = false;
    });
  } catch (const std::system_error&) {  // no more threads for this user: the next version tidies
    tidying_ = false;
  }
}

void Publisher::wait_for_tidy() {
  if (tidier_.joinable()) tidier_.join();
}

}  // namespace cropdl::coord
