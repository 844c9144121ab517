// Starts all threads of the device, so that the state of the program's threads does not affect the device's
// results, and the device's threads do not affect the program's signals. Any thread.
#pragma once

#include <pthread.h>

#include <cfenv>
#include <functional>

namespace cropdl::threads {

// Runs the work on a new thread: with the default floating-point environment instead of the caller's
// (rounding, flushed subnormals, traps), and with all signals blocked except those raised by its own
// instructions; signals to the process go to the program's threads. False: the system provides no thread, and
// the work does not run. `joined`: for joining it; null: nobody joins.
bool start(std::function<void()> work, pthread_t* joined = nullptr);

// While it exists, its thread has the default floating-point environment: for computations on the program's
// own threads.
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&before_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace cropdl::threads
