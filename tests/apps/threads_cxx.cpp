// C++: std::thread, std::jthread with a stop token, latch, barrier, counting_semaphore, async, call_once,
// thread_local objects with constructors, an exception passed through a future. Waits that pthread_cancel
// ends, or an exception from a handler: the destructors and cleanup handlers on the way run.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

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

static std::atomic<long> cleaned;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_t waiting[3];

struct Cleaned {
  ~Cleaned() { ++cleaned; }
};
struct Locked {
  Locked() { pthread_mutex_lock(&mutex); }
  ~Locked() { pthread_mutex_unlock(&mutex); }
};
static void clean(void*) { ++cleaned; }

static void* sleeps(void*) {
  const Cleaned object;
  for (;;) sleep(1000);
}

static void* polls(void*) {
  const Cleaned object;
  for (;;) poll(nullptr, 0, 1000000);
}

static void* waits_for_a_condition(void*) {
  const Locked lock;
  const timespec end = {time(nullptr) + 1000000, 0};
  pthread_cleanup_push(clean, nullptr);
  for (;;) pthread_cond_timedwait(&never, &mutex, &end);
  pthread_cleanup_pop(0);
}

static void begin_to_wait() {
  void* (*const begin[])(void*) = {sleeps, polls, waits_for_a_condition};
  for (int i = 0; i < 3; i++) STEPLOG_CHECK(pthread_create(&waiting[i], nullptr, begin[i], nullptr) == 0);
}

static void cancel_waiting() {
  const long before = cleaned;
  for (const pthread_t thread : waiting) STEPLOG_CHECK(pthread_cancel(thread) == 0);
  for (const pthread_t thread : waiting) {
    void* result;
    STEPLOG_CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  }
  STEPLOG_CHECK(cleaned == before + 3);
  STEPLOG_CHECK(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
}

struct TimeLimit {
  int signal;
};
static void give_up(int number) { throw TimeLimit{number}; }

// Six values, as many as there are registers that a call preserves.
static void leave_a_wait(bool on_alternate_stack, uint64_t seed) {
  struct sigaction action {};
  action.sa_handler = give_up;
  action.sa_flags = on_alternate_stack ? SA_ONSTACK : 0;
  STEPLOG_CHECK(sigaction(SIGUSR2, &action, nullptr) == 0);
  sigset_t blocked, before;
  sigemptyset(&blocked), sigaddset(&blocked, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  pthread_kill(pthread_self(), SIGUSR2);
  uint64_t state = seed;
  auto value = [&state] { return steplog_random(&state); };
  const uint64_t a = value(), b = value(), c = value(), d = value(), e = value(), f = value();
  try {
    sigsuspend(&before);
    steplog_fail("no exception came from the handler");
  } catch (const TimeLimit& limit) {
    STEPLOG_CHECK(limit.signal == SIGUSR2);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  state = seed;
  STEPLOG_CHECK(a == value() && b == value() && c == value() && d == value() && e == value() && f == value());
}

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
  alignas(16) static char stack[1 << 16];
  const stack_t alternate = {stack, 0, sizeof stack};
  STEPLOG_CHECK(sigaltstack(&alternate, nullptr) == 0);
  begin_to_wait();
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
    leave_a_wait(steplog_done % 2 != 0, total);
    cancel_waiting();
    begin_to_wait();
    steplog_mix(total);
    steplog_step();
  }
  cancel_waiting();
  for (auto& thread : threads) thread.join();
  ticker.request_stop();
  ticker.join();
  STEPLOG_CHECK(beats > 0 && made == ended && made == kThreads + steplog_steps);
  steplog_ok();
  return 0;
}
