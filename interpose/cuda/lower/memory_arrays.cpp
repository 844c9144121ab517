// Arrays. The driver lays out their memory, so they are real, and each refuses checkpoints while it exists,
// by its maker's name. Also copies whose structures name arrays or contexts. Sources: CUDA Runtime API and
// Driver API 13.0, "Memory Management". LH, LH FS base, a thread of the program.
#include <vector>

#include "interpose/cuda/lower/memory.h"
#include "interpose/one_abi/kinds.h"

namespace rt = cropdl::one_abi;
namespace cudart = cropdl::seam::cudart;
namespace driver = cropdl::seam::driver;
using namespace cropdl::cuda;

namespace {

constexpr uint32_t kArray = rt::kind::cudaArray, kMipmapped = rt::kind::cudaMipmappedArray;

template <class H>
void name_array(H* handle, uint32_t kind, const rt::RealLibrary& library, uint32_t function) {
  *handle = rt::handle_of<H>(rt::made_word(rt::word_of(*handle), kind, library, function, nullptr));
}

cudaError_t ended(cudaError_t error, uint64_t word) {
  if (error == cudaSuccess) rt::forget_word(word);
  return of_runtime(static_cast<CUresult>(error));
}
CUresult ended(CUresult error, uint64_t word) {
  if (error == CUDA_SUCCESS) rt::forget_word(word);
  return error;
}

cudaError_t as_is(cudaError_t error) { return of_runtime(static_cast<CUresult>(error)); }

// The structure with real handles. Null is passed on: the library checks it.
template <class Copy>
class WithRealArrays {
 public:
  explicit WithRealArrays(const Copy* from) : null_(!from) {
    if (null_) return;
    copy_ = *from;
    copy_.srcArray = rt::real(copy_.srcArray, kArray);
    copy_.dstArray = rt::real(copy_.dstArray, kArray);
    if constexpr (requires { copy_.srcContext; }) {
      copy_.srcContext = rt::real(copy_.srcContext, rt::kind::cudaContext);
      copy_.dstContext = rt::real(copy_.dstContext, rt::kind::cudaContext);
    }
  }
  const Copy* get() const { return null_ ? nullptr : &copy_; }

 private:
  Copy copy_{};
  const bool null_;
};

template <class Operation>
std::vector<Operation> with_real_arrays(const Operation* from, size_t n) {
  std::vector<Operation> all;
  for (size_t i = 0; from && i < n; ++i) {
    all.push_back(from[i]);
    for (auto* side : {&all.back().src, &all.back().dst})
      if (static_cast<int>(side->type) == cudaMemcpyOperandTypeArray)
        side->op.array.array = rt::real(side->op.array.array, kArray);
  }
  return all;
}
static_assert(int{cudaMemcpyOperandTypeArray} == int{CU_MEMCPY_OPERAND_TYPE_ARRAY});

}  // namespace

extern "C" {

cudaError_t lower_cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format, size_t width,
                                  size_t height, unsigned flags) {
  rt::Call call;
  const cudaError_t error =
      with_room(-1, [&] { return CROPDL_CUDART(cudaMallocArray)(array, format, width, height, flags); });
  if (error == cudaSuccess) name_array(array, kArray, kCudart, cudart::kFn_cudaMallocArray);
  return as_is(error);
}
cudaError_t lower_cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format,
                                    cudaExtent extent, unsigned flags) {
  rt::Call call;
  const cudaError_t error =
      with_room(-1, [&] { return CROPDL_CUDART(cudaMalloc3DArray)(array, format, extent, flags); });
  if (error == cudaSuccess) name_array(array, kArray, kCudart, cudart::kFn_cudaMalloc3DArray);
  return as_is(error);
}
cudaError_t lower_cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* format,
                                           cudaExtent extent, unsigned levels, unsigned flags) {
  rt::Call call;
  const cudaError_t error = with_room(
      -1, [&] { return CROPDL_CUDART(cudaMallocMipmappedArray)(array, format, extent, levels, flags); });
  if (error == cudaSuccess) name_array(array, kMipmapped, kCudart, cudart::kFn_cudaMallocMipmappedArray);
  return as_is(error);
}
cudaError_t lower_cudaFreeArray(cudaArray_t array) {
  rt::Call call;
  return ended(CROPDL_CUDART(cudaFreeArray)(rt::real(array, kArray)), rt::word_of(array));
}
cudaError_t lower_cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  rt::Call call;
  return ended(CROPDL_CUDART(cudaFreeMipmappedArray)(rt::real(array, kMipmapped)), rt::word_of(array));
}

