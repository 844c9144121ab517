// Textures and surfaces. Kernels read their numbers, so the program gets the library's own. They have no
// recipe, and refuse checkpoints while they exist. Source: CUDA Runtime API 13.0, "Texture Object
// Management", "Surface Object Management". LH, LH FS base, any thread.
#include "interpose/cuda/lower/graphs.h"

using namespace cropdl::cuda;

namespace {

// Calls change(handle, kind) for the array that is the resource, if it is one.
template <class Change>
void change_array(cudaResourceDesc& d, Change change) {
  if (d.resType == cudaResourceTypeArray) change(d.res.array.array, kind::cudaArray);
  if (d.resType == cudaResourceTypeMipmappedArray) change(d.res.mipmap.mipmap, kind::cudaMipmappedArray);
}
template <class Change>
void change_array(CUDA_RESOURCE_DESC& d, Change change) {
  if (d.resType == CU_RESOURCE_TYPE_ARRAY) change(d.res.array.hArray, kind::cudaArray);
  if (d.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    change(d.res.mipmap.hMipmappedArray, kind::cudaMipmappedArray);
}

// `how`: what the library gets after the resource.
template <class F, class Object, class Resource, class... How>
auto make_object(RealFunction<F> make, uint32_t its_kind, Object* object, const Resource* resource,
                 How... how) {
  rt::Call call;
  Resource real = resource ? *resource : Resource{};
  if (resource) change_array(real, [](auto& array, uint32_t k) { array = rt::real(array, k); });
  const auto r = make(object, resource ? &real : nullptr, how...);
  if (static_cast<int>(r) == 0) rt::made_word(*object, its_kind, make.library, make.function, nullptr);
  return r;
}

template <class Result, class Resource, class Object>
Result resource_of(Resource* resource, Object object, RealFunction<Result(Resource*, Object)> get) {
  rt::Call call;
  const Result r = get(resource, object);
  if (static_cast<int>(r) == 0)
    change_array(*resource, [](auto& array, uint32_t k) { array = known_or_real(array, k); });
  return r;
}

// Looks the record up first: once the driver has ended the object, another thread's may get its number.
template <class F>
auto unmake_object(uint64_t number, uint32_t its_kind, RealFunction<F> driver_ends) {
  rt::Call call;
  const uint64_t word = rt::virtual_of(number, its_kind);
  const auto r = driver_ends(number);
  if (static_cast<int>(r) == 0) rt::forget_word(word);
  return r;
}

}  // namespace

extern "C" {

cudaError_t lower_cudaCreateTextureObject(cudaTextureObject_t* texture, const cudaResourceDesc* resource,
                                          const cudaTextureDesc* how, const cudaResourceViewDesc* view) {
  return make_object(CROPDL_CUDART_FUNCTION(cudaCreateTextureObject), kind::cudaTextureObject, texture,
                     resource, how, view);
}
cudaError_t lower_cudaDestroyTextureObject(cudaTextureObject_t texture) {
  return unmake_object(texture, kind::cudaTextureObject, CROPDL_CUDART_FUNCTION(cudaDestroyTextureObject));
}
cudaError_t lower_cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t texture) {
  return resource_of(resource, texture, CROPDL_CUDART_FUNCTION(cudaGetTextureObjectResourceDesc));
}
cudaError_t lower_cudaCreateSurfaceObject(cudaSurfaceObject_t* surface, const cudaResourceDesc* resource) {
  return make_object(CROPDL_CUDART_FUNCTION(cudaCreateSurfaceObject), kind::cudaSurfaceObject, surface,
                     resource);
}
cudaError_t lower_cudaDestroySurfaceObject(cudaSurfaceObject_t surface) {
  return unmake_object(surface, kind::cudaSurfaceObject, CROPDL_CUDART_FUNCTION(cudaDestroySurfaceObject));
}
cudaError_t lower_cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource, cudaSurfaceObject_t surface) {
  return resource_of(resource, surface, CROPDL_CUDART_FUNCTION(cudaGetSurfaceObjectResourceDesc));
}

CUresult lower_cuTexObjectCreate(CUtexObject* texture, const CUDA_RESOURCE_DESC* resource,
                                 const CUDA_TEXTURE_DESC* how, const CUDA_RESOURCE_VIEW_DESC* view) {
  return make_object(CROPDL_DRIVER_FUNCTION(cuTexObjectCreate), kind::cudaTextureObject, texture, resource,
                     how, view);
}
CUresult lower_cuTexObjectDestroy(CUtexObject texture) {
  return unmake_object(texture, kind::cudaTextureObject, CROPDL_DRIVER_FUNCTION(cuTexObjectDestroy));
}
CUresult lower_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUtexObject texture) {
  return resource_of(resource, texture, CROPDL_DRIVER_FUNCTION(cuTexObjectGetResourceDesc));
}
CUresult lower_cuSurfObjectCreate(CUsurfObject* surface, const CUDA_RESOURCE_DESC* resource) {
  return make_object(CROPDL_DRIVER_FUNCTION(cuSurfObjectCreate), kind::cudaSurfaceObject, surface, resource);
}
CUresult lower_cuSurfObjectDestroy(CUsurfObject surface) {
  return unmake_object(surface, kind::cudaSurfaceObject, CROPDL_DRIVER_FUNCTION(cuSurfObjectDestroy));
}
CUresult lower_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUsurfObject surface) {
  return resource_of(resource, surface, CROPDL_DRIVER_FUNCTION(cuSurfObjectGetResourceDesc));
}

}  // extern "C"
