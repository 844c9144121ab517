// A lock for a few instructions, in plain memory. The LH's may be in the persistent heap: 0 is "free", and no
// cut is taken while a thread is inside the LH. An image has the UH's as it is, with its holder. Any thread.
#pragma once

#include <sched.h>

#include <cstdint>

namespace cropdl::handles {

class SpinLock {
 public:
  void lock() {
    for (unsigned tries = 0; __atomic_exchange_n(&word_, 1u, __ATOMIC_ACQUIRE) != 0; ++tries) {
      if (tries % 64 == 63)
        sched_yield();  // the holder may not be running: there can be more ranks than cores
      __builtin_ia32_pause();
    }
  }
  bool try_lock() { return __atomic_exchange_n(&word_, 1u, __ATOMIC_ACQUIRE) == 0; }
  void unlock() { __atomic_store_n(&word_, 0u, __ATOMIC_RELEASE); }

 private:
  uint32_t word_ = 0;
};

// Locks only if `wanted`, so that single-threaded programs pay only a test.
class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock, bool wanted = true) : lock_(wanted ? &lock : nullptr) {
    if (lock_) lock_->lock();
  }
  ~SpinGuard() {
    if (lock_) lock_->unlock();
  }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock* lock_;
};

}  // namespace cropdl::handles
