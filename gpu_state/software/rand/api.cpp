// libcurand's host API: XORWOW and Philox generators, uniform and normal results. A generator's work runs in
// its stream and advances the sequence there, so results are in the order of the calls. Source: cuRAND
// documentation, "Host API"; curand_uniform.h and curand_normal.h for the conversion of words to numbers.
#include <cuda.h>
#include <curand.h>

#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <type_traits>
#include <vector>

#include "gpu_state/software/device/library_work.h"
#include "gpu_state/software/rand/sequences.h"
#include "gpu_state/software/settings/settings.h"

// The state that a generator's work changes. Two pieces of work may run concurrently, after a change of the
// generator's stream; each call then gets a contiguous piece of the sequence, in unspecified order.
struct Drawing {
  std::mutex mutex;
  std::unique_ptr<cropdl::rand::Sequence> sequence;
  bool begun = false;
};

struct curandGenerator_st {
  curandRngType_t type;
  bool on_host;
  std::shared_ptr<Drawing> drawing;
  // Before the next results, the sequence restarts at the offset, or continues at its position with the new
  // seed: in NVIDIA's library, only an offset resets the amount drawn.
  uint64_t seed = 0, offset = 0;
  bool restart = true, reseed = false;
  CUstream stream = nullptr;
};

namespace {

using cropdl::rand::Philox;
using cropdl::rand::Sequence;
using cropdl::rand::Xorwow;

std::mutex& live_mutex() {
  static auto* kept = new std::mutex;
  return *kept;
}
std::set<curandGenerator_t>& live() {
  static auto* kept = new std::set<curandGenerator_t>;
  return *kept;
}
curandStatus_t check(curandGenerator_t generator) {
  std::lock_guard lock(live_mutex());
  return live().count(generator) ? CURAND_STATUS_SUCCESS : CURAND_STATUS_NOT_INITIALIZED;
}

constexpr float kPerWord = 2.3283064e-10f;  // 2^-32, as curand_globals.h writes it
constexpr float kTurnPerWord = 2.3283064e-10f * 6.2831855f;
constexpr double kPer53 = 1.1102230246251565e-16;  // 2^-53

float uniform(uint32_t x) { return static_cast<float>(x) * kPerWord + (kPerWord / 2.0f); }
uint64_t bits53(uint32_t x, uint32_t y) { return x ^ (static_cast<uint64_t>(y) << 21); }
double uniform(uint32_t x, uint32_t y) { return static_cast<double>(bits53(x, y)) * kPer53 + (kPer53 / 2.0); }

float normal(const Sequence::Half& half) {
  float u = uniform(half.words[0]),
        v = static_cast<float>(half.words[1]) * kTurnPerWord + (kTurnPerWord / 2.0f);
  float s = std::sqrt(-2.0f * std::log(u));
  return (half.second ? std::cos(v) : std::sin(v)) * s;
}
double normal(const Sequence::DoubleHalf& half) {
  double u = uniform(half.words[0], half.words[1]);
  double v = static_cast<double>(bits53(half.words[2], half.words[3])) * (kPer53 * 2.0) + kPer53;
  double s = std::sqrt(-2.0 * std::log(u));
  return (half.second ? std::cos(v * M_PI) : std::sin(v * M_PI)) * s;
}

// Fills in pieces, so that long results need no temporary memory.
template <class Drawn, class T, class Draw, class Make>
void fill(T* to, size_t count, Draw draw, Make make) {
  constexpr size_t kPiece = 8192;  // even, so that pairs stay together
  std::vector<Drawn> drawn(std::min(count, kPiece));
  for (size_t done = 0; done < count; done += drawn.size()) {
    size_t now = std::min(count - done, kPiece);
    drawn.resize(now);
    draw(drawn.data(), now);
    for (size_t i = 0; i < now; i++) to[done + i] = make(drawn[i]);
  }
}

// Runs draw(sequence) in the generator's stream, or immediately on the host. If seed or offset were set, it
// first positions the sequence. The output memory is checked before.
template <class F>
curandStatus_t enqueue(curandGenerator_t generator, const char* name, void* to, size_t bytes, F draw) {
  auto work = [drawing = generator->drawing, restart = generator->restart, reseed = generator->reseed,
               seed = generator->seed, offset = generator->offset, draw] {
    std::lock_guard lock(drawing->mutex);
    if (restart || !drawing->begun)
      drawing->sequence->restart(seed, offset);
    else if (reseed)
      drawing->sequence->reseed(seed);
    drawing->begun = true;
    draw(*drawing->sequence);
  };
  if (generator->on_host) {
    work();
  } else {
    using Work = std::function<CUresult()>;
    auto kept = std::make_unique<Work>([to, bytes, work] {
      CUresult result = cropdl_software_gpu_check(reinterpret_cast<CUdeviceptr>(to), bytes, 1);
      if (result == CUDA_SUCCESS) work();
      return result;
    });
    CUresult result = cropdl_software_gpu_enqueue(
        generator->stream, name, [](void* data) { return (*static_cast<Work*>(data))(); },
        [](void* data) { delete static_cast<Work*>(data); }, kept.get());
    if (result != CUDA_SUCCESS) return CURAND_STATUS_LAUNCH_FAILURE;
    static_cast<void>(kept.release());  // the queue has it
  }
  generator->restart = generator->reseed = false;
  return CURAND_STATUS_SUCCESS;
}

// Runs make(sequence, to, count) for `count` results.
template <class T, class F>
curandStatus_t generate(curandGenerator_t generator, T* to, size_t count, bool pairs, F make) {
  if (curandStatus_t status = check(generator)) return status;
  if (!count) return CURAND_STATUS_SUCCESS;
  if (!to) return CURAND_STATUS_OUT_OF_RANGE;
  if (pairs && count % 2 && generator->type == CURAND_RNG_PSEUDO_XORWOW)
    return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
  size_t bytes;
  if (__builtin_mul_overflow(count, sizeof(T), &bytes)) return CURAND_STATUS_OUT_OF_RANGE;
  return enqueue(generator, "curandGenerate", to, bytes,
                 [to, count, make](Sequence& sequence) { make(sequence, to, count); });
}

curandStatus_t create(curandGenerator_t* generator, curandRngType_t type, bool on_host) {
  if (!generator) return CURAND_STATUS_OUT_OF_RANGE;
  auto drawing = std::make_shared<Drawing>();
  if (type == CURAND_RNG_PSEUDO_DEFAULT) type = CURAND_RNG_PSEUDO_XORWOW;
  if (type == CURAND_RNG_PSEUDO_XORWOW) drawing->sequence = std::make_unique<Xorwow>();
  if (type == CURAND_RNG_PSEUDO_PHILOX4_32_10) drawing->sequence = std::make_unique<Philox>();
  if (!drawing->sequence) {
    cropdl::settings::say_not_built("a cuRAND generator that is neither XORWOW nor Philox4_32_10");
    return CURAND_STATUS_TYPE_ERROR;
  }
  if (!on_host) {
    CUcontext context = nullptr;
    if (cuInit(0) != CUDA_SUCCESS || cuCtxGetCurrent(&context) != CUDA_SUCCESS)
      return CURAND_STATUS_INITIALIZATION_FAILED;
    if (!context &&
        (cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS))
      return CURAND_STATUS_INITIALIZATION_FAILED;
  }
  *generator = new curandGenerator_st{type, on_host, std::move(drawing)};
  std::lock_guard lock(live_mutex());
  live().insert(*generator);
  return CURAND_STATUS_SUCCESS;
}

template <class T>
curandStatus_t normals(curandGenerator_t generator, T* to, size_t count, T mean, T deviation,
                       bool logarithmic) {
  return generate(
      generator, to, count, true, [mean, deviation, logarithmic](Sequence& sequence, T* into, size_t number) {
        using Half = std::conditional_t<std::is_same_v<T, float>, Sequence::Half, Sequence::DoubleHalf>;
        fill<Half>(
            into, number,
            [&](Half* drawn, size_t now) {
              if constexpr (std::is_same_v<T, float>)
                sequence.pairs(drawn, now);
              else
                sequence.double_pairs(drawn, now);
            },
            [&](const Half& half) {
              T value = mean + normal(half) * deviation;
              return logarithmic ? std::exp(value) : value;
            });
      });
}

}  // namespace

