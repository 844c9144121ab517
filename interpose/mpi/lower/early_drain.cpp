// The early drain (cut_session.h).
#include <chrono>
#include <exception>
#include <thread>

#include "interpose/mpi/lower/cut_session.h"
#include "interpose/mpi/lower/progress_modes.h"

namespace cropdl::mpi {

// Interval between steps, as on a stopped rank (restart/session/rank.cpp).
constexpr std::chrono::microseconds kNap{200};

void EarlyDrain::run() {
  std::unique_lock lock(step_);
  for (;;) {
    wake_.wait(lock, [this] { return wanted_; });
    set_float_modes(modes_of_sender.load(std::memory_order_relaxed));
    drain_.step_early();
    wake_.wait_for(lock, kNap);
  }
}

void EarlyDrain::start() {
  if (started_ || !multiple) return;
  try {
    std::thread([this] { run(); }).detach();
    started_ = true;
  } catch (const std::exception&) {  // no thread available for this user, or no memory
  }
}

void EarlyDrain::begin() {
  const std::lock_guard lock(step_);
  drain_.begin_early();
  wanted_ = true;
  wake_.notify_one();
}

void EarlyDrain::end() {
  const std::lock_guard lock(step_);
  wanted_ = false;
}

}  // namespace cropdl::mpi
