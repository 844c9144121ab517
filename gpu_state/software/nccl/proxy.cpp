#include "gpu_state/software/nccl/proxy.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

#include "base/format.h"
#include "gpu_state/software/nccl/work.h"
#include "gpu_state/software/threads/threads.h"

namespace cropdl::nccl {

namespace {

constexpr size_t kPage = 4096;

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

// Where this process accesses it, if it is host memory that the device knows; else null.
void* host_address(const void* address) {
  CUmemorytype type{};
  unsigned managed = 0;
  void* host = nullptr;
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                 CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &managed, &host};
  if (cuPointerGetAttributes(3, which, values, address_of(address)) != CUDA_SUCCESS) return nullptr;
  return type == CU_MEMORYTYPE_HOST && !managed ? host : nullptr;
}

// Captures of other threads do not forbid what the library does itself.
class Relaxed {
 public:
  Relaxed() { cuThreadExchangeStreamCaptureMode(&mode_); }
  ~Relaxed() { cuThreadExchangeStreamCaptureMode(&mode_); }
  Relaxed(const Relaxed&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

std::shared_ptr<Proxy> Proxy::make(CUcontext context) {
  auto* proxy = new Proxy(context);
  if (!proxy->begin()) {
    delete proxy;
    return nullptr;
  }
  return {proxy, [](Proxy* one) {
            std::lock_guard lock(one->mutex_);
            one->ended_ = true;
            one->wake_.notify_one();
          }};
}

Proxy::~Proxy() {
  const Relaxed relaxed;
  for (const Pinned& one : pinned_) {
    cuMemHostUnregister(one.address);
    munmap(one.address, one.bytes);
  }
  if (passed_) cuEventDestroy(passed_);
}

bool Proxy::begin() {
  CUresult result = CUDA_SUCCESS;
  if (!pin(kPage, &result)) return failed(taken(result), "no pinned memory for a communicator"), false;
  words_ = new (pinned_.front().address) Words{};
  CUdeviceptr words = 0;
  result = cuMemHostGetDevicePointer(&words, words_, 0);
  reached_ = words + offsetof(Words, reached);
  done_ = words + offsetof(Words, done);
  if (result == CUDA_SUCCESS) result = cuEventCreate(&passed_, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) return taken(result), false;
  if (!pin(kStaging, &result)) return failed(taken(result), "no pinned memory for a communicator"), false;
  if (threads::start([this] { work(); })) return true;
  failed(ncclSystemError, "the system gives no thread for a communicator");
  return false;
}

bool Proxy::pin(size_t bytes, CUresult* result) {
  const Relaxed relaxed;
  void* made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *result = made == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  if (made == MAP_FAILED) return false;
  madvise(made, bytes, MADV_DONTFORK);  // else a write after a fork would go to a page of its own
  *result = cuMemHostRegister(made, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (*result == CUDA_SUCCESS)
    pinned_.push_back({static_cast<std::byte*>(made), bytes});
  else
    munmap(made, bytes);
  return *result == CUDA_SUCCESS;
}

CUresult Proxy::add(const Communicator& communicator, CUstream stream, const Round& round) {
  // Earlier rounds may still use the smaller memory: it stays until the end, less than the new one in all.
  if (CUresult result = CUDA_SUCCESS; round.bytes > pinned_.back().bytes)
    if (!pin((std::max(round.bytes, 2 * pinned_.back().bytes) + kPage - 1) / kPage * kPage, &result))
      return result;
  std::byte* memory = pinned_.back().address;
  Task task{communicator, ++number_, {}, {}, {}, {}};
  for (const StagedCopy& copy : round.in) {
    if (const void* host = host_address(copy.address))
      task.in.push_back({memory + copy.at, host, copy.bytes});
    else if (CUresult result =
                 cuMemcpyDtoHAsync(memory + copy.at, address_of(copy.address), copy.bytes, stream))
      return result;
  }
  for (const StagedCall& staged : round.calls) {
    task.calls.push_back(staged.call);
    task.calls.back().send = memory + staged.send;
    task.calls.back().receive = memory + staged.receive;
    task.scalars.push_back(staged.call.device_scalar ? memory + staged.scalar : nullptr);
  }
  std::vector<StagedCopy> out;
  for (const StagedCopy& copy : round.out) {
    if (void* host = host_address(copy.address))
      task.out.push_back({host, memory + copy.at, copy.bytes});
    else
      out.push_back(copy);
  }
  if (CUresult result = cuStreamWriteValue64(stream, reached_, number_, CU_STREAM_WRITE_VALUE_DEFAULT))
    return result;
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  wake_.notify_one();
  if (CUresult result = cuStreamWaitValue64(stream, done_, number_, CU_STREAM_WAIT_VALUE_GEQ)) return result;
  for (const StagedCopy& copy : out)
    if (CUresult result = cuMemcpyHtoDAsync(address_of(copy.address), memory + copy.at, copy.bytes, stream))
      return result;
  return CUDA_SUCCESS;
}

void Proxy::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return !tasks_.empty() || ended_; });
    if (tasks_.empty()) break;
    Task& task = tasks_.front();  // only this thread removes tasks
    lock.unlock();
    wait_until_reached(task.number);
    perform(&task);
    words_->done.store(task.number);
    lock.lock();
    Task finished = std::move(task);
    tasks_.pop_front();
    lock.unlock();
    finished = {};  // perhaps the last pointer to the communicator
    lock.lock();
  }
  lock.unlock();
  cuCtxSetCurrent(context_);
  wait_until_passed();
  delete this;
}

void Proxy::wait_until_reached(uint64_t number) const {
  constexpr int kQuick = 200;
  std::chrono::microseconds pause(10);
  constexpr std::chrono::microseconds kLongest(500);
  for (int i = 0; words_->reached.load() < number; i++) {
    if (i < kQuick) {
      sched_yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongest);
  }
}

void Proxy::perform(Task* task) {
  ncclComm& communicator = *task->communicator;
  std::lock_guard running(communicator.running);
  // The stream continues without what follows an end or an error.
  if (communicator.aborted.load() || communicator.error.load() == ncclInvalidUsage) return;
  for (const Copy& copy : task->in) std::memcpy(copy.to, copy.from, copy.bytes);
  for (size_t i = 0; i < task->calls.size(); i++)
    if (task->scalars[i])
      std::memcpy(task->calls[i].reduction.scalar, task->scalars[i], size_of(task->calls[i].datatype));
  if (nccl::perform(&communicator, task->calls))
    for (const Copy& copy : task->out) std::memcpy(copy.to, copy.from, copy.bytes);
}

void Proxy::wait_until_passed() const {
  const Relaxed relaxed;
  while (cuEventQuery(passed_) == CUDA_ERROR_NOT_READY)  // another error: its context has ended
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace cropdl::nccl
