#include "gpu_state/software/device/callbacks.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "gpu_state/software/settings/settings.h"
#include "gpu_state/software/threads/threads.h"

namespace cropdl::device {

namespace {

thread_local bool inside = false;

class CallbackThread {
 public:
  void run(const std::function<void()>& function) {
    bool done = false;
    std::unique_lock lock(mutex_);
    calls_.push_back({&function, &done});
    if (has_thread_) {
      called_.notify_one();
    } else {
      has_thread_ = true;
      auto work = [this] {
        std::unique_lock own(mutex_);
        work_off(own, settings::kIdle);
      };
      // If the system provides no thread, this one runs the calls, including those of others.
      if (!threads::start(work)) work_off(lock, std::chrono::milliseconds(0));
    }
    finished_.wait(lock, [&] { return done; });
  }

 private:
  struct Call {
    const std::function<void()>* function;
    bool* done;
  };

  void work_off(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds idle) {
    inside = true;
    while (called_.wait_for(lock, idle, [&] { return !calls_.empty(); })) {
      Call call = calls_.front();
      calls_.pop_front();
      lock.unlock();
      (*call.function)();
      lock.lock();
      *call.done = true;
      finished_.notify_all();
    }
    has_thread_ = false;
    inside = false;
  }

  std::mutex mutex_;
  std::condition_variable called_, finished_;
  std::deque<Call> calls_;
  bool has_thread_ = false;
};

}  // namespace

void call_back(Device* device, const std::function<void()>& function) {
  static auto* mutex = new std::mutex;
  static auto* threads = new std::map<Device*, CallbackThread*>;  // never destroyed
  CallbackThread* thread;
  {
    std::lock_guard lock(*mutex);
    CallbackThread*& of = (*threads)[device];
    if (!of) of = new CallbackThread;
    thread = of;
  }
  thread->run(function);
}

bool inside_callback() { return inside; }

}  // namespace cropdl::device
