// The shim's lock. UH, any thread. Holders call neither the program nor the lower half.
#pragma once

#include <sched.h>

namespace cropdl::shim {

class SpinLock {
 public:
  void lock() {
    // A holder that is running releases the lock within this many rounds.
    constexpr int kRounds = 100;
    for (int round = 0; __atomic_exchange_n(&taken_, 1, __ATOMIC_ACQUIRE); ++round) {
      if (round < kRounds)
        __builtin_ia32_pause();
      else
        sched_yield();
    }
  }
  void unlock() { __atomic_store_n(&taken_, 0, __ATOMIC_RELEASE); }

 private:
  int taken_ = 0;
};

class Locked {
 public:
  explicit Locked(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace cropdl::shim
