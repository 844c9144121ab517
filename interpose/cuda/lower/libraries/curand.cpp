// cuRAND. No function returns a generator's position, and no offset can represent it: draws and settings are
// recorded and repeated (curand_history.h). LH, LH FS base, threads of the program.
#include <cstring>
#include <mutex>

#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/libraries/curand_history.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/handles/heap.h"

namespace cropdl::cuda::curand {
namespace {

const rt::RealLibrary& kCurand = cropdl_curand_lower_table_library;

// kinds of state, for keep_state()
constexpr uint64_t kHistory = 0x6375'7261'6e64, kStream = 0x7374'7265'616d;

std::mutex histories_mutex;  // of all histories

handles::Slot* slot_of(curandGenerator_t g) { return rt::slot_of(rt::word_of(g)); }

// Null: no memory.
History* history_of(handles::Slot* slot, curandGenerator_t generator) {
  auto* h = reinterpret_cast<History*>(slot->owner[2]);
  if (h || !(h = static_cast<History*>(handles::heap_allocate(sizeof(History))))) return h;
  slot->owner[2] = reinterpret_cast<uint64_t>(h);
  rt::RecipeWriter recipe;
  recipe.handle(rt::word_of(generator));
  recipe.value(slot->owner[2]);
  recipe.value<uint64_t>((slot->maker & 0xffff) == fn::kFn_curandCreateGeneratorHost);
  rt::keep_state(rt::word_of(generator), kCurand, fn::kFn_curandGenerate, kHistory, rt::Key(), recipe);
  return h;
}

// Records a step that the generator has done.
void note(curandGenerator_t generator, const Step& step) {
  handles::Slot* slot = slot_of(generator);
  if (!slot) return;
  const std::lock_guard guard(histories_mutex);
  History* const h = history_of(slot, generator);
  if (!h) return rt::mark_unsaved(kCurand, step.function, "the persistent heap is full");
  if (step.function == fn::kFn_curandSetGeneratorOffset) forget_draws(*h);
  if (!append(*h, step))
    rt::mark_unsaved(kCurand, step.function,
                     "a generator has drawn more than can be done again, in no order that repeats");
}

curandGenerator_t real(curandGenerator_t g) { return rt::real(g, kind::curandGenerator); }

// Whether the generator's stream is being captured. How often the graph's launches draw is unknown.
bool is_captured(curandGenerator_t g) {
  const handles::Slot* slot = captures_expected ? slot_of(g) : nullptr;
  if (!slot) return false;
  uint64_t stream = 0;
  {
    const std::lock_guard guard(histories_mutex);
    if (const auto* h = reinterpret_cast<const History*>(slot->owner[2])) stream = h->stream;
  }
  if (!stream) return false;
  if (const handles::Slot* its = rt::slot_of(stream); its && its->state != handles::kLive) return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error =
      CROPDL_CUDART(cudaStreamIsCapturing)(rt::handle_of<cudaStream_t>(rt::real_word(stream)), &status);
  if (error != cudaSuccess) CROPDL_CUDART(cudaGetLastError)();  // not the program's error
  return status != cudaStreamCaptureStatusNone;
}

// A draw or a setter of the program.
curandStatus_t take(curandGenerator_t g, const Step& step, void* to = nullptr) {
  rt::Call call;
  const bool captured = !is_setter(step.function) && is_captured(g);
  const curandStatus_t r = perform(real(g), step, to);
  if (captured)
    rt::lose_recipe(rt::word_of(g), kCurand, step.function);
  else if (r == CURAND_STATUS_SUCCESS)
    note(g, step);
  return r;
}

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

// A function that returns a table's address.
template <class V, class... Set>
curandStatus_t table(uint32_t function, V** out, uint32_t which, Set... set) {
  rt::Call call;
  const auto r = rt::function_of<curandStatus_t(V**, Set...)>(kCurand, function)(out, set...);
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

curandStatus_t lower_curandSetPseudoRandomGeneratorSeed(curandGenerator_t g, unsigned long long seed) {
  return take(g, {.function = fn::kFn_curandSetPseudoRandomGeneratorSeed, .n = seed});
}
curandStatus_t lower_curandSetGeneratorOffset(curandGenerator_t g, unsigned long long offset) {
  return take(g, {.function = fn::kFn_curandSetGeneratorOffset, .n = offset});
}
curandStatus_t lower_curandSetGeneratorOrdering(curandGenerator_t g, curandOrdering_t order) {
  return take(g, {.function = fn::kFn_curandSetGeneratorOrdering, .n = order});
}
curandStatus_t lower_curandSetQuasiRandomGeneratorDimensions(curandGenerator_t g, unsigned dimensions) {
  return take(g, {.function = fn::kFn_curandSetQuasiRandomGeneratorDimensions, .n = dimensions});
}

// is_captured() uses the stream.
curandStatus_t lower_curandSetStream(curandGenerator_t g, cudaStream_t stream) {
  rt::Call call;
  rt::RecipeWriter recipe;
  recipe.handle(rt::word_of(g));
  recipe.handle(rt::word_of(stream));
  const curandStatus_t r = CROPDL_CURAND(curandSetStream)(real(g), rt::real(stream, kind::cudaStream));
  if (r != CURAND_STATUS_SUCCESS) return r;
  rt::keep_state(rt::word_of(g), kCurand, fn::kFn_curandSetStream, kStream, rt::Key(), recipe);
  handles::Slot* slot = slot_of(g);
  if (!slot) return r;
  const std::lock_guard guard(histories_mutex);
  if (History* const h = history_of(slot, g))
    h->stream = rt::word_of(stream);
  else
    rt::mark_unsaved(kCurand, fn::kFn_curandSetStream, "the persistent heap is full");
  return r;
}

curandStatus_t lower_curandGenerateSeeds(curandGenerator_t g) {
  return take(g, {.function = fn::kFn_curandGenerateSeeds});
}
curandStatus_t lower_curandGenerate(curandGenerator_t g, unsigned* to, size_t n) {
  return take(g, {.function = fn::kFn_curandGenerate, .n = n}, to);
}
curandStatus_t lower_curandGenerateLongLong(curandGenerator_t g, unsigned long long* to, size_t n) {
  return take(g, {.function = fn::kFn_curandGenerateLongLong, .n = n}, to);
}
curandStatus_t lower_curandGenerateUniform(curandGenerator_t g, float* to, size_t n) {
  return take(g, {.function = fn::kFn_curandGenerateUniform, .n = n}, to);
}
curandStatus_t lower_curandGenerateUniformDouble(curandGenerator_t g, double* to, size_t n) {
  return take(g, {.function = fn::kFn_curandGenerateUniformDouble, .n = n}, to);
}
curandStatus_t lower_curandGenerateNormal(curandGenerator_t g, float* to, size_t n, float mean,
                                          float deviation) {
  return take(g, {.function = fn::kFn_curandGenerateNormal, .n = n, .a = mean, .b = deviation}, to);
}
curandStatus_t lower_curandGenerateNormalDouble(curandGenerator_t g, double* to, size_t n, double mean,
                                                double deviation) {
  return take(g, {.function = fn::kFn_curandGenerateNormalDouble, .n = n, .a = mean, .b = deviation}, to);
}
curandStatus_t lower_curandGenerateLogNormal(curandGenerator_t g, float* to, size_t n, float mean,
                                             float deviation) {
  return take(g, {.function = fn::kFn_curandGenerateLogNormal, .n = n, .a = mean, .b = deviation}, to);
}
curandStatus_t lower_curandGenerateLogNormalDouble(curandGenerator_t g, double* to, size_t n, double mean,
                                                   double deviation) {
  return take(g, {.function = fn::kFn_curandGenerateLogNormalDouble, .n = n, .a = mean, .b = deviation}, to);
}
curandStatus_t lower_curandGeneratePoisson(curandGenerator_t g, unsigned* to, size_t n, double lambda) {
  return take(g, {.function = fn::kFn_curandGeneratePoisson, .n = n, .a = lambda}, to);
}
curandStatus_t lower_curandGeneratePoissonMethod(curandGenerator_t g, unsigned* to, size_t n, double lambda,
                                                 curandMethod_t method) {
  return take(g, {.function = fn::kFn_curandGeneratePoissonMethod, .method = method, .n = n, .a = lambda},
              to);
}

curandStatus_t lower_curandGetDirectionVectors32(curandDirectionVectors32_t** out,
                                                 curandDirectionVectorSet_t set) {
  const bool scrambled = set == CURAND_SCRAMBLED_DIRECTION_VECTORS_32_JOEKUO6;
  return table(fn::kFn_curandGetDirectionVectors32, out, kVectors32 + scrambled, set);
}
curandStatus_t lower_curandGetDirectionVectors64(curandDirectionVectors64_t** out,
                                                 curandDirectionVectorSet_t set) {
  const bool scrambled = set == CURAND_SCRAMBLED_DIRECTION_VECTORS_64_JOEKUO6;
  return table(fn::kFn_curandGetDirectionVectors64, out, kVectors64 + scrambled, set);
}
curandStatus_t lower_curandGetScrambleConstants32(unsigned** out) {
  return table(fn::kFn_curandGetScrambleConstants32, out, kConstants32);
}
curandStatus_t lower_curandGetScrambleConstants64(unsigned long long** out) {
  return table(fn::kFn_curandGetScrambleConstants64, out, kConstants64);
}

}  // extern "C"
}  // namespace cropdl::cuda::curand
