// Something that each thread has of its own and that may still be asked for when the thread's own destructors
// have run: a program's static objects are destroyed after the main thread's thread_local ones, and may call
// the API then. The main thread's is never taken down, another thread's goes with it.
#pragma once

#include <unistd.h>

namespace cropdl::device {

template <class T>
class OfThread {
 public:
  static T& get() {
    if (!value) {
      value = new T;
      cleaner.is_wanted = true;
    }
    return *value;
  }

 private:
  struct Cleaner {
    bool is_wanted = false;
    ~Cleaner() {
      if (!is_wanted || getpid() == gettid()) return;
      delete value;
      value = nullptr;
    }
  };
  inline static thread_local T* value = nullptr;
  inline static thread_local Cleaner cleaner;
};

}  // namespace cropdl::device
