// Pools. A pool in the driver is real, made again by its recipe, and has its attributes, but provides no
// memory, so its usage counters come from here. Sources: CUDA Runtime API and Driver API 13.0, "Stream
// Ordered Memory Allocator". LH, LH FS base, a thread of the program.
#include <algorithm>
#include <cstring>
#include <vector>

#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/memory.h"

using namespace cropdl::cuda;
using cropdl::memory::Pool;

namespace {

// The default pools by device, fixed as long as the process lives. The driver must be initialised.
const std::vector<CUmemoryPool>& default_pools() {
  static const auto& all = *[] {
    auto* found = new std::vector<CUmemoryPool>(static_cast<size_t>(device_count()));
    for (size_t d = 0; d < found->size(); ++d)
      if (CROPDL_DRIVER(cuDeviceGetDefaultMemPool)(&(*found)[d], static_cast<int>(d)) != CUDA_SUCCESS)
        (*found)[d] = nullptr;
    return found;
  }();
  return all;
}

// The key of the arena's side of a pool, stable over restarts: for a default pool its device, for others the
// program's handle. 0: not a pool.
uint64_t key_of(CUmemoryPool real, int* device) {
  const auto& usual = default_pools();
  const auto found = real ? std::find(usual.begin(), usual.end(), real) : usual.end();
  if (found == usual.end()) return rt::virtual_of(rt::word_of(real), kind::cudaMemPool);
  *device = static_cast<int>(found - usual.begin());
  return static_cast<uint64_t>(*device) + 1;
}

Pool* arenas_side(CUmemoryPool pool) {
  DeviceMemory* its = known_device_memory();
  return its ? arenas_side(*its, real_pool(pool)) : nullptr;
}

// Passed on unchanged: the program's structure contains no handle.
CUresult create_pool(CUmemoryPool* pool, const CUmemPoolProps* properties, Maker m) {
  if (!pool || !properties) return CUDA_ERROR_INVALID_VALUE;
  CUmemoryPool made = nullptr;
  if (const CUresult error = CROPDL_DRIVER(cuMemPoolCreate)(&made, properties)) return error;
  rt::RecipeWriter recipe;
  recipe.array(properties, 1);
  // Shared with other processes: not saved.
  const bool shared = properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
  const uint64_t word =
      rt::made_word(rt::word_of(made), kind::cudaMemPool, m.library, m.function, shared ? nullptr : &recipe);
  *pool = rt::handle_of<CUmemoryPool>(word);
  const bool of_a_device = properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                           properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  DeviceMemory* its = device_memory();
  if (Pool* there = its && of_a_device ? its->pools.pool(word, properties->location.id) : nullptr)
    there->most = properties->maxSize;
  return CUDA_SUCCESS;
}

// The arena's counter that is this attribute; nullptr: the attribute is the driver's.
uint64_t Pool::*counter_of(CUmemPool_attribute attribute) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return &Pool::used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return &Pool::used_high;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return &Pool::reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return &Pool::reserved_high;
    default:
      return nullptr;
  }
}

CUmemPool_attribute as_driver(cudaMemPoolAttr attribute) {
  static_assert(int{cudaMemPoolAttrReleaseThreshold} == int{CU_MEMPOOL_ATTR_RELEASE_THRESHOLD} &&
                int{cudaMemPoolAttrUsedMemHigh} == int{CU_MEMPOOL_ATTR_USED_MEM_HIGH});
  return static_cast<CUmemPool_attribute>(attribute);
}

// Kinds of state, by which a setter replaces an earlier one: any numbers that no other state of a pool has.
constexpr uint64_t kAttribute = 0x6d70'6174'7472, kAccess = 0x6d70'6163'6373;

