// See real.h: opens libraries and finds functions when the program first calls them.
#include "interpose/cuda/lower/real.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string_view>

#include "interpose/cuda/lower/environment.h"
#include "interpose/cuda/lower/real_libraries.h"

namespace cropdl::cuda {
namespace {

std::recursive_mutex opening;  // dlopen may run code that calls another of the libraries

struct LibraryFile {
  bool tried;
  void* file;
};
std::array<LibraryFile, seam::kMaxLibraries> library_files{};

// Functions that only return facts read no environment.
bool reads_environment(std::string_view function) {
  for (const std::string_view part : {"Version", "Error", "Property", "Status"})
    if (function.find(part) != function.npos) return false;
  return true;
}

// Call before a function is looked for. The driver read the environment when it started; this passes on what
// the program has changed since. Under `opening`.
void take_environment() {
  static bool looking = false;
  if (looking) return;  // driver_begun() looks for functions
  looking = true;
  if (driver_begun()) note_reading_of_environment(Reader::kDriver);
  looking = false;
  // Not while ranks are stopped for a checkpoint.
  const seam::ThreadRecord* thread = one_abi::thread_mark.record;
  if ((seam::control()->attention & seam::kAttentionStop) == 0 || (thread && thread->in_device_call != 0))
    take_program_environment();
}

// Call after take_environment().
void note_environment_of(const one_abi::RealLibrary& library, uint32_t function) {
  const std::string_view name = library.name;
  if (!reads_environment(library.names[function])) return;
  if (name == "nccl") note_reading_of_environment(Reader::kNccl);
  if (name == "curand") note_reading_of_environment(Reader::kRand);
  if (name.starts_with("cublas")) note_reading_of_environment(Reader::kBlas);
}

}  // namespace

const one_abi::RealLibrary* const* libraries() {
  static const auto all = [] {
    std::array<const one_abi::RealLibrary*, seam::kMaxLibraries> by_number{};
    for (const Shipped& s : shipped()) by_number[s.library->number] = s.library;
    return by_number;
  }();
  return all.data();
}

bool opened(const one_abi::RealLibrary& library) {
  return __atomic_load_n(&library_files[library.number].file, __ATOMIC_ACQUIRE) != nullptr;
}

bool driver_begun() {
  static std::atomic<bool> begun{false};
  if (begun.load(std::memory_order_relaxed)) return true;
  int count = 0;
  if ((!opened(kCudart) && !opened(kDriver)) || !has_driver() ||
      CROPDL_DRIVER(cuDeviceGetCount)(&count) != CUDA_SUCCESS)
    return false;
  begun.store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace cropdl::cuda

void* cropdl::one_abi::find_function(const RealLibrary& library, uint32_t function) {
  std::scoped_lock lock(cuda::opening);
  cuda::take_environment();
  cuda::note_environment_of(library, function);
  cuda::LibraryFile& its = cuda::library_files[library.number];
  if (!its.tried) {
    its.tried = true;
    // Kernels print to the lower half's standard output, which is not flushed when the program ends.
    setvbuf(stdout, nullptr, _IONBF, 0);
    void* file = cuda::open_real(library.soname);  // prints the reason on failure
    __atomic_store_n(&its.file, file, __ATOMIC_RELEASE);
  }
  void* found = its.file ? dlsym(its.file, library.names[function]) : nullptr;
  if (!found) {
    if (its.file)
      say_not_offered(library.names[function], "the library that is installed here does not have it");
    found = library.answers[function] == 'c'   ? library.missing
            : library.answers[function] == 't' ? reinterpret_cast<void*>(missing_text)
                                               : reinterpret_cast<void*>(missing_value);
  }
  __atomic_store_n(&library.functions[function], found, __ATOMIC_RELAXED);
  return found;
}
