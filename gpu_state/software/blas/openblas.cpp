#include "gpu_state/software/blas/openblas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>

#include "base/say.h"
#include "gpu_state/software/device/library_work.h"

namespace cropdl::blas {

namespace {

// Constants of cblas.h, which are part of its interface.
constexpr int kColumnMajor = 102;
int number_of(Operation operation) {
  return operation == Operation::kNone ? 111 : operation == Operation::kTranspose ? 112 : 113;
}

template <class Scalar, class T>
using Gemm = void (*)(int order, int a_is, int b_is, int m, int n, int k, Scalar alpha, const T* a, int lda,
                      const T* b, int ldb, Scalar beta, T* c, int ldc);

// RTLD_DEEPBIND: it uses its own functions before the program's of the same name. Sanitizers' runtimes refuse
// that; tests with them have no other BLAS.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kBinding = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kBinding = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

struct Library {
  Gemm<float, float> sgemm = nullptr;
  Gemm<double, double> dgemm = nullptr;
  Gemm<const void*, void> cgemm = nullptr, zgemm = nullptr;
  bool there = false;
  // Two concurrent products would get the same buffer for packed matrices (blas_memory_alloc() without
  // USE_LOCKING, as in Debian's build), and give wrong results.
  mutable std::mutex turn;

  Library() {
    const char* wanted = "/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas.so.0";
    void* library = dlopen(wanted, kBinding);
    if (!library) {
      say(std::string("software GPU: cuBLAS needs OpenBLAS (Debian: libopenblas0-serial): ") + dlerror());
      return;
    }
    sgemm = reinterpret_cast<decltype(sgemm)>(dlsym(library, "cblas_sgemm"));
    dgemm = reinterpret_cast<decltype(dgemm)>(dlsym(library, "cblas_dgemm"));
    cgemm = reinterpret_cast<decltype(cgemm)>(dlsym(library, "cblas_cgemm"));
    zgemm = reinterpret_cast<decltype(zgemm)>(dlsym(library, "cblas_zgemm"));
    there = sgemm && dgemm && cgemm && zgemm;
  }
};

std::atomic<const Library*> loaded = nullptr;
pid_t loaded_by = 0;

const Library& library() {
  static const auto* made = [] {
    loaded_by = getpid();
    return loaded = new Library;
  }();
  return *made;
}

// A process ends without waiting for its streams; OpenBLAS is finalised after this library and unmaps memory
// that a running product uses. So this destructor lets the current product finish and prevents new ones. C++
// destructors, which may wait for streams, have run already. Libraries that are closed later and wait in
// their destructors learn of the end from the device. In a forked child, no product is running.
[[gnu::destructor]] void no_product_from_now_on() {
  const Library* library = loaded;
  if (!library || loaded_by != getpid()) return;
  cropdl_software_gpu_end();
  library->turn.lock();
}

}  // namespace

bool there() { return library().there; }

#define CROPDL_GEMM(T, FUNCTION, BY)                                                                    \
  void gemm(Operation a_is, Operation b_is, int64_t m, int64_t n, int64_t k, T alpha, const T* a,       \
            int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {                          \
    std::lock_guard lock(library().turn);                                                               \
    library().FUNCTION(kColumnMajor, number_of(a_is), number_of(b_is), static_cast<int>(m),             \
                       static_cast<int>(n), static_cast<int>(k), BY alpha, a, static_cast<int>(lda), b, \
                       static_cast<int>(ldb), BY beta, c, static_cast<int>(ldc));                       \
  }
CROPDL_GEMM(float, sgemm, )
CROPDL_GEMM(double, dgemm, )
CROPDL_GEMM(std::complex<float>, cgemm, &)
CROPDL_GEMM(std::complex<double>, zgemm, &)
#undef CROPDL_GEMM

}  // namespace cropdl::blas
