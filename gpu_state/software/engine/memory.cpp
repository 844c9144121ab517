// ld and st over 32 lanes, with three paths, the fast ones first: all lanes access one contiguous range;
// shared memory at any offsets; one lane after the other. Compiled once per instruction set; all functions
// are in this file's own namespace, so that the linker does not mix the copies.
#include "gpu_state/software/engine/memory.h"

#ifndef CROPDL_TARGET
#define CROPDL_TARGET baseline
#endif

namespace cropdl::engine::CROPDL_TARGET {

Instruction::Execute find_memory(const MemoryForm& form);

namespace {

__extension__ using u128 = unsigned __int128;
using Execute = Instruction::Execute;

#define CROPDL_INLINE [[gnu::always_inline]] inline

template <class T>
CROPDL_INLINE T* at(WarpRun& warp, Place place) {
  return reinterpret_cast<T*>((place >= 0 ? warp.frame : warp.constants) + place);
}

CROPDL_INLINE void addresses(WarpRun& warp, const Instruction& in, uint64_t* to) {
  const uint64_t offset = static_cast<uint64_t>(in.immediate);
  if (in.extra & kNoBase) {
    for (int l = 0; l < kLanes; ++l) to[l] = offset;
  } else if (in.extra & kNarrowAddress) {
    const uint32_t* from = at<uint32_t>(warp, in.operands[kAddress]);
    for (int l = 0; l < kLanes; ++l) to[l] = uint32_t(from[l] + uint32_t(offset));
  } else {
    const uint64_t* from = at<uint64_t>(warp, in.operands[kAddress]);
    for (int l = 0; l < kLanes; ++l) to[l] = from[l] + offset;
  }
}

// Whether the address of every lane l is the first one's plus l times `step`.
CROPDL_INLINE bool in_a_row(const uint64_t* a, uint64_t step) {
  uint64_t differ = 0;
  for (int l = 0; l < kLanes; ++l) differ |= a[l] ^ (a[0] + step * l);
  return differ == 0;
}
CROPDL_INLINE bool all_equal(const uint64_t* a) {
  uint64_t differ = 0;
  for (int l = 0; l < kLanes; ++l) differ |= a[l] ^ a[0];
  return differ == 0;
}

// Whether all of [address, address + size) is in the device's own or the common memory, and allocated or
// mapped. `size` >= 8.
CROPDL_INLINE bool plain(const MemoryView& view, uint64_t address, uint64_t size, bool write) {
  uint64_t last = address + size - 1;
  if (!((address - view.own.begin < view.own.end - view.own.begin &&
         last - view.own.begin < view.own.end - view.own.begin) ||
        (address - view.common.begin < view.common.end - view.common.begin &&
         last - view.common.begin < view.common.end - view.common.begin)))
    return view.mapped(address, last, write);
  const uint8_t* from = view.shadow + ((address - view.area) >> 3);
  const uint8_t* to = view.shadow + ((last - view.area) >> 3);
  uint32_t worst = 8;
  for (; from < to; ++from) worst = *from < worst ? *from : worst;
  return worst == 8 && *to > (last & 7);
}

// Vectors of up to 16 bytes are read and written in one access, as on devices: CUB keeps a state and its
// value in one. Both addresses are aligned to the size.
template <class T>
CROPDL_INLINE void move_as(void* to, const void* from) {
  typedef T Aliased [[gnu::may_alias]];
  *static_cast<volatile Aliased*>(to) = *static_cast<const volatile Aliased*>(from);
}
CROPDL_INLINE void move_whole(void* to, const void* from, uint32_t size) {
  typedef uint64_t Two __attribute__((vector_size(16)));
  if (size == 16) {
    move_as<Two>(to, from);
  } else if (size == 8) {
    move_as<uint64_t>(to, from);
  } else if (size == 4) {
    move_as<uint32_t>(to, from);
  } else {
    std::memcpy(to, from, size);
  }
}

[[gnu::noinline]] void faults(WarpRun& warp, Area area, uint64_t address, uint32_t lane, uint32_t size,
                              bool write) {
  if (!resolve(warp, lane, area, address, size, write)) return;
  warp.fault(lane, CUDA_ERROR_ILLEGAL_ADDRESS, address, "no memory may be accessed at");
}

// Shared memory, at any offsets. `a`: the lanes' addresses.
template <class T, class R, bool kStore>
CROPDL_INLINE void access_shared(WarpRun& warp, const Instruction& in, uint32_t active, const uint64_t* a) {
  const uint32_t n = in.extra & kCountMask;
  const uint32_t size = uint32_t(sizeof(T)) * n;
  uint64_t bad = 0;
  const uint64_t limit = warp.shared_bytes;
  if (active == kAllLanes) {
    for (int l = 0; l < kLanes; ++l)
      bad |= (a[l] & (size - 1)) | uint64_t(a[l] > limit) | uint64_t(a[l] + size > limit);
  } else {
    for (int l = 0; l < kLanes; ++l)
      bad |= (active >> l & 1) ? (a[l] & (size - 1)) | uint64_t(a[l] > limit) | uint64_t(a[l] + size > limit)
                               : 0;
  }
  if (__builtin_expect(bad != 0, 0)) {
    for (uint32_t l = 0; l < kLanes; ++l)
      if ((active >> l & 1) && ((a[l] & (size - 1)) || a[l] + size > limit || a[l] > limit))
        return faults(warp, Area::kShared, a[l], l, size, kStore);
  }
  for (uint32_t k = 0; k < n; ++k) {
    R* r = at<R>(warp, in.operands[k]);
    std::byte* m = warp.shared + k * sizeof(T);
    if (active == kAllLanes) {
      if constexpr (kStore)
        for (int l = 0; l < kLanes; ++l) *reinterpret_cast<T*>(m + a[l]) = static_cast<T>(r[l]);
      else
        for (int l = 0; l < kLanes; ++l) r[l] = static_cast<R>(*reinterpret_cast<const T*>(m + a[l]));
    } else {
      for (int l = 0; l < kLanes; ++l) {
        if (!(active >> l & 1)) continue;
        if constexpr (kStore)
          *reinterpret_cast<T*>(m + a[l]) = static_cast<T>(r[l]);
        else
          r[l] = static_cast<R>(*reinterpret_cast<const T*>(m + a[l]));
      }
    }
  }
}

// One contiguous range, as neighbouring lanes read it, or one place for all. False: it is neither, and
// nothing was accessed.
template <Area kArea, class T, class R, bool kStore>
CROPDL_INLINE bool access_at_once(WarpRun& warp, const Instruction& in, uint32_t active, const uint64_t* a) {
  const uint32_t n = in.extra & kCountMask;
  const uint32_t size = uint32_t(sizeof(T)) * n;
  const MemoryView& view = *warp.memory;
  if (active == kAllLanes && n == 1 && sizeof(T) <= 8 && !(a[0] & (sizeof(T) - 1)) &&
      in_a_row(a, sizeof(T)) && plain(view, a[0], sizeof(T) * kLanes, kStore)) {
    R* __restrict r = at<R>(warp, in.operands[0]);
    T* __restrict m = reinterpret_cast<T*>(a[0]);
    if constexpr (kStore)
      for (int l = 0; l < kLanes; ++l) m[l] = static_cast<T>(r[l]);
    else
      for (int l = 0; l < kLanes; ++l) r[l] = static_cast<R>(m[l]);
    return true;
  }
  if (!kStore && active == kAllLanes && all_equal(a) && (kArea == Area::kGlobal || !(a[0] >> kWindowShift)) &&
      !(a[0] & (size - 1)) && view.allows(a[0], size, false)) {
    alignas(16) T whole[16 / sizeof(T)];
    move_whole(whole, reinterpret_cast<const void*>(a[0]), size);
    for (uint32_t k = 0; k < n; ++k) {
      R value = static_cast<R>(whole[k]);
      R* r = at<R>(warp, in.operands[k]);
      for (int l = 0; l < kLanes; ++l) r[l] = value;
    }
    return true;
  }
  return false;
}

// One lane after the other. Nothing is written before all addresses are known to be valid.
template <Area kArea, class T, class R, bool kStore>
CROPDL_INLINE void access_by_lane(WarpRun& warp, const Instruction& in, uint32_t active, uint64_t* a) {
  const uint32_t n = in.extra & kCountMask;
  const uint32_t size = uint32_t(sizeof(T)) * n;
  const MemoryView& view = *warp.memory;
  for (uint32_t l = 0; l < kLanes; ++l) {
    if (!(active >> l & 1)) continue;
    uint64_t address = a[l];
    if (kArea == Area::kGlobal || (kArea == Area::kGeneric && !(address >> kWindowShift))) {
      if ((address & (size - 1)) || !view.allows(address, size, kStore))
        return faults(warp, kArea, address, l, size, kStore);
    } else {
      std::byte* where = resolve(warp, l, kArea, address, size, kStore);
      if (!where) return;
      a[l] = reinterpret_cast<uint64_t>(where);
    }
  }
  if (n > 1 || sizeof(T) == 16) {
    for (int l = 0; l < kLanes; ++l) {
      if (!(active >> l & 1)) continue;
      alignas(16) T whole[16 / sizeof(T)];
      void* m = reinterpret_cast<void*>(a[l]);
      const bool aligned = !(a[l] & (size - 1));  // not required of local memory
      if constexpr (kStore) {
        for (uint32_t k = 0; k < n; ++k) whole[k] = static_cast<T>(at<R>(warp, in.operands[k])[l]);
        aligned ? move_whole(m, whole, size) : void(std::memcpy(m, whole, size));
      } else {
        aligned ? move_whole(whole, m, size) : void(std::memcpy(whole, m, size));
        for (uint32_t k = 0; k < n; ++k) at<R>(warp, in.operands[k])[l] = static_cast<R>(whole[k]);
      }
    }
    return;
  }
  R* r = at<R>(warp, in.operands[0]);
  for (int l = 0; l < kLanes; ++l) {
    if (!(active >> l & 1)) continue;
    T* m = reinterpret_cast<T*>(a[l]);
    if constexpr (kStore)
      *m = static_cast<T>(r[l]);
    else
      r[l] = static_cast<R>(*m);
  }
}

template <Area kArea, class T, class R, bool kStore>
void access(WarpRun& warp, const Instruction& in, uint32_t active) {
  alignas(64) uint64_t a[kLanes];
  addresses(warp, in, a);
  if constexpr (kArea == Area::kShared) {
    access_shared<T, R, kStore>(warp, in, active, a);
  } else {
    if constexpr (kArea == Area::kGlobal || kArea == Area::kGeneric)
      if (access_at_once<kArea, T, R, kStore>(warp, in, active, a)) return;
    access_by_lane<kArea, T, R, kStore>(warp, in, active, a);
  }
}

template <Area kArea, class T, class R, bool kStore>
void execute(Warp& base, const Instruction& in, uint32_t active) {
  WarpRun& warp = static_cast<WarpRun&>(base);
  if (!kStore && (in.extra & kPoll)) {
    const auto first = static_cast<uint32_t>(__builtin_ctz(active));
    uint64_t address = static_cast<uint64_t>(in.immediate);  // the load may overwrite its address register
    if (!(in.extra & kNoBase))
      address += in.extra & kNarrowAddress ? at<uint32_t>(warp, in.operands[kAddress])[first]
                                           : at<uint64_t>(warp, in.operands[kAddress])[first];
    access<kArea, T, R, kStore>(warp, in, active);
    uint64_t seen = 0;
    for (uint32_t k = 0; k < (in.extra & kCountMask); ++k)
      seen = seen * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(at<R>(warp, in.operands[k])[first]);
    return warp.looked(in, active, address, seen);
  }
  access<kArea, T, R, kStore>(warp, in, active);
}

template <Area kArea, class T, class R>
Execute by_store(bool store) {
  return store ? execute<kArea, T, R, true> : execute<kArea, T, R, false>;
}

template <Area kArea, class T>
Execute by_register(const MemoryForm& form) {
  if (form.wide < sizeof(T) && !form.store) return nullptr;
  switch (form.wide) {
    case 2:
      if constexpr (sizeof(T) <= 2) return by_store<kArea, T, uint16_t>(form.store);
      return nullptr;
    case 4:
      if constexpr (sizeof(T) <= 4) return by_store<kArea, T, uint32_t>(form.store);
      return nullptr;
    case 8:
      if constexpr (sizeof(T) <= 8) return by_store<kArea, T, uint64_t>(form.store);
      return nullptr;
    case 16:
      if constexpr (sizeof(T) == 16) return by_store<kArea, T, u128>(form.store);
      return nullptr;
    default:
      return nullptr;
  }
}

template <Area kArea>
Execute by_type(const MemoryForm& form) {
  switch (form.size) {
    case 1:
      return form.is_signed ? by_register<kArea, int8_t>(form) : by_register<kArea, uint8_t>(form);
    case 2:
      return form.is_signed ? by_register<kArea, int16_t>(form) : by_register<kArea, uint16_t>(form);
    case 4:
      return form.is_signed ? by_register<kArea, int32_t>(form) : by_register<kArea, uint32_t>(form);
    case 8:
      return by_register<kArea, uint64_t>(form);
    case 16:
      return by_register<kArea, u128>(form);
    default:
      return nullptr;
  }
}

}  // namespace

Instruction::Execute find_memory(const MemoryForm& form) {
  switch (form.area) {
    case Area::kGlobal:
      return by_type<Area::kGlobal>(form);
    case Area::kGeneric:
      return by_type<Area::kGeneric>(form);
    case Area::kShared:
      return by_type<Area::kShared>(form);
    case Area::kLocal:
      return by_type<Area::kLocal>(form);
    case Area::kParameter:
      return by_type<Area::kParameter>(form);
  }
  return nullptr;
}

}  // namespace cropdl::engine::CROPDL_TARGET
