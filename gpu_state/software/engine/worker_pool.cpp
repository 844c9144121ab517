// The host threads that run blocks. Blocks of a grid start in the order of their numbers, one per thread at a
// time. A block that has used its slice yields to one that has not started, while the multiprocessors have
// room; so blocks that wait for each other all become resident, and then take turns. Grids take turns too,
// but none takes room that blocks of an earlier grid still need: if two grids each wait for all their own
// blocks, the first gets all of its blocks, as on a device. A block that is alone starts on the launching
// thread. With a seed, the choice between starting a block and continuing another is random.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "base/format.h"
#include "gpu_state/software/engine/running.h"
#include "gpu_state/software/threads/threads.h"

namespace cropdl::engine {

namespace {

constexpr int64_t kSlice = 1 << 18;  // backward jumps
constexpr uint32_t kSpins = 64;      // slices without progress, after which a block counts as waiting

}  // namespace

struct WorkerPool::Body {
  struct Job {
    Grid grid;
    uint64_t begun = 0, done = 0, resident = 0;  // blocks
    uint32_t threads = 0, shared = 0;            // per block, for occupancy
    std::deque<Block*> aside;                    // started blocks that wait for a thread
    bool finished() const {
      return grid.stop.load(std::memory_order_relaxed) ? resident == 0 : done == grid.blocks;
    }
  };

  // The capacity of all multiprocessors.
  struct Room {
    uint64_t threads = 0, shared = 0, blocks = 0;
    void add(const Job& job, uint64_t count) {
      count = std::min<uint64_t>(count, 1 << 20);  // more than can fit
      threads += count * job.threads;
      shared += count * job.shared;
      blocks += count;
    }
    bool within(const Room& all) const {
      return threads <= all.threads && shared <= all.shared && blocks <= all.blocks;
    }
  };

  int multiprocessors;
  uint64_t who;
  Multiprocessor each;
  Room all;
  std::mutex mutex;
  std::condition_variable work, ended;
  std::deque<Job*> jobs;                             // in the order of their arrival
  size_t turn = 0;                                   // the job that is asked first
  std::vector<std::optional<pthread_t>> processors;  // one slot per core; empty slots have no thread
  uint64_t there = 0;
  std::vector<std::unique_ptr<Block>> spare;
  uint32_t waiting_threads = 0;
  bool ending = false;
  settings::Chooser chooser{0};

  bool room(const Job& job) const;
  Block* begin(Job& job, uint32_t processor) {
    std::unique_ptr<Block> block;
    if (spare.empty()) {
      block = std::make_unique<Block>();
    } else {
      block = std::move(spare.back());
      spare.pop_back();
    }
    block->grid = &job.grid;
    block->number = job.begun++;
    block->processor = processor;
    ++job.resident;
    return block.release();
  }
  void employ();
  void serve(std::unique_lock<std::mutex>& lock, uint32_t processor, const Job* until);
  bool go_on(std::unique_lock<std::mutex>& lock, Job* job, Block* block, bool fresh);
  bool take(Job** job, Block** block, bool* fresh, uint32_t processor, bool stands_back);
  bool others_only_wait() const;
};

// Whether one more block of the job fits, besides all that earlier grids have or will have.
bool WorkerPool::Body::room(const Job& job) const {
  Room used;
  bool earlier = true;
  for (const Job* one : jobs) {
    bool ends = one->grid.stop.load(std::memory_order_relaxed);
    if (one == &job) earlier = false;
    used.add(*one, earlier && !ends ? one->grid.blocks - one->done : one->resident);
  }
  used.add(job, 1);
  return used.within(all);
}

// Chooses the next block to run, with the mutex held. Returns false if there is none.
bool WorkerPool::Body::take(Job** job, Block** block, bool* fresh, uint32_t processor, bool stands_back) {
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (turn >= jobs.size()) turn = 0;
    Job* one = jobs[turn++];
    bool can_begin = !one->grid.stop.load(std::memory_order_relaxed) && one->begun < one->grid.blocks;
    // Continuing a started block comes first, unless one has used its slice.
    if (can_begin && !one->aside.empty()) can_begin = chooser.random() ? chooser.pick(2) : stands_back;
    if (can_begin && room(*one)) {
      *block = begin(*one, processor % static_cast<uint32_t>(multiprocessors));
      *job = one;
      *fresh = true;
      return true;
    }
    if (!one->aside.empty()) {
      size_t which = chooser.pick(static_cast<uint32_t>(one->aside.size()));
      *block = one->aside[which];
      one->aside.erase(one->aside.begin() + static_cast<long>(which));
      *job = one;
      *fresh = false;
      return true;
    }
  }
  return false;
}

