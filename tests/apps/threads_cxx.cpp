// C++: std::thread, std::jthread with a stop token, latch, barrier, counting_semaphore, async, call_once,
// thread_local objects with constructors, an exception passed through a future.
#include <atomic>
#include <barrier>
#include <future>
#include <latch>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

#pragma GCC diagnostic push
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wdeprecated-volatile"
#else
#pragma GCC diagnostic ignored "-Wvolatile"
#endif
#include "steplog.h"
#pragma GCC diagnostic pop

static std::atomic<long> made, ended;

struct Counted {
  std::vector<uint64_t> values;
  Counted() : values(100, 7) { ++made; }
  ~Counted() { ++ended; }
};
static thread_local Counted counted;

int main(int argc, char** argv) {
  constexpr int kThreads = 3;
  steplog_open(argc, argv, -1);
  std::atomic<uint64_t> beats{0};
  std::jthread ticker([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      ++beats;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  uint64_t sums[kThreads] = {}, total = 0;
  std::barrier meet(kThreads + 1, [&]() noexcept { total = std::accumulate(sums, sums + kThreads, total); });
  std::counting_semaphore<8> slots(0);
  std::vector<std::thread> threads;
  for (int me = 0; me < kThreads; me++)
    threads.emplace_back([&, me] {
      uint64_t state = static_cast<uint64_t>(me);
      for (long round = 0; round < steplog_steps; round++) {
        for (auto& v : counted.values) sums[me] += v += steplog_random(&state);
        meet.arrive_and_wait();
        slots.release();
        meet.arrive_and_wait();
      }
    });
  while (steplog_done < steplog_steps) {
    meet.arrive_and_wait();
    for (int i = 0; i < kThreads; i++) slots.acquire();
    std::latch both(2);
    std::once_flag once;
    std::atomic<int> times{0};
    auto begin = [&](int which) -> uint64_t {
      both.arrive_and_wait();
      std::call_once(once, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        ++times;
      });
      if (which == 1) throw std::runtime_error("as expected");
      return counted.values[0];
    };
    auto a = std::async(std::launch::async, begin, 0), b = std::async(std::launch::async, begin, 1);
    STEPLOG_CHECK(a.get() == 7);
    try {
      b.get();
      steplog_fail("no exception came");
    } catch (const std::runtime_error& error) {
      STEPLOG_CHECK(!strcmp(error.what(), "as expected"));
    }
    STEPLOG_CHECK(times == 1);
    meet.arrive_and_wait();
    steplog_mix(total);
    steplog_step();
  }
  for (auto& thread : threads) thread.join();
  ticker.request_stop();
  ticker.join();
  STEPLOG_CHECK(beats > 0 && made == ended && made == kThreads + steplog_steps);
  steplog_ok();
  return 0;
}