CUresult set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value, Maker m) {
  rt::Call call;
  const rt::Setting setting;
  if (const CUresult error = CROPDL_DRIVER(cuMemPoolSetAttribute)(real_pool(pool), attribute, value))
    return error;
  Pool* known = arenas_side(pool);
  if (known && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    memcpy(&known->keep, value, sizeof known->keep);
  // High-water marks are the arena's own, and can only be reset.
  if (known && attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) known->used_high = known->used;
  if (known && attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) known->reserved_high = known->reserved;
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
    return CUDA_SUCCESS;
  rt::RecipeWriter recipe;
  recipe.handle(rt::word_of(pool));
  recipe.value(attribute);
  recipe.array(static_cast<const char*>(value),
               attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? 4 : 8);
  rt::Key key;
  key.value(attribute);
  rt::keep_state(rt::word_of(pool), m.library, m.function, kAttribute, key, recipe);
  return CUDA_SUCCESS;
}

// Updates `peers`, the devices to which the pool is open (one bit each), by these accesses.
uint32_t opened_to(uint32_t peers, const CUmemAccessDesc* access, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const auto& [type, id] = access[i].location;
    if (type != CU_MEM_LOCATION_TYPE_DEVICE || id < 0 || id >= cropdl::memory::kDevices) continue;
    const uint32_t bit = 1u << id;
    peers = access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE ? peers | bit : peers & ~bit;
  }
  return peers;
}

// A list may have several entries for a device, of which the last one counts.
bool is_last_for_its_device(const CUmemAccessDesc* access, size_t n, size_t i) {
  return std::none_of(access + i + 1, access + n, [&](const CUmemAccessDesc& later) {
    return later.location.type == access[i].location.type && later.location.id == access[i].location.id;
  });
}

// The arena opens its memory before the driver opens the pool's. The driver's error has precedence.
CUresult set_access(CUmemoryPool pool, const CUmemAccessDesc* access, size_t n, Maker m) {
  rt::Call call;
  const rt::Setting setting;
  DeviceMemory* its = device_memory();
  Pool* known = its && access ? arenas_side(pool) : nullptr;
  const uint32_t before = known ? known->peers : 0;
  const CUresult opened = known ? its->pools.open_to(known, opened_to(before, access, n)) : CUDA_SUCCESS;
  CUresult error = opened;
  if (const CUresult driver = CROPDL_DRIVER(cuMemPoolSetAccess)(real_pool(pool), access, n)) error = driver;
  if (error) {
    if (known && !opened) (void)its->pools.open_to(known, before);
    return error;
  }
  for (size_t i = 0; i < n; ++i) {
    if (!is_last_for_its_device(access, n, i)) continue;
    rt::RecipeWriter recipe;
    recipe.handle(rt::word_of(pool));
    recipe.array(access + i, 1);
    rt::Key key;
    key.value(access[i].location);
    rt::keep_state(rt::word_of(pool), m.library, m.function, kAccess, key, recipe);
  }
  return CUDA_SUCCESS;
}

// --- The current pool of a location. Four functions set it, and the last call of any of them counts. Source:
// CUDA Driver API 13.0, cuMemSetMemPool (the same as cuDeviceSetMemPool for pinned memory on a device).

static_assert(int{CUDA_ERROR_INVALID_HANDLE} == int{cudaErrorInvalidResourceHandle});

constexpr uint64_t kCurrentPool = 0x6d70'6375'7272;  // kind of state: any number that no other has

static_assert(int{cudaMemLocationTypeDevice} == int{CU_MEM_LOCATION_TYPE_DEVICE} &&
              int{cudaMemLocationTypeHostNuma} == int{CU_MEM_LOCATION_TYPE_HOST_NUMA} &&
              int{cudaMemAllocationTypePinned} == int{CU_MEM_ALLOCATION_TYPE_PINNED});

// After a successful call. When the pool ends, the library resets the location, whichever function set it.
void keep_current_pool(int location, int id, int type, CUmemoryPool pool, Maker m,
                       const rt::RecipeWriter& recipe) {
  const bool has_number =
      location == CU_MEM_LOCATION_TYPE_DEVICE || location == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  rt::Key key;
  key.value<int32_t>(location);
  key.value<int32_t>(has_number ? id : 0);
  key.value<int32_t>(type);
  rt::keep_state(rt::kOfLibrary, m.library, m.function, kCurrentPool, key, recipe, rt::word_of(pool));
}

