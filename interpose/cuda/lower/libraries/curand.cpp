// cuRAND. No function returns a generator's position in its sequence, and no offset can represent it. So
// draws and settings are recorded, and a restart repeats them, into memory whose contents do not matter.
// Loops become one entry with a count. LH, LH FS base, threads of the program; START.
#include <curand.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "curand_functions.h"
#include "interpose/cuda/lower/graphs.h"
#include "interpose/cuda/lower/memory.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/handles/heap.h"
#include "interpose/one_abi/kinds.h"
#include "interpose/one_abi/state.h"

namespace rt = cropdl::one_abi;
namespace kind = rt::kind;
namespace handles = cropdl::handles;
namespace curand = cropdl::seam::curand;
namespace cudart = cropdl::seam::cudart;
using cropdl::cuda::captures_expected;
using cropdl::cuda::kCudart;
using cropdl::cuda::known_device_memory;
namespace memory = cropdl::memory;

extern const cropdl::one_abi::RealLibrary cropdl_curand_lower_table_library;

namespace {

const rt::RealLibrary& kCurand = cropdl_curand_lower_table_library;
#define CROPDL_CURAND(name) (rt::function_of<decltype(name)>(kCurand, curand::kFn_##name))

// --- The history, in the persistent heap: append-only.

struct Step {
  uint32_t function;
  uint32_t method;
  uint64_t n;  // count of numbers, or a setter's value
  double a, b;
  bool operator==(const Step& other) const { return memcmp(this, &other, sizeof *this) == 0; }
};
static_assert(sizeof(Step) == 32);

// A step repeated `times` times.
struct Run {
  Step step;
  uint64_t times;
  bool operator==(const Run& other) const { return step == other.step && times == other.times; }
};

// Some runs, repeated `times` times.
struct Loop {
  uint64_t times;
  uint32_t first, length;  // in the history's runs
};

// All runs in their order. Each is in one loop, except the last, which may still grow.
struct History {
  uint64_t runs, loops;  // addresses
  uint32_t run_count, run_room;
  uint32_t loop_count, loop_room;
  uint64_t stream;  // set by the program (its handle)
  uint64_t reserved[3];
  Run* run() { return reinterpret_cast<Run*>(runs); }
  Loop* loop() { return reinterpret_cast<Loop*>(loops); }
};
constexpr uint32_t kLongestLoop = 256;    // in runs
constexpr uint32_t kMostRuns = 1u << 20;  // per history
// kinds of state, for keep_state()
constexpr uint64_t kHistory = 0x6375'7261'6e64, kStream = 0x7374'7265'616d;

std::mutex histories_mutex;

template <class T>
T* one_more(uint64_t& at, uint32_t count, uint32_t& room) {
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

// If the last runs repeat the runs before them, counts one more pass of a loop, or makes a new loop of two. A
// loop that is no longer at the end stays unchanged.
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

bool append(History& h, const Step& step) {
  if (h.run_count && h.run()[h.run_count - 1].step == step) {
    ++h.run()[h.run_count - 1].times;
    return true;
  }
  if (h.run_count == kMostRuns) return false;
  if (h.run_count) {  // the previous run becomes part of a loop
    Loop* l = one_more<Loop>(h.loops, h.loop_count, h.loop_room);
    if (!l) return false;
    *l = {1, h.run_count - 1, 1};
    ++h.loop_count;
    fold(h);
  }
  Run* r = one_more<Run>(h.runs, h.run_count, h.run_room);
  if (!r) return false;
  *r = {step, 1};
  ++h.run_count;
  return true;
}

bool is_setter(uint32_t f) {
  return f == curand::kFn_curandSetPseudoRandomGeneratorSeed || f == curand::kFn_curandSetGeneratorOffset ||
         f == curand::kFn_curandSetGeneratorOrdering ||
         f == curand::kFn_curandSetQuasiRandomGeneratorDimensions;
}

// An offset starts anew. Of the earlier steps, keeps only the last value of each setter.
void forget_draws(History& h) {
  Step last[4];
  uint32_t count = 0;
  for (uint32_t i = h.run_count; i-- > 0;) {
    const Step& s = h.run()[i].step;
    if (!is_setter(s.function) || s.function == curand::kFn_curandSetGeneratorOffset ||
        std::any_of(last, last + count, [&](const Step& l) { return l.function == s.function; }))
      continue;
    last[count++] = s;
  }
  h.run_count = h.loop_count = 0;
  while (count) append(h, last[--count]);
}

handles::Slot* slot_of(curandGenerator_t g) { return rt::slot_of(rt::word_of(g)); }

// Null: no memory.
History* history_of(handles::Slot* slot, curandGenerator_t generator) {
  auto* h = reinterpret_cast<History*>(slot->owner[2]);
  if (h || !(h = static_cast<History*>(handles::heap_allocate(sizeof(History))))) return h;
  slot->owner[2] = reinterpret_cast<uint64_t>(h);
  rt::RecipeWriter recipe;
  recipe.handle(rt::word_of(generator));
  recipe.value(slot->owner[2]);
  recipe.value<uint64_t>((slot->maker & 0xffff) == curand::kFn_curandCreateGeneratorHost);
  rt::keep_state(rt::word_of(generator), kCurand, curand::kFn_curandGenerate, kHistory, rt::Key(), recipe);
  return h;
}

// Records a step that the generator has done.
void note(curandGenerator_t generator, uint32_t function, Step step) {
  handles::Slot* slot = slot_of(generator);
  if (!slot) return;
  const std::lock_guard guard(histories_mutex);
  History* const h = history_of(slot, generator);
  if (!h) return rt::mark_unsaved(kCurand, function, "the persistent heap is full");
  step.function = function;
  if (function == curand::kFn_curandSetGeneratorOffset) forget_draws(*h);
  if (!append(*h, step))
    rt::mark_unsaved(kCurand, function,
                     "a generator has drawn more than can be done again, in no order that repeats");
}

curandGenerator_t real(curandGenerator_t g) { return rt::real(g, kind::curandGenerator); }

// Whether the generator's stream is being captured. Each launch of the graph then draws, an unknown number of
// times.
bool is_captured(curandGenerator_t g) {
  const handles::Slot* slot = captures_expected ? slot_of(g) : nullptr;
  const auto* h = slot ? reinterpret_cast<const History*>(slot->owner[2]) : nullptr;
  if (!h || !h->stream) return false;
  if (const handles::Slot* its = rt::slot_of(h->stream); its && its->state != handles::kLive) return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error =
      CROPDL_CUDART(cudaStreamIsCapturing)(rt::handle_of<cudaStream_t>(rt::real_word(h->stream)), &status);
  if (error != cudaSuccess) CROPDL_CUDART(cudaGetLastError)();  // not the program's error
  return status != cudaStreamCaptureStatusNone;
}

// A draw, done by `draw`.
template <class Draw>
curandStatus_t drawn(curandGenerator_t g, uint32_t function, Step step, Draw draw) {
  const bool captured = is_captured(g);
  const curandStatus_t r = draw(real(g));
  if (captured)
    rt::lose_recipe(rt::word_of(g), kCurand, function);
  else if (r == CURAND_STATUS_SUCCESS)
    note(g, function, step);
  return r;
}

curandStatus_t done(curandStatus_t r, curandGenerator_t g, uint32_t function, Step step) {
  if (r == CURAND_STATUS_SUCCESS) note(g, function, step);
  return r;
}

// --- A restart.

size_t bytes_of(const Step& s) {
  switch (s.function) {
    case curand::kFn_curandGenerateLongLong:
    case curand::kFn_curandGenerateUniformDouble:
    case curand::kFn_curandGenerateNormalDouble:
    case curand::kFn_curandGenerateLogNormalDouble:
      return s.n * 8;
    default:
      return is_setter(s.function) ? 0 : s.n * 4;
  }
}

curandStatus_t do_again(curandGenerator_t g, const Step& s, void* to) {
  auto* floats = static_cast<float*>(to);
  auto* doubles = static_cast<double*>(to);
  auto* words = static_cast<unsigned*>(to);
  const auto mean = static_cast<float>(s.a), deviation = static_cast<float>(s.b);
  switch (s.function) {
    case curand::kFn_curandSetPseudoRandomGeneratorSeed:
      return CROPDL_CURAND(curandSetPseudoRandomGeneratorSeed)(g, s.n);
    case curand::kFn_curandSetGeneratorOffset:
      return CROPDL_CURAND(curandSetGeneratorOffset)(g, s.n);
    case curand::kFn_curandSetGeneratorOrdering:
      return CROPDL_CURAND(curandSetGeneratorOrdering)(g, static_cast<curandOrdering_t>(s.n));
    case curand::kFn_curandSetQuasiRandomGeneratorDimensions:
      return CROPDL_CURAND(curandSetQuasiRandomGeneratorDimensions)(g, static_cast<unsigned>(s.n));
    case curand::kFn_curandGenerateSeeds:
      return CROPDL_CURAND(curandGenerateSeeds)(g);
    case curand::kFn_curandGenerate:
      return CROPDL_CURAND(curandGenerate)(g, words, s.n);
    case curand::kFn_curandGenerateLongLong:
      return CROPDL_CURAND(curandGenerateLongLong)(g, static_cast<unsigned long long*>(to), s.n);
    case curand::kFn_curandGenerateUniform:
      return CROPDL_CURAND(curandGenerateUniform)(g, floats, s.n);
    case curand::kFn_curandGenerateUniformDouble:
      return CROPDL_CURAND(curandGenerateUniformDouble)(g, doubles, s.n);
    case curand::kFn_curandGenerateNormal:
      return CROPDL_CURAND(curandGenerateNormal)(g, floats, s.n, mean, deviation);
    case curand::kFn_curandGenerateNormalDouble:
      return CROPDL_CURAND(curandGenerateNormalDouble)(g, doubles, s.n, s.a, s.b);
    case curand::kFn_curandGenerateLogNormal:
      return CROPDL_CURAND(curandGenerateLogNormal)(g, floats, s.n, mean, deviation);
    case curand::kFn_curandGenerateLogNormalDouble:
      return CROPDL_CURAND(curandGenerateLogNormalDouble)(g, doubles, s.n, s.a, s.b);
    case curand::kFn_curandGeneratePoisson:
      return CROPDL_CURAND(curandGeneratePoisson)(g, words, s.n, s.a);
    case curand::kFn_curandGeneratePoissonMethod:
      return CROPDL_CURAND(curandGeneratePoissonMethod)(g, words, s.n, s.a,
                                                        static_cast<curandMethod_t>(s.method));
    default:
      return CURAND_STATUS_INTERNAL_ERROR;
  }
}

// Memory that a device's or the host's generator may write. For a device generator, first choice is a large
// enough block of the program, whose contents are loaded later: the program may have drawn into more memory
// than is free.
class Room {
 public:
  Room(size_t bytes, int device, bool on_host) : fine_(bytes == 0) {
    if (bytes == 0) return;
    if (on_host) {
      at_ = malloc(bytes);
      free_ = [](void* at) { free(at); };
    } else if ((at_ = block(bytes, device))) {
      free_ = [](void*) {};
    } else if (rt::function_of<cudaError_t(void**, size_t)>(kCudart, cudart::kFn_cudaMalloc)(&at_, bytes) ==
               cudaSuccess) {
      free_ = [](void* at) { CROPDL_CUDART(cudaFree)(at); };
    } else if (rt::function_of<cudaError_t(void**, size_t)>(kCudart, cudart::kFn_cudaMallocHost)(
                   &at_, bytes) == cudaSuccess) {  // the program's may have been, too
      free_ = [](void* at) { CROPDL_CUDART(cudaFreeHost)(at); };
    } else {
      at_ = nullptr;
    }
    fine_ = at_ != nullptr;
  }
  ~Room() {
    if (at_) free_(at_);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  bool fine() const { return fine_; }
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

  void* at_ = nullptr;
  void (*free_)(void*) = nullptr;
  bool fine_;
};

// The library's tables, copied to the persistent heap, since the program keeps their addresses.
struct Tables {
  uint64_t of[8];
};
enum Table : uint32_t { kVectors32, kVectors64 = 2, kConstants32 = 4, kConstants64 };
// Dimensions of the library (curand.h: "20,000 dimensions").
constexpr size_t kDimensions = 20000;

const void* kept_table(uint32_t which, const void* from, size_t bytes, uint32_t function) {
  if (!rt::need_family()) return from;
  const std::lock_guard guard(histories_mutex);
  uint64_t& member = rt::family->members[rt::kMemberCurand];
  if (!member) member = reinterpret_cast<uint64_t>(handles::heap_allocate(sizeof(Tables)));
  auto* tables = reinterpret_cast<Tables*>(member);
  if (tables && !tables->of[which]) {
    void* copy = handles::heap_allocate(bytes);
    if (copy) memcpy(copy, from, bytes);
    tables->of[which] = reinterpret_cast<uint64_t>(copy);
  }
  if (tables && tables->of[which]) return reinterpret_cast<const void*>(tables->of[which]);
  rt::mark_unsaved(kCurand, function, "the persistent heap is full");
  return from;
}

template <class V>
curandStatus_t vectors(curandStatus_t r, V** out, uint32_t which, uint32_t function) {
  if (r == CURAND_STATUS_SUCCESS)
    *out = static_cast<V*>(const_cast<void*>(kept_table(which, *out, kDimensions * sizeof(V), function)));
  return r;
}

}  // namespace

extern "C" {

curandStatus_t lower_curandDestroyGenerator(curandGenerator_t g) {
  rt::Call call;
  const curandStatus_t r = CROPDL_CURAND(curandDestroyGenerator)(real(g));
  if (r != CURAND_STATUS_SUCCESS) return r;
  if (handles::Slot* slot = slot_of(g)) {
    const std::lock_guard guard(histories_mutex);
    if (auto* h = reinterpret_cast<History*>(slot->owner[2])) {
      handles::heap_free(reinterpret_cast<void*>(h->runs));
      handles::heap_free(reinterpret_cast<void*>(h->loops));
      handles::heap_free(h);
    }
    slot->owner[2] = 0;
  }
  rt::forget_word(rt::word_of(g));
  return r;
}

// Repeats the whole history in place of one draw.
int64_t again_curandGenerate(rt::Again& from) {
  const auto g = rt::handle_of<curandGenerator_t>(from.handle());
  auto& h = *reinterpret_cast<History*>(from.value<uint64_t>());
  size_t most = 0;
  for (uint32_t i = 0; i < h.run_count; ++i) most = std::max(most, bytes_of(h.run()[i].step));
  const bool on_host = from.value<uint64_t>() != 0;
  const Room room(most, from.device(), on_host);
  if (!room.fine()) return CURAND_STATUS_ALLOCATION_FAILED;
  const auto runs = [&](uint32_t first, uint32_t length) {
    for (const Run* run = h.run() + first; run != h.run() + first + length; ++run)
      for (uint64_t time = 0; time < run->times; ++time)
        if (const auto r = do_again(g, run->step, room.at()); r != CURAND_STATUS_SUCCESS) return r;
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

#define SETTER(name, type)                                                                                  \
  curandStatus_t lower_##name(curandGenerator_t g, type value) {                                            \
    rt::Call call;                                                                                          \
    return done(CROPDL_CURAND(name)(real(g), value), g, curand::kFn_##name, {0, 0, (uint64_t)value, 0, 0}); \
  }
SETTER(curandSetPseudoRandomGeneratorSeed, unsigned long long)
SETTER(curandSetGeneratorOffset, unsigned long long)
SETTER(curandSetGeneratorOrdering, curandOrdering_t)
SETTER(curandSetQuasiRandomGeneratorDimensions, unsigned)
#undef SETTER

// is_captured() uses the stream.
curandStatus_t lower_curandSetStream(curandGenerator_t g, cudaStream_t stream) {
  rt::Call call;
  rt::RecipeWriter recipe;
  recipe.handle(rt::word_of(g));
  recipe.handle(rt::word_of(stream));
  const curandStatus_t r = CROPDL_CURAND(curandSetStream)(real(g), rt::real(stream, kind::cudaStream));
  if (r != CURAND_STATUS_SUCCESS) return r;
  rt::keep_state(rt::word_of(g), kCurand, curand::kFn_curandSetStream, kStream, rt::Key(), recipe);
  handles::Slot* slot = slot_of(g);
  if (!slot) return r;
  const std::lock_guard guard(histories_mutex);
  if (History* const h = history_of(slot, g))
    h->stream = rt::word_of(stream);
  else
    rt::mark_unsaved(kCurand, curand::kFn_curandSetStream, "the persistent heap is full");
  return r;
}
int64_t again_curandSetStream(rt::Again& from) {
  const auto g = rt::handle_of<curandGenerator_t>(from.handle());
  return CROPDL_CURAND(curandSetStream)(g, rt::handle_of<cudaStream_t>(from.handle()));
}

curandStatus_t lower_curandGenerateSeeds(curandGenerator_t g) {
  rt::Call call;
  return drawn(g, curand::kFn_curandGenerateSeeds, {},
               [](curandGenerator_t its) { return CROPDL_CURAND(curandGenerateSeeds)(its); });
}

#define DRAW(name, type)                                                                  \
  curandStatus_t lower_##name(curandGenerator_t g, type* to, size_t n) {                  \
    rt::Call call;                                                                        \
    return drawn(g, curand::kFn_##name, {0, 0, n, 0, 0},                                  \
                 [&](curandGenerator_t its) { return CROPDL_CURAND(name)(its, to, n); }); \
  }
DRAW(curandGenerate, unsigned)
DRAW(curandGenerateLongLong, unsigned long long)
DRAW(curandGenerateUniform, float)
DRAW(curandGenerateUniformDouble, double)
#undef DRAW

#define DRAW_AROUND(name, type)                                                                            \
  curandStatus_t lower_##name(curandGenerator_t g, type* to, size_t n, type mean, type deviation) {        \
    rt::Call call;                                                                                         \
    return drawn(g, curand::kFn_##name,                                                                    \
                 {0, 0, n, static_cast<double>(mean), static_cast<double>(deviation)},                     \
                 [&](curandGenerator_t its) { return CROPDL_CURAND(name)(its, to, n, mean, deviation); }); \
  }
DRAW_AROUND(curandGenerateNormal, float)
DRAW_AROUND(curandGenerateNormalDouble, double)
DRAW_AROUND(curandGenerateLogNormal, float)
DRAW_AROUND(curandGenerateLogNormalDouble, double)
#undef DRAW_AROUND

curandStatus_t lower_curandGeneratePoisson(curandGenerator_t g, unsigned* to, size_t n, double lambda) {
  rt::Call call;
  return drawn(g, curand::kFn_curandGeneratePoisson, {0, 0, n, lambda, 0}, [&](curandGenerator_t its) {
    return CROPDL_CURAND(curandGeneratePoisson)(its, to, n, lambda);
  });
}
curandStatus_t lower_curandGeneratePoissonMethod(curandGenerator_t g, unsigned* to, size_t n, double lambda,
                                                 curandMethod_t method) {
  rt::Call call;
  return drawn(g, curand::kFn_curandGeneratePoissonMethod, {0, (uint32_t)method, n, lambda, 0},
               [&](curandGenerator_t its) {
                 return CROPDL_CURAND(curandGeneratePoissonMethod)(its, to, n, lambda, method);
               });
}

curandStatus_t lower_curandGetDirectionVectors32(curandDirectionVectors32_t** out,
                                                 curandDirectionVectorSet_t set) {
  rt::Call call;
  return vectors(CROPDL_CURAND(curandGetDirectionVectors32)(out, set), out,
                 kVectors32 + (set == CURAND_SCRAMBLED_DIRECTION_VECTORS_32_JOEKUO6),
                 curand::kFn_curandGetDirectionVectors32);
}
curandStatus_t lower_curandGetDirectionVectors64(curandDirectionVectors64_t** out,
                                                 curandDirectionVectorSet_t set) {
  rt::Call call;
  return vectors(CROPDL_CURAND(curandGetDirectionVectors64)(out, set), out,
                 kVectors64 + (set == CURAND_SCRAMBLED_DIRECTION_VECTORS_64_JOEKUO6),
                 curand::kFn_curandGetDirectionVectors64);
}
curandStatus_t lower_curandGetScrambleConstants32(unsigned** out) {
  rt::Call call;
  return vectors(CROPDL_CURAND(curandGetScrambleConstants32)(out), out, kConstants32,
                 curand::kFn_curandGetScrambleConstants32);
}
curandStatus_t lower_curandGetScrambleConstants64(unsigned long long** out) {
  rt::Call call;
  return vectors(CROPDL_CURAND(curandGetScrambleConstants64)(out), out, kConstants64,
                 curand::kFn_curandGetScrambleConstants64);
}

}  // extern "C"
