#include "interpose/cuda/lower/libraries/curand_history.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "interpose/cuda/lower/memory.h"
#include "interpose/handles/heap.h"

namespace cropdl::cuda::curand {
namespace {

constexpr uint32_t kLongestLoop = 256;    // in runs
constexpr uint32_t kMostRuns = 1u << 20;  // per history

template <class T>
T* one_more_entry(uint64_t& at, uint32_t count, uint32_t& room) {
  if (count == room) {
    const uint32_t more = room ? room * 2 : 4;
    void* grown = handles::heap_allocate(more * sizeof(T));
    if (!grown) return nullptr;
    if (count) memcpy(grown, reinterpret_cast<void*>(at), count * sizeof(T));
    handles::heap_free(reinterpret_cast<void*>(at));
    at = reinterpret_cast<uint64_t>(grown);
    room = more;
  }
  return reinterpret_cast<T*>(at) + count;
}

// If the last runs repeat the runs before them, counts one more pass of the last loop, or makes a new one.
void fold(History& h) {
  const auto same = [&](uint32_t a, uint32_t b, uint32_t n) {
    return std::equal(h.run() + a, h.run() + a + n, h.run() + b);
  };
  uint32_t single = 0;  // loops at the end with one run and one pass
  while (single < h.loop_count && single < 2 * kLongestLoop && h.loop()[h.loop_count - 1 - single].times == 1)
    ++single;
  if (const uint32_t before = h.loop_count - single; before && h.loop()[before - 1].length == single) {
    Loop& last = h.loop()[before - 1];
    if (same(last.first, last.first + single, single)) {
      ++last.times;
      h.loop_count = before;
      h.run_count -= single;
      return;
    }
  }
  for (uint32_t n = 1; n <= kLongestLoop && 2 * n <= single; ++n) {
    if (!same(h.run_count - 2 * n, h.run_count - n, n)) continue;
    h.loop_count -= 2 * n - 1;
    h.run_count -= n;
    h.loop()[h.loop_count - 1] = {2, h.run_count - n, n};
    return;
  }
}

}  // namespace

bool append(History& h, const Step& step) {
  if (h.run_count && h.run()[h.run_count - 1].step == step) {
    ++h.run()[h.run_count - 1].times;
    return true;
  }
  if (h.run_count == kMostRuns) return false;
  if (h.run_count) {  // the previous run becomes part of a loop
    Loop* l = one_more_entry<Loop>(h.loops, h.loop_count, h.loop_room);
    if (!l) return false;
    *l = {1, h.run_count - 1, 1};
    ++h.loop_count;
    fold(h);
  }
  Run* r = one_more_entry<Run>(h.runs, h.run_count, h.run_room);
  if (!r) return false;
  *r = {step, 1};
  ++h.run_count;
  return true;
}

curandStatus_t perform(curandGenerator_t g, const Step& s, void* to) {
  auto* floats = static_cast<float*>(to);
  auto* doubles = static_cast<double*>(to);
  auto* words = static_cast<unsigned*>(to);
  const auto mean = static_cast<float>(s.a), deviation = static_cast<float>(s.b);
  switch (s.function) {
    case fn::kFn_curandSetPseudoRandomGeneratorSeed:
      return CROPDL_CURAND(curandSetPseudoRandomGeneratorSeed)(g, s.n);
    case fn::kFn_curandSetGeneratorOffset:
      return CROPDL_CURAND(curandSetGeneratorOffset)(g, s.n);
    case fn::kFn_curandSetGeneratorOrdering:
      return CROPDL_CURAND(curandSetGeneratorOrdering)(g, static_cast<curandOrdering_t>(s.n));
    case fn::kFn_curandSetQuasiRandomGeneratorDimensions:
      return CROPDL_CURAND(curandSetQuasiRandomGeneratorDimensions)(g, static_cast<unsigned>(s.n));
    case fn::kFn_curandGenerateSeeds:
      return CROPDL_CURAND(curandGenerateSeeds)(g);
    case fn::kFn_curandGenerate:
      return CROPDL_CURAND(curandGenerate)(g, words, s.n);
    case fn::kFn_curandGenerateLongLong:
      return CROPDL_CURAND(curandGenerateLongLong)(g, static_cast<unsigned long long*>(to), s.n);
    case fn::kFn_curandGenerateUniform:
      return CROPDL_CURAND(curandGenerateUniform)(g, floats, s.n);
    case fn::kFn_curandGenerateUniformDouble:
      return CROPDL_CURAND(curandGenerateUniformDouble)(g, doubles, s.n);
    case fn::kFn_curandGenerateNormal:
      return CROPDL_CURAND(curandGenerateNormal)(g, floats, s.n, mean, deviation);
    case fn::kFn_curandGenerateNormalDouble:
      return CROPDL_CURAND(curandGenerateNormalDouble)(g, doubles, s.n, s.a, s.b);
    case fn::kFn_curandGenerateLogNormal:
      return CROPDL_CURAND(curandGenerateLogNormal)(g, floats, s.n, mean, deviation);
    case fn::kFn_curandGenerateLogNormalDouble:
      return CROPDL_CURAND(curandGenerateLogNormalDouble)(g, doubles, s.n, s.a, s.b);
    case fn::kFn_curandGeneratePoisson:
      return CROPDL_CURAND(curandGeneratePoisson)(g, words, s.n, s.a);
    case fn::kFn_curandGeneratePoissonMethod:
      return CROPDL_CURAND(curandGeneratePoissonMethod)(g, words, s.n, s.a,
                                                        static_cast<curandMethod_t>(s.method));
    default:
      return CURAND_STATUS_INTERNAL_ERROR;
  }
}

bool is_setter(uint32_t f) {
  return f == fn::kFn_curandSetPseudoRandomGeneratorSeed || f == fn::kFn_curandSetGeneratorOffset ||
         f == fn::kFn_curandSetGeneratorOrdering || f == fn::kFn_curandSetQuasiRandomGeneratorDimensions;
}

void forget_draws(History& h) {
  Step last[4];
  uint32_t count = 0;
  for (uint32_t i = h.run_count; i-- > 0;) {
    const Step& s = h.run()[i].step;
    if (!is_setter(s.function) || s.function == fn::kFn_curandSetGeneratorOffset ||
        std::any_of(last, last + count, [&](const Step& l) { return l.function == s.function; }))
      continue;
    last[count++] = s;
  }
  h.run_count = h.loop_count = 0;
  while (count) append(h, last[--count]);
}

// --- A restart repeats all draws and settings, into memory whose contents do not matter. START.

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

// A block of the program of at least that size. 0: there is none.
uint64_t block(size_t bytes, int device) {
  uint64_t found = 0;
  if (const auto* its = known_device_memory())
    its->blocks.each([&](const memory::Block* b) {
      if (b->device == device && b->kind != memory::BlockKind::kManaged && b->size >= bytes) found = b->begin;
    });
  return found;
}

// Memory that a device's or the host's generator may write. A device's: preferably a block of the program,
// whose contents are loaded later, since the program may have drawn into more memory than is free.
using Room = std::unique_ptr<void, void (*)(void*)>;
Room room_for(size_t bytes, int device, bool on_host) {
  using Allocate = cudaError_t(void**, size_t);  // cuda_runtime.h overloads the names
  void* at = nullptr;
  if (on_host) return {malloc(bytes), free};
  if (const uint64_t found = block(bytes, device)) return {reinterpret_cast<void*>(found), [](void*) {}};
  if (one_abi::function_of<Allocate>(kCudart, seam::cudart::kFn_cudaMalloc)(&at, bytes) == cudaSuccess)
    return {at, [](void* it) { CROPDL_CUDART(cudaFree)(it); }};
  // The program's may have been, too.
  if (one_abi::function_of<Allocate>(kCudart, seam::cudart::kFn_cudaMallocHost)(&at, bytes) == cudaSuccess)
    return {at, [](void* it) { CROPDL_CUDART(cudaFreeHost)(it); }};
  return {nullptr, free};
}

}  // namespace

extern "C" {

// Repeats the whole history in place of one draw.
int64_t again_curandGenerate(one_abi::Again& from) {
  const auto g = one_abi::handle_of<curandGenerator_t>(from.handle());
  auto& h = *reinterpret_cast<History*>(from.value<uint64_t>());
  size_t most = 0;
  for (uint32_t i = 0; i < h.run_count; ++i) most = std::max(most, bytes_of(h.run()[i].step));
  const bool on_host = from.value<uint64_t>() != 0;
  const Room room = most ? room_for(most, from.device(), on_host) : Room(nullptr, free);
  if (most && !room) return CURAND_STATUS_ALLOCATION_FAILED;
  const auto runs = [&](uint32_t first, uint32_t length) {
    for (const Run* run = h.run() + first; run != h.run() + first + length; ++run)
      for (uint64_t time = 0; time < run->times; ++time)
        if (const auto r = perform(g, run->step, room.get()); r != CURAND_STATUS_SUCCESS) return r;
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
