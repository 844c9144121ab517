// The thread that does a communicator's calls for the streams of a real device, and the pinned memory through
// which they reach it. For each round a stream copies what the rank gives into the memory, writes the round's
// number into one word, waits for it in another, and copies the results out. The thread waits for the first
// word, does the calls, and writes the second. What lies in host memory the thread copies itself, since the
// driver's copies between host and host block the caller. Rounds of one communicator follow each other in
// stream order (launch.cpp), so they share the memory.
//
// The thread calls the driver only when the communicator has ended: a call may wait for the device, which
// waits for the thread.
#pragma once

#include <cuda.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu_state/software/nccl/communicator.h"
#include "gpu_state/software/nccl/rounds.h"

namespace cropdl::nccl {

// Memory of this process, registered for all contexts of the device. Not the driver's: the thread may still
// use it when the driver ends, or the program resets the device.
struct Pinned {
  std::byte* address = nullptr;
  size_t bytes = 0;
};

class Proxy {
 public:
  // With the communicator's context current. Null: the driver, or the system, gives no memory or thread; the
  // reason is set (failed()). When the last pointer to it goes, it ends itself once no stream needs it.
  static std::shared_ptr<Proxy> make(CUcontext context);

  // Adds the round to the stream. One thread at a time.
  CUresult add(const Communicator& communicator, CUstream stream, const Round& round);
  // After a launch's last round.
  CUresult end_launch(CUstream stream) { return cuEventRecord(passed_, stream); }

 private:
  struct Words {
    alignas(64) std::atomic<uint64_t> reached;  // the last round that the stream has reached
    alignas(64) std::atomic<uint64_t> done;     // … that the thread has done
  };
  struct Copy {
    void* to;
    const void* from;
    size_t bytes;
  };
  struct Task {
    Communicator communicator;
    uint64_t number;
    std::vector<Call> calls;
    std::vector<const std::byte*> scalars;  // of each call, in staging memory, or null
    std::vector<Copy> in, out;              // between host memory and host memory
  };

  explicit Proxy(CUcontext context) : context_(context) {}
  ~Proxy();
  bool begin();
  bool pin(size_t bytes, CUresult* result);
  void work();
  void wait_until_reached(uint64_t number) const;
  static void perform(Task* task);
  void wait_until_passed() const;

  const CUcontext context_;
  CUevent passed_ = nullptr;    // the last launch's end
  std::vector<Pinned> pinned_;  // the words, and staging memory; the last one is in use
  Words* words_ = nullptr;
  CUdeviceptr reached_ = 0, done_ = 0;  // the words, for the device
  uint64_t number_ = 0;                 // of the last round

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool ended_ = false;  // the communicator is gone
};

}  // namespace cropdl::nccl