// Whether all blocks without a thread would only wait.
bool WorkerPool::Body::others_only_wait() const {
  for (const Job* one : jobs) {
    for (const Block* block : one->aside)
      if (block->spins <= kSpins) return false;
    if (!one->grid.stop.load(std::memory_order_relaxed) && one->begun < one->grid.blocks && room(*one))
      return false;
  }
  return true;
}

// Starts as many threads as can have work, if the system provides them; with the mutex held.
void WorkerPool::Body::employ() {
  uint64_t most = 0;
  for (const Job* one : jobs) most += one->grid.blocks - one->done;
  for (uint32_t number = 0; number < processors.size() && there < most; ++number) {
    if (processors[number]) continue;
    auto work = [this, number] {
      std::unique_lock lock(mutex);
      serve(lock, number, nullptr);
    };
    pthread_t thread;
    if (!threads::start(work, &thread)) return;
    processors[number] = thread;
    ++there;
  }
}

// Runs one slice of a block and handles its end, after which the job may be complete. Returns whether the
// block continues.
bool WorkerPool::Body::go_on(std::unique_lock<std::mutex>& lock, Job* job, Block* block, bool fresh) {
  lock.unlock();
  if (fresh) block->begin(&job->grid, block->number, who, block->processor);
  SliceEnd end = block->run(block->random ? int64_t{1} << (6 + block->chooser.pick(12)) : kSlice);
  lock.lock();
  if (end == SliceEnd::kSpinning && block->spins > kSpins && others_only_wait()) {
    // It may wait for the host: yield the processor.
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(std::min<uint32_t>(block->spins - kSpins, 1000)));
    lock.lock();
  }
  bool stopped = job->grid.stop.load(std::memory_order_relaxed);
  if (end == SliceEnd::kDone || stopped) {
    ++job->done;
    --job->resident;
    spare.emplace_back(block);
    if (stopped) {
      job->resident -= job->aside.size();
      for (Block* other : job->aside) spare.emplace_back(other);
      job->aside.clear();
    }
    if (job->finished()) {
      jobs.erase(std::find(jobs.begin(), jobs.end(), job));
      ended.notify_all();
    }
    if (waiting_threads && !jobs.empty()) work.notify_all();
  } else {
    job->aside.push_back(block);
    if (waiting_threads) work.notify_one();
  }
  return end != SliceEnd::kDone;
}

// A worker thread's loop; exits when idle for a while. With `until`, runs on another thread while that job
// exists.
void WorkerPool::Body::serve(std::unique_lock<std::mutex>& lock, uint32_t processor, const Job* until) {
  Job* job = nullptr;
  bool stands_back = false;
  for (;;) {
    if (until && std::find(jobs.begin(), jobs.end(), until) == jobs.end()) return;
    Block* block = nullptr;
    bool fresh = false;
    if (!take(&job, &block, &fresh, processor, stands_back)) {
      if (ending) return;
      ++waiting_threads;
      bool timed_out = work.wait_for(lock, settings::kIdle) == std::cv_status::timeout;
      --waiting_threads;
      if (timed_out && jobs.empty() && !until && !ending) {
        pthread_detach(*processors[processor]);  // nobody joins it: it must not access this object any more
        processors[processor].reset();
        --there;
        return;
      }
      stands_back = false;
      continue;
    }
    stands_back = go_on(lock, job, block, fresh);
  }
}