template <class Result>
Result set_of_device(RealFunction<Result(int, CUmemoryPool)> set, int device, CUmemoryPool pool) {
  rt::Call call;
  const CUmemoryPool its = real_pool(pool);
  if (rt::is_ended_object(its)) return static_cast<Result>(CUDA_ERROR_INVALID_HANDLE);
  const rt::Setting setting;
  const Result r = set(device, its);
  if (static_cast<int>(r) != 0) return r;
  rt::RecipeWriter recipe;
  recipe.value<int32_t>(device);
  recipe.handle(rt::word_of(pool));
  keep_current_pool(CU_MEM_LOCATION_TYPE_DEVICE, device, CU_MEM_ALLOCATION_TYPE_PINNED, pool, set, recipe);
  return r;
}
template <class Result>
int64_t set_of_device_again(rt::Again& from, Result (*set)(int, CUmemoryPool)) {
  const auto device = from.value<int32_t>();
  return set(device, rt::handle_of<CUmemoryPool>(from.handle()));
}

template <class Result, class Location, class Type>
Result set_at(RealFunction<Result(Location*, Type, CUmemoryPool)> set, Location* location, Type type,
              CUmemoryPool pool) {
  rt::Call call;
  const CUmemoryPool its = real_pool(pool);
  if (rt::is_ended_object(its)) return static_cast<Result>(CUDA_ERROR_INVALID_HANDLE);
  const rt::Setting setting;
  const Result r = set(location, type, its);
  if (static_cast<int>(r) != 0 || !location) return r;
  rt::RecipeWriter recipe;
  recipe.array(location, 1);
  recipe.value(type);
  recipe.handle(rt::word_of(pool));
  keep_current_pool(location->type, location->id, type, pool, set, recipe);
  return r;
}
template <class Result, class Location, class Type>
int64_t set_at_again(rt::Again& from, Result (*set)(Location*, Type, CUmemoryPool)) {
  auto* location = const_cast<Location*>(from.array<Location>());
  const auto type = from.value<Type>();
  return set(location, type, rt::handle_of<CUmemoryPool>(from.handle()));
}

}  // namespace

Pool* cropdl::cuda::arenas_side(DeviceMemory& its, CUmemoryPool real) {
  int device = -1;
  const uint64_t key = key_of(real, &device);
  Pool* pool = its.pools.known(key);
  if (pool || device < 0) return pool;
  pool = its.pools.pool(key, device);
  cuuint64_t keep = 0;
  if (pool && !CROPDL_DRIVER(cuMemPoolGetAttribute)(real, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep))
    pool->keep = keep;  // later changes: set_attribute()
  return pool;
}

extern "C" {

CUresult lower_cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  rt::Call call;
  return create_pool(pool, properties, CROPDL_DRIVER_MAKER(cuMemPoolCreate));
}
int64_t again_cuMemPoolCreate(rt::Again& from) {
  CUmemoryPool made = nullptr;
  const CUresult error = CROPDL_DRIVER(cuMemPoolCreate)(&made, from.array<CUmemPoolProps>());
  from.made(rt::word_of(made));
  return error;
}
cudaError_t lower_cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  static_assert(sizeof(cudaMemPoolProps) == sizeof(CUmemPoolProps));
  return in_runtime([&](int) {
    return create_pool(pool, reinterpret_cast<const CUmemPoolProps*>(properties),
                       CROPDL_CUDART_MAKER(cudaMemPoolCreate));
  });
}
int64_t again_cudaMemPoolCreate(rt::Again& from) { return again_cuMemPoolCreate(from); }

CUresult lower_cuMemPoolDestroy(CUmemoryPool pool) {
  rt::Call call;
  const uint64_t word = rt::word_of(pool);
  if (const CUresult error = CROPDL_DRIVER(cuMemPoolDestroy)(real_pool(pool))) return error;
  if (DeviceMemory* its = known_device_memory())
    if (Pool* known = its->pools.known(word)) its->pools.destroy(known);
  rt::forget_word(word);
  return CUDA_SUCCESS;
}
cudaError_t lower_cudaMemPoolDestroy(cudaMemPool_t pool) { return of_runtime(lower_cuMemPoolDestroy(pool)); }

