#include "gpu_state/software/device/callbacks.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

thread_local bool inside = false;

class CallbackThread {
 public:
  void run(const std::function<void()>& function) {
    bool done = false;
    std::unique_lock lock(mutex_);
    calls_.push_back({&function, &done});
    if (!has_thread_) std::thread([this] { work(); }).detach();
    has_thread_ = true;
    called_.notify_one();
    finished_.wait(lock, [&] { return done; });
  }

 private:
  struct Call {
    const std::function<void()>* function;
    bool* done;
  };

  void work() {
    inside = true;
    std::unique_lock lock(mutex_);
    for (;;) {
      if (!called_.wait_for(lock, settings::kIdle, [&] { return !calls_.empty(); })) break;
      Call call = calls_.front();
      calls_.pop_front();
      lock.unlock();
      (*call.function)();
      lock.lock();
      *call.done = true;
      finished_.notify_all();
    }
    has_thread_ = false;
  }

  std::mutex mutex_;
  std::condition_variable called_, finished_;
  std::deque<Call> calls_;
  bool has_thread_ = false;
};

}  // namespace

void call_back(CUcontext context, const std::function<void()>& function) {
  static auto* mutex = new std::mutex;
  static auto* threads = new std::map<Device*, CallbackThread*>;  // never taken down
  CallbackThread* thread;
  {
    std::lock_guard lock(*mutex);
    CallbackThread*& of = (*threads)[context->device];
    if (!of) of = new CallbackThread;
    thread = of;
  }
  thread->run(function);
}

bool inside_callback() { return inside; }

}  // namespace cropdl::device