CUresult lower_cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* what) {
  rt::Call call;
  const CUresult error = with_room(-1, [&] { return CROPDL_DRIVER(cuArrayCreate_v2)(array, what); });
  if (error == CUDA_SUCCESS) name_array(array, kArray, kDriver, driver::kFn_cuArrayCreate_v2);
  return error;
}
CUresult lower_cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* what) {
  rt::Call call;
  const CUresult error = with_room(-1, [&] { return CROPDL_DRIVER(cuArray3DCreate_v2)(array, what); });
  if (error == CUDA_SUCCESS) name_array(array, kArray, kDriver, driver::kFn_cuArray3DCreate_v2);
  return error;
}
CUresult lower_cuArrayDestroy(CUarray array) {
  rt::Call call;
  return ended(CROPDL_DRIVER(cuArrayDestroy)(rt::real(array, kArray)), rt::word_of(array));
}
CUresult lower_cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* what,
                                      unsigned levels) {
  rt::Call call;
  const CUresult error =
      with_room(-1, [&] { return CROPDL_DRIVER(cuMipmappedArrayCreate)(array, what, levels); });
  if (error == CUDA_SUCCESS) name_array(array, kMipmapped, kDriver, driver::kFn_cuMipmappedArrayCreate);
  return error;
}
CUresult lower_cuMipmappedArrayDestroy(CUmipmappedArray array) {
  rt::Call call;
  return ended(CROPDL_DRIVER(cuMipmappedArrayDestroy)(rt::real(array, kMipmapped)), rt::word_of(array));
}

// --- Copies: by structure alone, and with a stream.
#define CROPDL_RUNTIME_COPY(NAME, STRUCTURE)                                  \
  cudaError_t lower_##NAME(const STRUCTURE* copy) {                           \
    rt::Call call;                                                            \
    return as_is(CROPDL_CUDART(NAME)(WithRealArrays<STRUCTURE>(copy).get())); \
  }
#define CROPDL_RUNTIME_COPY_IN(NAME, STRUCTURE)                                                    \
  cudaError_t lower_##NAME(const STRUCTURE* copy, cudaStream_t stream) {                           \
    rt::Call call;                                                                                 \
    return as_is(CROPDL_CUDART(NAME)(WithRealArrays<STRUCTURE>(copy).get(), real_stream(stream))); \
  }
#define CROPDL_DRIVER_COPY(NAME, STRUCTURE)                            \
  CUresult lower_##NAME(const STRUCTURE* copy) {                       \
    rt::Call call;                                                     \
    return CROPDL_DRIVER(NAME)(WithRealArrays<STRUCTURE>(copy).get()); \
  }
#define CROPDL_DRIVER_COPY_IN(NAME, STRUCTURE)                                              \
  CUresult lower_##NAME(const STRUCTURE* copy, CUstream stream) {                           \
    rt::Call call;                                                                          \
    return CROPDL_DRIVER(NAME)(WithRealArrays<STRUCTURE>(copy).get(), real_stream(stream)); \
  }

// Variants for each thread's own default stream, which the toolkit's headers declare only on request.
cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms*);
cudaError_t cudaMemcpy3DAsync_ptsz(const cudaMemcpy3DParms*, cudaStream_t);
cudaError_t cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms*);
cudaError_t cudaMemcpy3DPeerAsync_ptsz(const cudaMemcpy3DPeerParms*, cudaStream_t);
cudaError_t cudaMemcpy3DBatchAsync_ptsz(size_t, cudaMemcpy3DBatchOp*, unsigned long long, cudaStream_t);
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D*);
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D*);
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D*);
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER*);
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D*, CUstream);
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D*, CUstream);
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER*, CUstream);
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t, CUDA_MEMCPY3D_BATCH_OP*, unsigned long long, CUstream);

