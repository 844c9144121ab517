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

// `how`: the description of a texture; a surface has none.
template <class F, class Object, class Resource, class... How>
auto make_object(RealFunction<F> make, Object* object, const Resource* resource, How... how) {
  rt::Call call;
  Resource real = resource ? *resource : Resource{};
  if (resource) change_array(real, [](auto& array, uint32_t k) { array = rt::real(array, k); });
  const auto r = make(object, resource ? &real : nullptr, how...);
  if (succeeded(r))
    rt::made_word(*object, sizeof...(how) ? kind::cudaTextureObject : kind::cudaSurfaceObject, make.library,
                  make.function, nullptr);
  return r;
}

template <class F, class Resource, class Object>
auto resource_of(RealFunction<F> get, Resource* resource, Object object) {
  rt::Call call;
  const auto r = get(resource, object);
  if (succeeded(r)) change_array(*resource, [](auto& array, uint32_t k) { array = known_or_real(array, k); });
  return r;
}

// Looks the record up first: once the driver has ended the object, another thread's may get its number.
template <class F>
auto unmake_object(RealFunction<F> driver_ends, uint64_t number, uint32_t its_kind) {
  rt::Call call;
  const uint64_t word = rt::virtual_of(number, its_kind);
  const auto r = driver_ends(number);
  if (succeeded(r)) rt::forget_word(word);
  return r;
}
template <class F>
auto unmake_texture(RealFunction<F> driver_ends, uint64_t number) {
  return unmake_object(driver_ends, number, kind::cudaTextureObject);
}
template <class F>
auto unmake_surface(RealFunction<F> driver_ends, uint64_t number) {
  return unmake_object(driver_ends, number, kind::cudaSurfaceObject);
}

}  // namespace

extern "C" {

CROPDL_CALLS(make_object)
CROPDL_CALLS(resource_of)
CROPDL_CALLS(unmake_texture)
CROPDL_CALLS(unmake_surface)

}  // extern "C"
