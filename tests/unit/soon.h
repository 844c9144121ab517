// Waiting in a test for an event.
#pragma once

#include <chrono>
#include <thread>

namespace cropdl {

// Waits for up to a minute: normally it takes milliseconds, but the machine may be busy.
template <class F>
bool soon(F condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace cropdl
