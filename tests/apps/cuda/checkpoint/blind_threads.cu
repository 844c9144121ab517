// nvcc: -std=c++17 -Xcompiler -pthread
// run: build=long ways=static,per-thread also=per-thread
// Threads that launch on their own default streams and run far ahead; host functions that access the
// program's data; an unread error in each thread; threads that end and start, one of them while another holds
// a lock.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "saved.h"

constexpr int kThreads = 4, kAhead = 300;
static std::mutex mutex;
static std::condition_variable turn;
static long allowed, arrived[kThreads];
static std::vector<uint32_t> seen[kThreads];
static std::atomic<uint64_t> calls;

__global__ void add(uint32_t* v, uint32_t what) { v[threadIdx.x] = v[threadIdx.x] * 3 + what + threadIdx.x; }

struct Said {
  int thread;
  const uint32_t* value;
};
static Said saids[kThreads];
static void said(void* what) {
  auto* s = static_cast<Said*>(what);
  std::lock_guard<std::mutex> lock(mutex);
  seen[s->thread].push_back(s->value[3]);
  calls++;
}
static void CUDART_CB called(cudaStream_t, cudaError_t status, void* what) {
  if (status == cudaSuccess) said(what);
}

static void work(int id, long until) {
  static uint32_t* memory[kThreads];
  static uint32_t* pinned[kThreads];
  static uint32_t model[kThreads][32];
  if (!memory[id]) {
    CALL(cudaMalloc(&memory[id], 128));
    CALL(cudaMallocHost(&pinned[id], 128));
    CALL(cudaMemset(memory[id], 0, 128));
    CALL(cudaDeviceSynchronize());
    saids[id] = {id, pinned[id]};
  }
  // A failing call sets this thread's next error, which is read only at the thread's end.
  cudaError_t mine = cudaSuccess;
  if (id == 1) {
    void* none;
    mine = cudaMemcpy(nullptr, &none, 8, static_cast<cudaMemcpyKind>(77));
  }
  if (id == 2) {
    add<<<1, 4096, 0, cudaStreamPerThread>>>(memory[id], 0);
    mine = cudaPeekAtLastError();
  }
  if (id == 3) mine = cudaSetDevice(1000);
  if (id > 0) EXPECT(mine != cudaSuccess);
  long step;
  {
    std::lock_guard<std::mutex> lock(mutex);
    step = arrived[id];
  }
  for (; step < until; step++) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      turn.wait(lock, [&] { return allowed > step; });
    }
    if (cudaPeekAtLastError() != mine)
      steplog_fail("thread %d: last error %d, was %d", id, cudaPeekAtLastError(), mine);
    for (int i = 0; i < kAhead; i++) {
      add<<<1, 32, 0, cudaStreamPerThread>>>(memory[id], static_cast<uint32_t>(step + i));
      for (uint32_t t = 0; t < 32; t++) model[id][t] = model[id][t] * 3 + static_cast<uint32_t>(step + i) + t;
    }
    CALL(cudaMemcpyAsync(pinned[id], memory[id], 128, cudaMemcpyDeviceToHost, cudaStreamPerThread));
    if (id % 2)
      CALL(cudaLaunchHostFunc(cudaStreamPerThread, said, &saids[id]));
    else
      CALL(cudaStreamAddCallback(cudaStreamPerThread, called, &saids[id], 0));
    CALL(cudaStreamSynchronize(cudaStreamPerThread));
    EXPECT(!memcmp(pinned[id], model[id], 128));
    std::lock_guard<std::mutex> lock(mutex);
    EXPECT(seen[id].size() == static_cast<size_t>(step) + 1 && seen[id].back() == model[id][3]);
    arrived[id] = step + 1;
    turn.notify_all();
  }
  EXPECT(cudaGetLastError() == mine);
  EXPECT(cudaGetLastError() == cudaSuccess);
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  std::thread threads[kThreads];
  EXPECT(cudaFree(&nonce) != cudaSuccess);  // and the main thread's error
  cudaError_t mine = cudaPeekAtLastError();
  EXPECT(mine != cudaSuccess);
  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    for (int i = 0; i < kThreads; i++) {
      const long life = 5 + 2 * i;  // lifetime of these threads, in steps
      if (step % life == 0) {
        if (threads[i].joinable()) threads[i].join();
        threads[i] = std::thread(work, i, step + life < steplog_steps ? step + life : steplog_steps);
      }
    }
    {
      std::unique_lock<std::mutex> lock(mutex);
      allowed = step + 1;
      turn.notify_all();
      turn.wait(lock, [&] {
        for (long a : arrived)
          if (a <= step) return false;
        return true;
      });
      for (auto& s : seen) steplog_mix(s.back());
    }
    EXPECT(calls == static_cast<uint64_t>(kThreads * (step + 1)));
    EXPECT(cudaPeekAtLastError() == mine);
    steplog_step();
  }
  for (auto& t : threads) t.join();
  EXPECT(cudaGetLastError() == mine);
  nonce.back();
  steplog_ok();
  return 0;
}
