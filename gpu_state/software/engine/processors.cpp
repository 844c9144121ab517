// The host threads on which blocks run. Blocks of a grid begin in the order of their numbers, one per thread
// at a time; more are begun while those that run only wait, as far as the multiprocessors hold them; who goes
// on is then taken in turn. With a seed the choice between beginning one and going on with another is random.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/format.h"
#include "gpu_state/software/engine/running.h"

namespace cropdl::engine {

namespace {

// Of one multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", 9.0).
constexpr uint32_t kThreadsEach = 2048, kBlocksEach = 32, kSharedEach = 228 * 1024;
constexpr uint32_t kSharedOfEachBlock = 1024;  // what the system takes of it
constexpr int64_t kSlice = 1 << 18;            // jumps back

uint32_t round_up(uint32_t value, uint32_t to) { return (value + to - 1) / to * to; }

struct Job {
  Grid grid;
  uint64_t begun = 0, done = 0, resident = 0;  // blocks
  uint32_t threads = 0, shared = 0;            // of a block, as they are accounted
  std::deque<Block*> aside;                    // that were begun and wait for a thread
  bool finished() const {
    return grid.stop.load(std::memory_order_relaxed) ? resident == 0 : done == grid.blocks;
  }
};

}  // namespace

struct Processors::Body {
  int multiprocessors, cores;
  uint64_t who;
  std::mutex mutex;
  std::condition_variable work, ended;
  std::deque<Job*> jobs;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Block>> spare;
  uint64_t used_threads = 0, used_shared = 0, used_blocks = 0;
  uint64_t grids = 0;
  uint32_t waiting_threads = 0;
  bool ending = false;
  settings::Chooser chooser{0};

  bool room(const Job& job) const {
    uint64_t m = static_cast<uint64_t>(multiprocessors);
    return used_threads + job.threads <= m * kThreadsEach && used_shared + job.shared <= m * kSharedEach &&
           used_blocks + 1 <= m * kBlocksEach;
  }
  void account(const Job& job, int sign) {
    used_threads += static_cast<uint64_t>(sign) * job.threads;
    used_shared += static_cast<uint64_t>(sign) * job.shared;
    used_blocks += static_cast<uint64_t>(sign);
  }
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
    account(job, 1);
    return block.release();
  }
  void thread(uint32_t processor);
  bool take(Job** job, Block** block, bool* fresh, uint32_t processor, bool last_spun);
};

// What to run next, behind the mutex. False: there is nothing.
bool Processors::Body::take(Job** job, Block** block, bool* fresh, uint32_t processor, bool last_spun) {
  for (size_t i = 0; i < jobs.size(); ++i) {
    Job* one = jobs.front();  // grids take turns
    jobs.pop_front();
    jobs.push_back(one);
    bool stopped = one->grid.stop.load(std::memory_order_relaxed);
    bool can_begin = !stopped && one->begun < one->grid.blocks && room(*one);
    if (can_begin && !one->aside.empty()) {
      // Going on with one that was begun comes first, unless they only wait.
      if (chooser.random() ? chooser.pick(2) == 0 : !last_spun) can_begin = false;
    }
    if (can_begin) {
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

void Processors::Body::thread(uint32_t processor) {
  std::unique_lock lock(mutex);
  Job* job = nullptr;
  bool spun = false;
  for (;;) {
    Block* block = nullptr;
    bool fresh = false;
    if (!take(&job, &block, &fresh, processor, spun)) {
      if (ending) return;
      ++waiting_threads;
      work.wait(lock);
      --waiting_threads;
      spun = false;
      continue;
    }
    lock.unlock();
    if (fresh) block->begin(&job->grid, block->number, who, block->processor);
    SliceEnd end = block->run(block->random ? int64_t{1} << (6 + block->chooser.pick(12)) : kSlice);
    spun = end == SliceEnd::kSpinning;
    // Whoever it waits for may be the host: leave it the processor.
    if (spun && block->spins > 64)
      std::this_thread::sleep_for(std::chrono::microseconds(std::min<uint32_t>(block->spins - 64, 1000)));
    lock.lock();
    if (end == SliceEnd::kDone || job->grid.stop.load(std::memory_order_relaxed)) {
      ++job->done;
      --job->resident;
      account(*job, -1);
      spare.emplace_back(block);
      if (job->grid.stop.load(std::memory_order_relaxed)) {
        for (Block* other : job->aside) {
          --job->resident;
          account(*job, -1);
          spare.emplace_back(other);
        }
        job->aside.clear();
      }
      if (job->finished()) {
        jobs.erase(std::find(jobs.begin(), jobs.end(), job));
        job = nullptr;
        ended.notify_all();
      }
      if (waiting_threads && !jobs.empty()) work.notify_all();
    } else {
      job->aside.push_back(block);
      if (waiting_threads) work.notify_one();
    }
  }
}

Processors::Processors(int multiprocessors, int cores, uint64_t who) : body_(std::make_unique<Body>()) {
  body_->multiprocessors = std::max(multiprocessors, 1);
  if (cores <= 0) cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  body_->cores = cores;
  body_->who = who;
  body_->chooser = settings::Chooser(who ^ 0x50726f63u);
}

Processors::~Processors() {
  {
    std::lock_guard lock(body_->mutex);
    body_->ending = true;
  }
  body_->work.notify_all();
  for (std::thread& thread : body_->threads) thread.join();
}

int Processors::resident(const Kernel& kernel, uint32_t threads, uint32_t dynamic_shared) const {
  if (!threads || threads > kernel.facts.max_threads) return 0;
  uint32_t shared = static_cast<uint32_t>(kernel.facts.static_shared) + dynamic_shared + kSharedOfEachBlock;
  if (shared > kSharedEach) return 0;
  return static_cast<int>(
      std::min({kThreadsEach / round_up(threads, kLanes), kSharedEach / shared, kBlocksEach}));
}

Outcome Processors::run(const Launch& launch) {
  static std::atomic<uint64_t> numbers{0};
  const Kernel& kernel = *launch.kernel;
  Job job;
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
  job.shared = grid.shared_bytes + kSharedOfEachBlock;
  if (job.shared > kSharedEach)
    return {CUDA_ERROR_INVALID_VALUE,
            formatted("{}: {} bytes of shared memory in a block", kernel.facts.name, grid.shared_bytes)};

  std::unique_lock lock(body_->mutex);
  while (body_->threads.size() < static_cast<size_t>(body_->cores) &&
         body_->threads.size() < grid.blocks + body_->jobs.size())
    body_->threads.emplace_back([body = body_.get(), number = static_cast<uint32_t>(body_->threads.size())] {
      body->thread(number);
    });
  body_->jobs.push_back(&job);
  body_->work.notify_all();
  body_->ended.wait(lock, [&] {
    return job.finished() && std::find(body_->jobs.begin(), body_->jobs.end(), &job) == body_->jobs.end();
  });
  lock.unlock();
  std::lock_guard guard(grid.mutex);
  return grid.outcome;
}

}  // namespace cropdl::engine
