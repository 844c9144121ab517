#include "interpose/mpi/lower/early_drain.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "interpose/mpi/lower/progress_modes.h"
#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {
namespace {

// Interval between steps, as on a stopped rank (restart/session/rank.cpp).
constexpr std::chrono::microseconds kNap{200};

// The draining thread holds it during each step, so end_early_drain waits for the step's end.
std::mutex step;
std::condition_variable wake;
bool wanted = false;   // under `step`
bool started = false;  // at the start, or by the program's main thread

[[noreturn]] void drain_when_wanted() {
  std::unique_lock lock(step);
  for (;;) {
    wake.wait(lock, [] { return wanted; });
    set_float_modes(modes_of_sender.load(std::memory_order_relaxed));
    early_drain_step();
    wake.wait_for(lock, kNap);
  }
}

}  // namespace

void start_early_drain() {
  if (started || !multiple) return;
  try {
    std::thread(drain_when_wanted).detach();
    started = true;
  } catch (const std::exception&) {  // no thread available for this user, or no memory
  }
}

void begin_early_drain() {
  const std::lock_guard lock(step);
  early_drain_begin();
  wanted = true;
  wake.notify_one();
}

void end_early_drain() {
  const std::lock_guard lock(step);
  wanted = false;
}

}  // namespace cropdl::mpi
