// How every thread of the device's begins, so that what a program did to its own threads does not change what
// a device computes, nor a device's threads what the program's signals do. Any thread.
#pragma once

#include <pthread.h>

#include <cfenv>
#include <functional>

namespace cropdl::threads {

// Runs the work on a thread of its own: with the default floating-point environment, not that of whoever
// happened to need it (rounding, flushed subnormals, traps), and with all signals blocked but those that an
// instruction of its own raises: a signal to the process is the program's threads' to take. False: the system
// gives no more threads; nothing was begun. `joined`: to be joined by that; null: nobody waits for it.
bool start(std::function<void()> work, pthread_t* joined = nullptr);

// While it is there, its thread has the default floating-point environment: for what is computed on the
// program's own threads.
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