CUresult lower_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  rt::Call call;
  const Pool* known = value ? arenas_side(pool) : nullptr;
  if (known) known_device_memory()->pools.collect();
  const auto counter = counter_of(attribute);
  const uint64_t counted = known && counter ? known->*counter : 0;
  const CUresult error = CROPDL_DRIVER(cuMemPoolGetAttribute)(real_pool(pool), attribute, value);
  if (error || !counter) return error;
  memcpy(value, &counted, sizeof counted);
  return CUDA_SUCCESS;
}
cudaError_t lower_cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return of_runtime(lower_cuMemPoolGetAttribute(pool, as_driver(attribute), value));
}

CUresult lower_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  return set_attribute(pool, attribute, value, CROPDL_DRIVER_MAKER(cuMemPoolSetAttribute));
}
int64_t again_cuMemPoolSetAttribute(rt::Again& from) {
  const auto pool = rt::handle_of<CUmemoryPool>(from.handle());
  const auto attribute = from.value<CUmemPool_attribute>();
  return CROPDL_DRIVER(cuMemPoolSetAttribute)(pool, attribute, const_cast<char*>(from.array<char>()));
}
cudaError_t lower_cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  return of_runtime(
      set_attribute(pool, as_driver(attribute), value, CROPDL_CUDART_MAKER(cudaMemPoolSetAttribute)));
}
int64_t again_cudaMemPoolSetAttribute(rt::Again& from) { return again_cuMemPoolSetAttribute(from); }

CUresult lower_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t n) {
  return set_access(pool, access, n, CROPDL_DRIVER_MAKER(cuMemPoolSetAccess));
}
int64_t again_cuMemPoolSetAccess(rt::Again& from) {
  const auto pool = rt::handle_of<CUmemoryPool>(from.handle());
  return CROPDL_DRIVER(cuMemPoolSetAccess)(pool, from.array<CUmemAccessDesc>(), 1);
}
cudaError_t lower_cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access, size_t n) {
  static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
  return of_runtime(set_access(pool, reinterpret_cast<const CUmemAccessDesc*>(access), n,
                               CROPDL_CUDART_MAKER(cudaMemPoolSetAccess)));
}
int64_t again_cudaMemPoolSetAccess(rt::Again& from) { return again_cuMemPoolSetAccess(from); }

CUresult lower_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  rt::Call call;
  if (const CUresult error = CROPDL_DRIVER(cuMemPoolTrimTo)(real_pool(pool), keep)) return error;
  if (Pool* known = arenas_side(pool)) known_device_memory()->pools.trim(known, keep);
  return CUDA_SUCCESS;
}
cudaError_t lower_cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  return of_runtime(lower_cuMemPoolTrimTo(pool, keep));
}

cudaError_t lower_cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return set_of_device(CROPDL_CUDART_FUNCTION(cudaDeviceSetMemPool), device, pool);
}
int64_t again_cudaDeviceSetMemPool(rt::Again& from) {
  return set_of_device_again(from, CROPDL_CUDART(cudaDeviceSetMemPool));
}
CUresult lower_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return set_of_device(CROPDL_DRIVER_FUNCTION(cuDeviceSetMemPool), device, pool);
}
int64_t again_cuDeviceSetMemPool(rt::Again& from) {
  return set_of_device_again(from, CROPDL_DRIVER(cuDeviceSetMemPool));
}

cudaError_t lower_cudaMemSetMemPool(cudaMemLocation* location, cudaMemAllocationType type,
                                    cudaMemPool_t pool) {
  return set_at(CROPDL_CUDART_FUNCTION(cudaMemSetMemPool), location, type, pool);
}
int64_t again_cudaMemSetMemPool(rt::Again& from) {
  return set_at_again(from, CROPDL_CUDART(cudaMemSetMemPool));
}
CUresult lower_cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return set_at(CROPDL_DRIVER_FUNCTION(cuMemSetMemPool), location, type, pool);
}
int64_t again_cuMemSetMemPool(rt::Again& from) { return set_at_again(from, CROPDL_DRIVER(cuMemSetMemPool)); }

}  // extern "C"
