#include "gpu_state/software/device/background.h"

#include <condition_variable>
#include <deque>
#include <mutex>

#include "gpu_state/software/settings/settings.h"
#include "gpu_state/software/threads/threads.h"

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

bool in_background(std::function<void()> function) {
  static auto* background = new Background;
  std::lock_guard lock(background->mutex);
  background->functions.push_back(std::move(function));
  // An idle thread may already be assigned to another function. Each function gets a thread, since they may
  // wait for each other.
  if (background->functions.size() <= background->idle) {
    background->added.notify_one();
  } else if (!threads::start([] { background->work(); })) {
    background->functions.pop_back();
    return false;
  }
  return true;
}

}  // namespace cropdl::device
