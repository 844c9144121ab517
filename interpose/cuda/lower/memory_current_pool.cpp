// The current pool of a location. Four functions set it, and the last call of any of them counts. Source:
// CUDA Driver API 13.0, cuMemSetMemPool (the same as cuDeviceSetMemPool for pinned memory on a device). LH,
// LH FS base, a thread of the program.
#include "interpose/cuda/lower/real.h"

using namespace cropdl::cuda;

static_assert(int{CUDA_ERROR_INVALID_HANDLE} == int{cudaErrorInvalidResourceHandle});

namespace {

constexpr uint64_t kCurrentPool = 0x6d70'6375'7272;  // kind of state: any number that no other has

static_assert(int{cudaMemLocationTypeDevice} == int{CU_MEM_LOCATION_TYPE_DEVICE} &&
              int{cudaMemLocationTypeHostNuma} == int{CU_MEM_LOCATION_TYPE_HOST_NUMA} &&
              int{cudaMemAllocationTypePinned} == int{CU_MEM_ALLOCATION_TYPE_PINNED});

// After a successful call. When the pool ends, the library resets the location, whichever function set it.
template <class Pool>
void keep_current_pool(int location, int id, int type, Pool pool, Maker m, const rt::RecipeWriter& recipe) {
  const bool has_number =
      location == CU_MEM_LOCATION_TYPE_DEVICE || location == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  rt::Key key;
  key.value<int32_t>(location);
  key.value<int32_t>(has_number ? id : 0);
  key.value<int32_t>(type);
  rt::keep_state(rt::kOfLibrary, m.library, m.function, kCurrentPool, key, recipe, rt::word_of(pool));
}

template <class Result, class Pool>
Result set_of_device(RealFunction<Result(int, Pool)> set, int device, Pool pool) {
  rt::Call call;
  const Pool its = rt::real(pool, kind::cudaMemPool);
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
template <class Result, class Pool>
int64_t set_of_device_again(rt::Again& from, Result (*set)(int, Pool)) {
  const auto device = from.value<int32_t>();
  return set(device, rt::handle_of<Pool>(from.handle()));
}

template <class Result, class Location, class Type, class Pool>
Result set_at(RealFunction<Result(Location*, Type, Pool)> set, Location* location, Type type, Pool pool) {
  rt::Call call;
  const Pool its = rt::real(pool, kind::cudaMemPool);
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
template <class Result, class Location, class Type, class Pool>
int64_t set_at_again(rt::Again& from, Result (*set)(Location*, Type, Pool)) {
  auto* location = const_cast<Location*>(from.array<Location>());
  const auto type = from.value<Type>();
  return set(location, type, rt::handle_of<Pool>(from.handle()));
}

}  // namespace

extern "C" {

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
