// A plugin that knows nothing of cuBLAS, and is closed after it when the process ends: only then does the
// device go on, and is waited for.
#include <cuda.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

namespace {

std::atomic<bool> held{false};

[[gnu::destructor]] void wait() {
  if (!held.exchange(false)) return;
  const CUresult result = cuCtxSynchronize();
  std::fprintf(stderr, "the plugin was told %d\n", static_cast<int>(result));
}

}  // namespace

extern "C" CUresult hold_the_device(CUstream stream) {
  held = true;
  return cuLaunchHostFunc(
      stream,
      [](void*) {
        while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      },
      nullptr);
}
