// Textures and surfaces. Kernels read their numbers, so the program gets the library's own. They have no
// recipe, and refuse checkpoints while they exist. Source: CUDA Runtime API 13.0, "Texture Object
// Management", "Surface Object Management". LH, LH FS base, any thread.
#include "interpose/gen/driver/undeclared.h"
//
#include "interpose/cuda/lower/real.h"
#include "interpose/one_abi/kinds.h"

namespace rt = cropdl::one_abi;
namespace kind = rt::kind;
namespace driver = cropdl::seam::driver;
namespace cudart = cropdl::seam::cudart;

namespace cropdl::cuda {
namespace {

cudaResourceDesc real_of(const cudaResourceDesc& program) {
  cudaResourceDesc d = program;
  if (d.resType == cudaResourceTypeArray) d.res.array.array = rt::real(d.res.array.array, kind::cudaArray);
  if (d.resType == cudaResourceTypeMipmappedArray)
    d.res.mipmap.mipmap = rt::real(d.res.mipmap.mipmap, kind::cudaMipmappedArray);
  return d;
}
CUDA_RESOURCE_DESC real_of(const CUDA_RESOURCE_DESC& program) {
  CUDA_RESOURCE_DESC d = program;
  if (d.resType == CU_RESOURCE_TYPE_ARRAY) d.res.array.hArray = rt::real(d.res.array.hArray, kind::cudaArray);
  if (d.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    d.res.mipmap.hMipmappedArray = rt::real(d.res.mipmap.hMipmappedArray, kind::cudaMipmappedArray);
  return d;
}

// Replaces real handles of the program's objects by its own.
template <class H>
void make_virtual(H* handle, uint32_t its_kind) {
  if (const uint64_t known = rt::virtual_of(rt::word_of(*handle), its_kind))
    *handle = rt::handle_of<H>(known);
}
void make_virtual(cudaResourceDesc* d) {
  if (d->resType == cudaResourceTypeArray) make_virtual(&d->res.array.array, kind::cudaArray);
  if (d->resType == cudaResourceTypeMipmappedArray)
    make_virtual(&d->res.mipmap.mipmap, kind::cudaMipmappedArray);
}
void make_virtual(CUDA_RESOURCE_DESC* d) {
  if (d->resType == CU_RESOURCE_TYPE_ARRAY) make_virtual(&d->res.array.hArray, kind::cudaArray);
  if (d->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    make_virtual(&d->res.mipmap.hMipmappedArray, kind::cudaMipmappedArray);
}

void note_made(uint64_t number, uint32_t its_kind, const rt::RealLibrary& library, uint32_t function) {
  rt::made_word(number, its_kind, library, function, nullptr);
}
// Looks the record up first: once the driver has ended the object, another thread's may get its number.
template <class End>
auto end(uint64_t number, uint32_t its_kind, End driver_ends) {
  const uint64_t word = rt::virtual_of(number, its_kind);
  const auto r = driver_ends(number);
  if (static_cast<int>(r) == 0) rt::forget_word(word);
  return r;
}

}  // namespace
}  // namespace cropdl::cuda

using namespace cropdl::cuda;

extern "C" {

cudaError_t lower_cudaCreateTextureObject(cudaTextureObject_t* texture, const cudaResourceDesc* resource,
                                          const cudaTextureDesc* how, const cudaResourceViewDesc* view) {
  rt::Call call;
  const cudaResourceDesc real = resource ? real_of(*resource) : cudaResourceDesc{};
  const cudaError_t r =
      CROPDL_CUDART(cudaCreateTextureObject)(texture, resource ? &real : nullptr, how, view);
  if (r == cudaSuccess)
    note_made(*texture, kind::cudaTextureObject, kCudart, cudart::kFn_cudaCreateTextureObject);
  return r;
}
cudaError_t lower_cudaDestroyTextureObject(cudaTextureObject_t texture) {
  rt::Call call;
  return end(texture, kind::cudaTextureObject, CROPDL_CUDART(cudaDestroyTextureObject));
}
cudaError_t lower_cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t texture) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGetTextureObjectResourceDesc)(resource, texture);
  if (r == cudaSuccess) make_virtual(resource);
  return r;
}
cudaError_t lower_cudaGetTextureObjectTextureDesc(cudaTextureDesc* how, cudaTextureObject_t texture) {
  rt::Call call;
  return CROPDL_CUDART(cudaGetTextureObjectTextureDesc)(how, texture);
}
cudaError_t lower_cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* view,
                                                       cudaTextureObject_t texture) {
  rt::Call call;
  return CROPDL_CUDART(cudaGetTextureObjectResourceViewDesc)(view, texture);
}
cudaError_t lower_cudaCreateSurfaceObject(cudaSurfaceObject_t* surface, const cudaResourceDesc* resource) {
  rt::Call call;
  const cudaResourceDesc real = resource ? real_of(*resource) : cudaResourceDesc{};
  const cudaError_t r = CROPDL_CUDART(cudaCreateSurfaceObject)(surface, resource ? &real : nullptr);
  if (r == cudaSuccess)
    note_made(*surface, kind::cudaSurfaceObject, kCudart, cudart::kFn_cudaCreateSurfaceObject);
  return r;
}
cudaError_t lower_cudaDestroySurfaceObject(cudaSurfaceObject_t surface) {
  rt::Call call;
  return end(surface, kind::cudaSurfaceObject, CROPDL_CUDART(cudaDestroySurfaceObject));
}
cudaError_t lower_cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource, cudaSurfaceObject_t surface) {
  rt::Call call;
  const cudaError_t r = CROPDL_CUDART(cudaGetSurfaceObjectResourceDesc)(resource, surface);
  if (r == cudaSuccess) make_virtual(resource);
  return r;
}