WorkerPool::WorkerPool(int multiprocessors, int cores, uint64_t who, const Multiprocessor& each)
    : body_(std::make_unique<Body>()) {
  body_->multiprocessors = std::max(multiprocessors, 1);
  body_->each = each;
  auto count = static_cast<uint64_t>(body_->multiprocessors);
  body_->all = {count * each.threads, count * each.shared, count * each.blocks};
  if (cores <= 0) cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  body_->processors.resize(static_cast<size_t>(cores));
  body_->who = who;
  body_->chooser = settings::Chooser(who ^ 0x50726f63u);
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(body_->mutex);
    body_->ending = true;
  }
  body_->work.notify_all();
  for (const auto& thread : body_->processors)
    if (thread) pthread_join(*thread, nullptr);
}

int WorkerPool::resident(const Kernel& kernel, uint32_t threads, uint32_t dynamic_shared) const {
  if (!threads || threads > kernel.facts.max_threads) return 0;
  const Multiprocessor& each = body_->each;
  uint64_t shared = kernel.facts.static_shared + dynamic_shared + each.reserved;
  uint64_t by_shared = shared ? each.shared / shared : each.blocks;
  return static_cast<int>(
      std::min<uint64_t>({each.threads / round_up(threads, kLanes), by_shared, each.blocks}));
}

Outcome WorkerPool::run(const Launch& launch) {
  static std::atomic<uint64_t> numbers{0};
  const Kernel& kernel = *launch.kernel;
  Body::Job job;
  Grid& grid = job.grid;
  grid.launch = &launch;
  grid.kernel = &kernel;
  grid.number = ++numbers;
  grid.blocks = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  grid.threads = launch.block[0] * launch.block[1] * launch.block[2];
  grid.warps = (grid.threads + kLanes - 1) / kLanes;
  grid.dynamic_at =
      round_up(static_cast<uint32_t>(kernel.facts.static_shared), static_cast<uint32_t>(kernel.shared_align));
  grid.shared_bytes = launch.dynamic_shared ? grid.dynamic_at + launch.dynamic_shared
                                            : static_cast<uint32_t>(kernel.facts.static_shared);
  grid.local_bytes = static_cast<uint32_t>(kernel.facts.local);
  if (kernel.recursive)
    grid.local_bytes += static_cast<uint32_t>(launch.local_limit ? launch.local_limit : 1024);
  grid.local_bytes = round_up(grid.local_bytes, 16);
  grid.multiprocessors = body_->multiprocessors;
  grid.cooperative = launch.cooperative;
  if (!grid.blocks || !grid.threads || grid.threads > 1024)
    return {CUDA_ERROR_INVALID_VALUE,
            formatted("{}: a grid or block of no possible size", kernel.facts.name)};
  if (launch.parameters.size() < kernel.facts.parameter_bytes)
    return {CUDA_ERROR_INVALID_VALUE, formatted("{}: {} bytes of parameters for {}", kernel.facts.name,
                                                launch.parameters.size(), kernel.facts.parameter_bytes)};
  job.threads = round_up(grid.threads, kLanes);
  job.shared = grid.shared_bytes + body_->each.reserved;
  if (job.shared > body_->each.shared)
    return {CUDA_ERROR_INVALID_VALUE,
            formatted("{}: {} bytes of shared memory in a block", kernel.facts.name, grid.shared_bytes)};

  std::unique_lock lock(body_->mutex);
  const bool alone = grid.blocks == 1 && body_->jobs.empty() && !body_->chooser.random();
  body_->jobs.push_back(&job);
  // Runs the first slice here: waking a thread and being woken takes longer than a short kernel.
  if (alone) body_->go_on(lock, &job, body_->begin(job, 0), true);
  if (!job.finished()) {
    body_->employ();
    body_->work.notify_all();
    // the system provides no thread: this one runs everything
    if (body_->there == 0) body_->serve(lock, 0, &job);
    body_->ended.wait(lock, [&] {
      return job.finished() && std::find(body_->jobs.begin(), body_->jobs.end(), &job) == body_->jobs.end();
    });
  }
  lock.unlock();
  std::lock_guard guard(grid.mutex);
  return grid.outcome;
}

}  // namespace cropdl::engine
