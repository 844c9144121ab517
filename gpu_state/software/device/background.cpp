#include "gpu_state/software/device/background.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

struct Background {
  std::mutex mutex;
  std::condition_variable added;
  std::deque<std::function<void()>> functions;
  size_t idle = 0;

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      ++idle;
      bool is_wanted = added.wait_for(lock, settings::kIdle, [&] { return !functions.empty(); });
      --idle;
      if (!is_wanted) return;
      std::function<void()> function = std::move(functions.front());
      functions.pop_front();
      lock.unlock();
      function();
      function = nullptr;
      lock.lock();
    }
  }
};

}  // namespace

void in_background(std::function<void()> function) {
  static auto* background = new Background;
  std::lock_guard lock(background->mutex);
  background->functions.push_back(std::move(function));
  // One that is idle may already have been promised another function: each gets a thread, as they may wait
  // for each other.
  if (background->functions.size() > background->idle)
    std::thread([] { background->work(); }).detach();
  else
    background->added.notify_one();
}

}  // namespace cropdl::device