CUresult lower_cuTexObjectCreate(CUtexObject* texture, const CUDA_RESOURCE_DESC* resource,
                                 const CUDA_TEXTURE_DESC* how, const CUDA_RESOURCE_VIEW_DESC* view) {
  rt::Call call;
  const CUDA_RESOURCE_DESC real = resource ? real_of(*resource) : CUDA_RESOURCE_DESC{};
  const CUresult r = CROPDL_DRIVER(cuTexObjectCreate)(texture, resource ? &real : nullptr, how, view);
  if (r == CUDA_SUCCESS) note_made(*texture, kind::cudaTextureObject, kDriver, driver::kFn_cuTexObjectCreate);
  return r;
}
CUresult lower_cuTexObjectDestroy(CUtexObject texture) {
  rt::Call call;
  return end(texture, kind::cudaTextureObject, CROPDL_DRIVER(cuTexObjectDestroy));
}
CUresult lower_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUtexObject texture) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuTexObjectGetResourceDesc)(resource, texture);
  if (r == CUDA_SUCCESS) make_virtual(resource);
  return r;
}
CUresult lower_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* how, CUtexObject texture) {
  rt::Call call;
  return CROPDL_DRIVER(cuTexObjectGetTextureDesc)(how, texture);
}
CUresult lower_cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* view, CUtexObject texture) {
  rt::Call call;
  return CROPDL_DRIVER(cuTexObjectGetResourceViewDesc)(view, texture);
}
CUresult lower_cuSurfObjectCreate(CUsurfObject* surface, const CUDA_RESOURCE_DESC* resource) {
  rt::Call call;
  const CUDA_RESOURCE_DESC real = resource ? real_of(*resource) : CUDA_RESOURCE_DESC{};
  const CUresult r = CROPDL_DRIVER(cuSurfObjectCreate)(surface, resource ? &real : nullptr);
  if (r == CUDA_SUCCESS)
    note_made(*surface, kind::cudaSurfaceObject, kDriver, driver::kFn_cuSurfObjectCreate);
  return r;
}
CUresult lower_cuSurfObjectDestroy(CUsurfObject surface) {
  rt::Call call;
  return end(surface, kind::cudaSurfaceObject, CROPDL_DRIVER(cuSurfObjectDestroy));
}
CUresult lower_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, CUsurfObject surface) {
  rt::Call call;
  const CUresult r = CROPDL_DRIVER(cuSurfObjectGetResourceDesc)(resource, surface);
  if (r == CUDA_SUCCESS) make_virtual(resource);
  return r;
}

}  // extern "C"
