// Translates an address for one lane: the slow path, which also reports what is wrong.
#include <cstring>

#include "gpu_state/software/engine/memory.h"

namespace cropdl::engine {

std::byte* resolve(WarpRun& warp, uint32_t lane, Area area, uint64_t address, uint32_t size, bool write,
                   bool aligned) {
  auto wrong = [&](CUresult error, const char* what) {
    warp.fault(lane, error, address, what);
    return nullptr;
  };
  if (aligned && (address & (size - 1))) return wrong(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address");
  uint64_t offset = address;
  if (area == Area::kGeneric) {
    offset = address & ((uint64_t{1} << kWindowShift) - 1);
    switch (static_cast<Window>(address >> kWindowShift)) {
      case Window::kHost:
        area = Area::kGlobal;
        break;
      case Window::kShared:
        area = Area::kShared;
        break;
      case Window::kLocal:
        area = Area::kLocal;
        break;
      case Window::kParameters:
        area = Area::kParameter;
        break;
      case Window::kWorkspace: {
        Grid& grid = *warp.block->grid;
        if (offset > sizeof grid.workspace || size > sizeof grid.workspace - offset)
          return wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "beyond the grid's workspace, at");
        return reinterpret_cast<std::byte*>(grid.workspace) + offset;
      }
      default:
        return wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "no memory at");
    }
  }
  switch (area) {
    case Area::kGlobal:
      if (aligned && size <= 16 ? warp.memory->allows(address, size, write)
                                : warp.memory->range(address, size, write))
        return reinterpret_cast<std::byte*>(address);
      return wrong(CUDA_ERROR_ILLEGAL_ADDRESS,
                   write ? "no memory may be written at" : "no memory may be read at");
    case Area::kShared:
      if (offset <= warp.shared_bytes && size <= warp.shared_bytes - offset) return warp.shared + offset;
      return wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "beyond the block's shared memory, at");
    case Area::kLocal: {
      // Up to the frame of the running function: memory above belonged to functions it called.
      const uint32_t end = warp.current->local_base + warp.current->routine->local_bytes;
      if (offset <= end && size <= end - offset) return warp.local + size_t{warp.local_bytes} * lane + offset;
      return wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "beyond the thread's local memory, at");
    }
    case Area::kParameter:
      if (write) return wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel's parameters cannot be written, at");
      if (offset <= warp.parameter_bytes && size <= warp.parameter_bytes - offset)
        return const_cast<std::byte*>(warp.parameters) + offset;
      return wrong(CUDA_ERROR_ILLEGAL_ADDRESS, "beyond the kernel's parameters, at");
    case Area::kGeneric:
      break;
  }
  return nullptr;
}

bool read_generic(WarpRun& warp, uint32_t lane, uint64_t address, void* into, size_t size) {
  std::byte* from = resolve(warp, lane, Area::kGeneric, address, static_cast<uint32_t>(size), false, false);
  if (!from) {
    warp.attention = false;  // the caller reports the error itself
    return false;
  }
  for (size_t i = 0; i < size; ++i) static_cast<std::byte*>(into)[i] = from[i];
  return true;
}

}  // namespace cropdl::engine
