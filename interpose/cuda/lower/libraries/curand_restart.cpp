// Repeats all draws and settings of cuRAND's generators, into memory whose contents do not matter. START.
#include <algorithm>
#include <cstdlib>

#include "interpose/cuda/lower/libraries/curand_history.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/real.h"

namespace cropdl::cuda::curand {
namespace {

size_t bytes_of(const Step& s) {
  switch (s.function) {
    case fn::kFn_curandGenerateLongLong:
    case fn::kFn_curandGenerateUniformDouble:
    case fn::kFn_curandGenerateNormalDouble:
    case fn::kFn_curandGenerateLogNormalDouble:
      return s.n * 8;
    default:
      return is_setter(s.function) ? 0 : s.n * 4;
  }
}

// Memory that a device's or the host's generator may write. A device's: preferably a block of the program,
// whose contents are loaded later, since the program may have drawn into more memory than is free.
class Room {
 public:
  Room(size_t bytes, int device, bool on_host) : bytes_(bytes) {
    if (bytes == 0) return;
    if (on_host) {
      at_ = malloc(bytes);
      free_ = [](void* at) { free(at); };
    } else if ((at_ = block(bytes, device))) {
      free_ = [](void*) {};
    } else if (one_abi::function_of<cudaError_t(void**, size_t)>(kCudart, seam::cudart::kFn_cudaMalloc)(
                   &at_, bytes) == cudaSuccess) {
      free_ = [](void* at) { CROPDL_CUDART(cudaFree)(at); };
    } else if (one_abi::function_of<cudaError_t(void**, size_t)>(kCudart, seam::cudart::kFn_cudaMallocHost)(
                   &at_, bytes) == cudaSuccess) {  // the program's may have been, too
      free_ = [](void* at) { CROPDL_CUDART(cudaFreeHost)(at); };
    } else {
      at_ = nullptr;
    }
  }
  ~Room() {
    if (at_) free_(at_);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  bool fine() const { return at_ || bytes_ == 0; }
  void* at() const { return at_; }

 private:
  static void* block(size_t bytes, int device) {
    const auto* its = known_device_memory();
    uint64_t found = 0;
    if (its)
      its->blocks.each([&](const memory::Block* b) {
        if (b->device == device && b->kind != memory::BlockKind::kManaged && b->size >= bytes)
          found = b->begin;
      });
    return reinterpret_cast<void*>(found);
  }

  const size_t bytes_;
  void* at_ = nullptr;
  void (*free_)(void*) = nullptr;
};

}  // namespace

extern "C" {

// Repeats the whole history in place of one draw.
int64_t again_curandGenerate(one_abi::Again& from) {
  const auto g = one_abi::handle_of<curandGenerator_t>(from.handle());
  auto& h = *reinterpret_cast<History*>(from.value<uint64_t>());
  size_t most = 0;
  for (uint32_t i = 0; i < h.run_count; ++i) most = std::max(most, bytes_of(h.run()[i].step));
  const bool on_host = from.value<uint64_t>() != 0;
  const Room room(most, from.device(), on_host);
  if (!room.fine()) return CURAND_STATUS_ALLOCATION_FAILED;
  const auto runs = [&](uint32_t first, uint32_t length) {
    for (const Run* run = h.run() + first; run != h.run() + first + length; ++run)
      for (uint64_t time = 0; time < run->times; ++time)
        if (const auto r = perform(g, run->step, room.at()); r != CURAND_STATUS_SUCCESS) return r;
    return CURAND_STATUS_SUCCESS;
  };
  for (uint32_t l = 0; l < h.loop_count; ++l) {
    const Loop& loop = h.loop()[l];
    for (uint64_t time = 0; time < loop.times; ++time)
      if (const auto r = runs(loop.first, loop.length); r != CURAND_STATUS_SUCCESS) return r;
  }
  const auto r = h.run_count ? runs(h.run_count - 1, 1) : CURAND_STATUS_SUCCESS;
  if (r == CURAND_STATUS_SUCCESS && h.run_count && !on_host &&
      CROPDL_CUDART(cudaDeviceSynchronize)() != cudaSuccess)  // waits for the draws
    return CURAND_STATUS_LAUNCH_FAILURE;
  return r;
}

int64_t again_curandSetStream(one_abi::Again& from) {
  const auto g = one_abi::handle_of<curandGenerator_t>(from.handle());
  return CROPDL_CURAND(curandSetStream)(g, one_abi::handle_of<cudaStream_t>(from.handle()));
}

}  // extern "C"
}  // namespace cropdl::cuda::curand
