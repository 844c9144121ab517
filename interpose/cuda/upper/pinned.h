// Pinned memory belongs to the program: the shim maps it in the window and the LH registers it. So it is
// saved with the other memory, and a restart registers it again. The page before it holds its size, for both
// shims alike, since one may free what the other made. UH, any thread, UH FS base; from libc: mmap, munmap.
#pragma once

#include <cuda.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "base/page.h"
#include "interpose/one_abi/upper.h"

namespace cropdl::cuda_shim {

inline constexpr uint64_t kMark = 0x64'65'6e'6e'69'70;  // "pinned"

struct PinnedHead {
  uint64_t mark;
  size_t mapped;  // including this page
};

inline void* map_pinned(size_t size) {
  if (size > ~size_t{0} - 2 * kPage) return nullptr;
  const size_t mapped = page_up(size) + kPage;
  void* at = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  *static_cast<PinnedHead*>(at) = {kMark, mapped};
  return static_cast<char*>(at) + kPage;
}

// The driver no longer uses the memory.
inline void unmap_pinned(void* p) {
  auto* head = reinterpret_cast<PinnedHead*>(static_cast<char*>(p) - kPage);
  if (head->mark == kMark) munmap(head, head->mapped);
}

// Maps memory and has the library's function register it. R: the library's code, with the driver's numbers.
template <class R>
R make_pinned(unsigned function, void** p, size_t size, unsigned flags) {
  if (one_abi::in_host_function()) return static_cast<R>(one_abi::kNotPermitted);
  void* made = map_pinned(size);
  if (!made) return static_cast<R>(CUDA_ERROR_OUT_OF_MEMORY);
  const R error = one_abi::call_library<R>(function, &made, size, flags);
  if (error != R{})
    unmap_pinned(made);
  else
    *p = made;
  return error;
}

template <class R>
R free_pinned(unsigned function, void* p) {
  if (one_abi::in_host_function()) return static_cast<R>(one_abi::kNotPermitted);
  const R error = one_abi::call_library<R>(function, p);
  if (error == R{} && p) unmap_pinned(p);
  return error;
}

}  // namespace cropdl::cuda_shim
