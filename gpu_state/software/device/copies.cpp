#include "gpu_state/software/device/copies.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "gpu_state/software/device/area.h"
#include "gpu_state/software/device/arrays.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/lookup.h"
#include "gpu_state/software/device/memory.h"
#include "gpu_state/software/device/memory_host.h"
#include "gpu_state/software/device/virtual_memory.h"
#include "gpu_state/software/settings/settings.h"

namespace cropdl::device {

namespace {

// One side of a copy: rows of bytes.
struct Box {
  uint64_t first = 0;  // address of the first byte
  uint64_t pitch = 0, slice = 0;
  uint64_t width = 0, height = 0, depth = 0;
  CUmemorytype type{};
  uint64_t row(uint64_t y, uint64_t z) const { return first + z * slice + y * pitch; }
  uint64_t end() const { return row(height - 1, depth - 1) + width; }
};

bool multiply_add(uint64_t a, uint64_t b, uint64_t c, uint64_t* result) {
  return !__builtin_mul_overflow(a, b, result) && !__builtin_add_overflow(*result, c, result);
}

struct Corner {
  CUmemorytype type;
  uint64_t host, device;
  CUarray array;
  size_t x, y, z, level, pitch, height;
};

CUresult box_of(const CUDA_MEMCPY3D& copy, Corner at, Box* box) {
  if (at.level != 0) return CUDA_ERROR_INVALID_VALUE;
  *box = {.width = copy.WidthInBytes, .height = copy.Height, .depth = copy.Depth, .type = at.type};
  uint64_t base = at.type == CU_MEMORYTYPE_HOST ? at.host : at.device;
  uint64_t pitch = at.pitch, height = at.height;
  if (at.type == CU_MEMORYTYPE_ARRAY) {
    ArrayRows rows;
    if (CUresult error = array_rows(at.array, &rows)) return error;
    auto beyond = [](uint64_t from, uint64_t count, uint64_t most) {
      return from > most || count > most - from;
    };
    if (beyond(at.x, copy.WidthInBytes, rows.pitch) || beyond(at.y, copy.Height, rows.height) ||
        beyond(at.z, copy.Depth, rows.depth))
      return CUDA_ERROR_INVALID_VALUE;
    base = rows.base;
    pitch = rows.pitch;
    height = rows.height;
  } else if (at.type != CU_MEMORYTYPE_HOST && at.type != CU_MEMORYTYPE_DEVICE &&
             at.type != CU_MEMORYTYPE_UNIFIED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr uint64_t kMostPitch = 0x7fffffff;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH
  uint64_t needed = 0, offset = 0, rows = 0;
  if (__builtin_add_overflow(at.x, copy.WidthInBytes, &needed)) return CUDA_ERROR_INVALID_VALUE;
  const bool several_rows = copy.Height > 1 || copy.Depth > 1 || at.y || at.z;
  if (several_rows && (pitch < needed || pitch > kMostPitch)) return CUDA_ERROR_INVALID_VALUE;
  if (__builtin_add_overflow(at.y, copy.Height, &needed)) return CUDA_ERROR_INVALID_VALUE;
  if ((copy.Depth > 1 || at.z) && height < needed) return CUDA_ERROR_INVALID_VALUE;
  uint64_t slices = 0, whole = 0;
  if (!multiply_add(at.z, height, at.y, &rows) || !multiply_add(rows, pitch, at.x, &offset) ||
      __builtin_add_overflow(base, offset, &box->first) ||
      __builtin_mul_overflow(pitch, height, &box->slice) ||
      !multiply_add(copy.Depth - 1, height, copy.Height, &slices) ||
      !multiply_add(slices, pitch, copy.WidthInBytes, &whole) ||
      __builtin_add_overflow(box->first, whole, &needed))
    return CUDA_ERROR_INVALID_VALUE;
  box->pitch = pitch;
  return CUDA_SUCCESS;
}

CUresult boxes_of(const CUDA_MEMCPY3D& c, Box* source, Box* destination) {
  if (CUresult error = box_of(c,
                              {c.srcMemoryType, reinterpret_cast<uint64_t>(c.srcHost), c.srcDevice,
                               c.srcArray, c.srcXInBytes, c.srcY, c.srcZ, c.srcLOD, c.srcPitch, c.srcHeight},
                              source))
    return error;
  return box_of(c,
                {c.dstMemoryType, reinterpret_cast<uint64_t>(c.dstHost), c.dstDevice, c.dstArray,
                 c.dstXInBytes, c.dstY, c.dstZ, c.dstLOD, c.dstPitch, c.dstHeight},
                destination);
}

bool nothing(const CUDA_MEMCPY3D& copy) { return !copy.WidthInBytes || !copy.Height || !copy.Depth; }

template <class Check>
bool each_row(const Box& box, Check check) {
  if (box.pitch == box.width && (box.depth == 1 || box.slice == box.pitch * box.height))
    return check(box.first, box.width * box.height * box.depth);
  for (uint64_t z = 0; z < box.depth; ++z)
    for (uint64_t y = 0; y < box.height; ++y)
      if (!check(box.row(y, z), box.width)) return false;
  return true;
}

CUresult examine(const Box& box, int device, bool write, Side* side) {
  side->as_host = box.type == CU_MEMORYTYPE_HOST;
  if (box.type == CU_MEMORYTYPE_ARRAY) {
    side->where = Where::kArray;
    return CUDA_SUCCESS;
  }
  const auto known = find_allocation(box.first);
  if (!known) {
    if (Area::get().contains(box.first) || virtual_contains(box.first)) return CUDA_ERROR_INVALID_VALUE;
    if (box.type == CU_MEMORYTYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    side->where = Where::kPageable;
    const bool there =
        each_row(box, [&](uint64_t at, uint64_t size) { return host_allows(at, size, write); });
    return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  side->sync_memops = known->sync_memops;
  side->device = known->device;
  side->context = known->context;
  if (known->freed) return CUDA_ERROR_INVALID_VALUE;
  if (known->on_host()) {
    side->where = Where::kPinned;
    if (write && known->kind == MemoryKind::kRegistered && known->flags & CU_MEMHOSTREGISTER_READ_ONLY)
      return CUDA_ERROR_INVALID_VALUE;
  } else {
    side->where = known->kind == MemoryKind::kManaged ? Where::kManaged : Where::kDevice;
  }
  if (side->where == Where::kDevice && side->as_host) return CUDA_ERROR_INVALID_VALUE;
  if (known->kind == MemoryKind::kVirtual) {
    // The memory's own device may do it too: copies between devices need no peer access.
    const bool there = each_row(box, [&](uint64_t at, uint64_t size) {
      return virtual_allows(device, at, size, write) || virtual_allows(known->device, at, size, write);
    });
    return there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  return box.end() <= known->begin + known->size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool accessible(const Box& box, int device, bool write) {
  const bool in_area = Area::get().contains(box.first);
  const bool is_virtual = !in_area && virtual_contains(box.first);
  return each_row(box, [&](uint64_t at, uint64_t size) {
    if (in_area) return Area::get().accessible(at, size);
    if (is_virtual) {
      const auto known = find_allocation(at);
      return virtual_allows(device, at, size, write) ||
             (known && virtual_allows(known->device, at, size, write));
    }
    return host_allows(at, size, write);
  });
}

// The devices that perform the copy.
int reader(const CopyWork& work, CUcontext context) {
  return (work.source ? work.source : context)->device->ordinal;
}
int writer(const CopyWork& work, CUcontext context) {
  return (work.destination ? work.destination : context)->device->ordinal;
}
int whose(const Side& side) { return side.where == Where::kDevice ? side.device : -1; }

// With a seed, a copy pauses in the middle, so that premature reads see half of it.
class Pieces {
 public:
  Pieces() : chooser_(++count_) {}
  template <class Do>
  void each(uint64_t size, Do go) {
    uint64_t done = 0;
    while (chooser_.random() && done < size) {
      const uint64_t piece = std::min<uint64_t>(size - done, std::max<uint64_t>(16, size / 4 / 16 * 16));
      go(done, piece);
      done += piece;
      if (done < size) rest();
    }
    if (done < size) go(done, size - done);
  }
  void rest() {
    if (!chooser_.random()) return;
    if (const uint32_t chosen = chooser_.pick(4); chosen == 3)
      std::this_thread::sleep_for(std::chrono::microseconds(50 + chooser_.pick(200)));
    else if (chosen)
      ::sched_yield();
  }

 private:
  static inline std::atomic<uint64_t> count_{uint64_t{1} << 32};
  settings::Chooser chooser_;
};

std::byte* bytes_at(uint64_t address) { return reinterpret_cast<std::byte*>(address); }

Box box_of(const MemsetWork& work) {
  Box box;
  box.first = work.destination;
  box.width = work.width * work.element;
  box.height = work.height;
  box.depth = 1;
  box.pitch = work.height > 1 ? work.pitch : box.width;
  box.slice = box.pitch * box.height;
  box.type = CU_MEMORYTYPE_DEVICE;
  return box;
}

void fill_row(std::byte* to, uint64_t size, unsigned value, unsigned element) {
  if (element == 1 || (element == 2 && (value & 0xff) == (value >> 8 & 0xff))) {
    std::memset(to, static_cast<int>(value & 0xff), size);
  } else if (element == 2) {
    std::fill_n(reinterpret_cast<uint16_t*>(to), size / 2, static_cast<uint16_t>(value));
  } else {
    std::fill_n(reinterpret_cast<uint32_t*>(to), size / 4, value);
  }
}

}  // namespace

CUDA_MEMCPY3D row_copy(CUmemorytype to, uint64_t destination, CUmemorytype from, uint64_t source,
                       size_t size) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = from;
  copy.srcHost = reinterpret_cast<const void*>(source);
  copy.srcDevice = source;
  copy.dstMemoryType = to;
  copy.dstHost = reinterpret_cast<void*>(destination);
  copy.dstDevice = destination;
  copy.WidthInBytes = size;
  copy.Height = copy.Depth = 1;
  return copy;
}

CUresult examine(CopyWork& work, CUcontext context, CopyFacts* facts) {
  const CUDA_MEMCPY3D& copy = work.copy;
  *facts = {};
  if (nothing(copy)) return CUDA_SUCCESS;
  Box source, destination;
  if (CUresult error = boxes_of(copy, &source, &destination)) return error;
  if (CUresult error = examine(source, reader(work, context), false, &facts->source)) return error;
  if (CUresult error = examine(destination, writer(work, context), true, &facts->destination)) return error;
  facts->bytes = copy.WidthInBytes * copy.Height * copy.Depth;
  work.from_device = whose(facts->source);
  work.to_device = whose(facts->destination);
  return CUDA_SUCCESS;
}

CUresult examine(MemsetWork& work, CUcontext context, Side* side) {
  *side = {};
  if (work.width == 0 || work.height == 0) return CUDA_SUCCESS;
  uint64_t bytes = 0, end = 0;
  if (work.destination % work.element || __builtin_mul_overflow(work.width, work.element, &bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (work.height > 1 && (work.pitch < bytes || work.pitch % work.element)) return CUDA_ERROR_INVALID_VALUE;
  if (!multiply_add(work.height > 1 ? work.pitch : 0, work.height - 1, bytes, &end) ||
      __builtin_add_overflow(end, work.destination, &end))
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = examine(box_of(work), context->device->ordinal, true, side)) return error;
  work.device = whose(*side);
  return CUDA_SUCCESS;
}

bool stage(const CUDA_MEMCPY3D& copy, std::vector<std::byte>* into) {
  Box source, destination;
  if (boxes_of(copy, &source, &destination)) return false;
  constexpr int kNoMatter = 0;  // any device: it is host memory
  if (!accessible(source, kNoMatter, false)) return false;
  into->resize(source.width * source.height * source.depth);
  std::byte* to = into->data();
  return each_row(source, [&](uint64_t at, uint64_t size) {
    std::memcpy(to, bytes_at(at), size);
    to += size;
    return true;
  });
}

CUresult perform(const CopyWork& work, CUcontext context) {
  const CUDA_MEMCPY3D& copy = work.copy;
  if (nothing(copy)) return CUDA_SUCCESS;
  Box source, destination;
  if (CUresult error = boxes_of(copy, &source, &destination)) return error;
  if (work.staged) {
    source.first = reinterpret_cast<uint64_t>(work.staged->data());
    source.pitch = source.width;
    source.slice = source.width * source.height;
  } else if (!accessible(source, reader(work, context), false)) {
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  if (!accessible(destination, writer(work, context), true)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  Pieces pieces;
  auto move = [&](uint64_t to, uint64_t from, uint64_t size) {
    pieces.each(size, [&](uint64_t at, uint64_t piece) {
      std::memmove(bytes_at(to + at), bytes_at(from + at), piece);
    });
  };
  const bool in_one = source.width == source.pitch && destination.width == destination.pitch &&
                      source.slice == destination.slice && source.slice == source.pitch * source.height;
  if (in_one || source.height * source.depth == 1) {
    move(destination.first, source.first, source.width * source.height * source.depth);
    return CUDA_SUCCESS;
  }
  for (uint64_t z = 0; z < source.depth; ++z)
    for (uint64_t y = 0; y < source.height; ++y) {
      std::memmove(bytes_at(destination.row(y, z)), bytes_at(source.row(y, z)), source.width);
      pieces.rest();
    }
  return CUDA_SUCCESS;
}

CUresult perform(const MemsetWork& work, CUcontext context) {
  if (work.width == 0 || work.height == 0) return CUDA_SUCCESS;
  const Box box = box_of(work);
  if (!accessible(box, context->device->ordinal, true)) return CUDA_ERROR_ILLEGAL_ADDRESS;
  Pieces pieces;
  if (work.height == 1) {
    pieces.each(box.width, [&](uint64_t at, uint64_t piece) {
      fill_row(bytes_at(box.first + at), piece, work.value, work.element);
    });
    return CUDA_SUCCESS;
  }
  for (uint64_t y = 0; y < box.height; ++y) {
    fill_row(bytes_at(box.row(y, 0)), box.width, work.value, work.element);
    pieces.rest();
  }
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