extern "C" {

curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type) {
  return create(generator, type, false);
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type) {
  return create(generator, type, true);
}

// Pending work keeps a reference to what it needs.
curandStatus_t curandDestroyGenerator(curandGenerator_t generator) {
  if (curandStatus_t status = check(generator)) return status;
  std::lock_guard lock(live_mutex());
  live().erase(generator);
  delete generator;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGetVersion(int* version) {
  if (!version) return CURAND_STATUS_OUT_OF_RANGE;
  *version = CURAND_VERSION;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CURAND_STATUS_OUT_OF_RANGE;
  switch (type) {
    case MAJOR_VERSION:
      *value = CURAND_VER_MAJOR;
      return CURAND_STATUS_SUCCESS;
    case MINOR_VERSION:
      *value = CURAND_VER_MINOR;
      return CURAND_STATUS_SUCCESS;
    case PATCH_LEVEL:
      *value = CURAND_VER_PATCH;
      return CURAND_STATUS_SUCCESS;
    default:
      return CURAND_STATUS_OUT_OF_RANGE;
  }
}

curandStatus_t curandSetStream(curandGenerator_t generator, cudaStream_t stream) {
  if (curandStatus_t status = check(generator)) return status;
  generator->stream = stream;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t generator, unsigned long long seed) {
  if (curandStatus_t status = check(generator)) return status;
  if (seed != generator->seed) generator->reseed = true;
  generator->seed = seed;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetGeneratorOffset(curandGenerator_t generator, unsigned long long offset) {
  if (curandStatus_t status = check(generator)) return status;
  generator->offset = offset;
  generator->restart = true;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandSetGeneratorOrdering(curandGenerator_t generator, curandOrdering_t order) {
  if (curandStatus_t status = check(generator)) return status;
  switch (order) {
    case CURAND_ORDERING_PSEUDO_BEST:
    case CURAND_ORDERING_PSEUDO_DEFAULT:
    case CURAND_ORDERING_PSEUDO_LEGACY:
      return CURAND_STATUS_SUCCESS;
    case CURAND_ORDERING_PSEUDO_SEEDED:
    case CURAND_ORDERING_PSEUDO_DYNAMIC:
      cropdl::settings::say_not_built("cuRAND's seeded and dynamic orderings");
      [[fallthrough]];
    default:
      return CURAND_STATUS_OUT_OF_RANGE;
  }
}

curandStatus_t curandGenerateSeeds(curandGenerator_t generator) {
  if (curandStatus_t status = check(generator)) return status;
  if (!generator->restart && !generator->reseed) return CURAND_STATUS_SUCCESS;
  return enqueue(generator, "curandGenerateSeeds", nullptr, 0, [](Sequence&) {});
}

curandStatus_t curandGenerate(curandGenerator_t generator, unsigned int* to, size_t count) {
  return generate(generator, to, count, false,
                  [](Sequence& sequence, unsigned* into, size_t number) { sequence.words(into, number); });
}

// Only for 64-bit generators, which are not built.
curandStatus_t curandGenerateLongLong(curandGenerator_t generator, unsigned long long*, size_t) {
  curandStatus_t status = check(generator);
  return status ? status : CURAND_STATUS_TYPE_ERROR;
}

curandStatus_t curandGenerateUniform(curandGenerator_t generator, float* to, size_t count) {
  return generate(generator, to, count, false, [](Sequence& sequence, float* into, size_t number) {
    fill<uint32_t>(
        into, number, [&](uint32_t* drawn, size_t now) { sequence.words(drawn, now); },
        [](uint32_t word) { return uniform(word); });
  });
}

curandStatus_t curandGenerateUniformDouble(curandGenerator_t generator, double* to, size_t count) {
  return generate(generator, to, count, false, [](Sequence& sequence, double* into, size_t number) {
    using Words = std::array<uint32_t, 2>;
    fill<Words>(
        into, number, [&](Words* drawn, size_t now) { sequence.doubles(drawn, now); },
        [](const Words& words) { return uniform(words[0], words[1]); });
  });
}

curandStatus_t curandGenerateNormal(curandGenerator_t generator, float* to, size_t count, float mean,
                                    float deviation) {
  return normals(generator, to, count, mean, deviation, false);
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t generator, double* to, size_t count, double mean,
                                          double deviation) {
  return normals(generator, to, count, mean, deviation, false);
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t generator, float* to, size_t count, float mean,
                                       float deviation) {
  return normals(generator, to, count, mean, deviation, true);
}
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t generator, double* to, size_t count,
                                             double mean, double deviation) {
  return normals(generator, to, count, mean, deviation, true);
}

}  // extern "C"
