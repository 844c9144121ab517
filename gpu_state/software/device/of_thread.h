// A per-thread object that is usable even after the thread's own destructors have run: a program's static
// objects are destroyed after the main thread's thread_local objects and may call the API then. The main
// thread's object is never destroyed, another thread's is destroyed when the thread ends.
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