CROPDL_RUNTIME_COPY(cudaMemcpy3D, cudaMemcpy3DParms)
CROPDL_RUNTIME_COPY(cudaMemcpy3D_ptds, cudaMemcpy3DParms)
CROPDL_RUNTIME_COPY_IN(cudaMemcpy3DAsync, cudaMemcpy3DParms)
CROPDL_RUNTIME_COPY_IN(cudaMemcpy3DAsync_ptsz, cudaMemcpy3DParms)
CROPDL_RUNTIME_COPY(cudaMemcpy3DPeer, cudaMemcpy3DPeerParms)
CROPDL_RUNTIME_COPY(cudaMemcpy3DPeer_ptds, cudaMemcpy3DPeerParms)
CROPDL_RUNTIME_COPY_IN(cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerParms)
CROPDL_RUNTIME_COPY_IN(cudaMemcpy3DPeerAsync_ptsz, cudaMemcpy3DPeerParms)
CROPDL_DRIVER_COPY(cuMemcpy2D_v2, CUDA_MEMCPY2D)
CROPDL_DRIVER_COPY(cuMemcpy2D_v2_ptds, CUDA_MEMCPY2D)
CROPDL_DRIVER_COPY(cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D)
CROPDL_DRIVER_COPY(cuMemcpy2DUnaligned_v2_ptds, CUDA_MEMCPY2D)
CROPDL_DRIVER_COPY_IN(cuMemcpy2DAsync_v2, CUDA_MEMCPY2D)
CROPDL_DRIVER_COPY_IN(cuMemcpy2DAsync_v2_ptsz, CUDA_MEMCPY2D)
CROPDL_DRIVER_COPY(cuMemcpy3D_v2, CUDA_MEMCPY3D)
CROPDL_DRIVER_COPY(cuMemcpy3D_v2_ptds, CUDA_MEMCPY3D)
CROPDL_DRIVER_COPY_IN(cuMemcpy3DAsync_v2, CUDA_MEMCPY3D)
CROPDL_DRIVER_COPY_IN(cuMemcpy3DAsync_v2_ptsz, CUDA_MEMCPY3D)
CROPDL_DRIVER_COPY(cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER)
CROPDL_DRIVER_COPY(cuMemcpy3DPeer_ptds, CUDA_MEMCPY3D_PEER)
CROPDL_DRIVER_COPY_IN(cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER)
CROPDL_DRIVER_COPY_IN(cuMemcpy3DPeerAsync_ptsz, CUDA_MEMCPY3D_PEER)

cudaError_t lower_cudaMemcpy3DBatchAsync(size_t n, cudaMemcpy3DBatchOp* all, unsigned long long flags,
                                         cudaStream_t stream) {
  rt::Call call;
  auto copies = with_real_arrays(all, n);
  return as_is(
      CROPDL_CUDART(cudaMemcpy3DBatchAsync)(n, all ? copies.data() : nullptr, flags, real_stream(stream)));
}
cudaError_t lower_cudaMemcpy3DBatchAsync_ptsz(size_t n, cudaMemcpy3DBatchOp* all, unsigned long long flags,
                                              cudaStream_t stream) {
  rt::Call call;
  auto copies = with_real_arrays(all, n);
  return as_is(CROPDL_CUDART(cudaMemcpy3DBatchAsync_ptsz)(n, all ? copies.data() : nullptr, flags,
                                                          real_stream(stream)));
}
CUresult lower_cuMemcpy3DBatchAsync_v2(size_t n, CUDA_MEMCPY3D_BATCH_OP* all, unsigned long long flags,
                                       CUstream stream) {
  rt::Call call;
  auto copies = with_real_arrays(all, n);
  return CROPDL_DRIVER(cuMemcpy3DBatchAsync_v2)(n, all ? copies.data() : nullptr, flags, real_stream(stream));
}
CUresult lower_cuMemcpy3DBatchAsync_v2_ptsz(size_t n, CUDA_MEMCPY3D_BATCH_OP* all, unsigned long long flags,
                                            CUstream stream) {
  rt::Call call;
  auto copies = with_real_arrays(all, n);
  return CROPDL_DRIVER(cuMemcpy3DBatchAsync_v2_ptsz)(n, all ? copies.data() : nullptr, flags,
                                                     real_stream(stream));
}

}  // extern "C"
