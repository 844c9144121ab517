// Arrays. The driver lays out their memory, so they are real, and each refuses checkpoints while it exists,
// by its maker's name. Also copies whose structures name arrays or contexts. Sources: CUDA Runtime API and
// Driver API 13.0, "Memory Management". LH, LH FS base, a thread of the program.
#include <optional>
#include <vector>

#include "interpose/cuda/lower/memory.h"

using namespace cropdl::cuda;

namespace {

constexpr uint32_t kArray = kind::cudaArray, kMipmapped = kind::cudaMipmappedArray;

template <class F, class H, class... How>
auto make_array(RealFunction<F> make, uint32_t kind, H* array, How... how) {
  rt::Call call;
  const auto error = with_room(-1, [&] { return make(array, how...); });
  if (static_cast<int>(error) == CUDA_SUCCESS)
    *array = rt::handle_of<H>(rt::made_word(rt::word_of(*array), kind, make.library, make.function, nullptr));
  return error;
}

template <class Result, class H>
Result destroy_array(H array, uint32_t kind, RealFunction<Result(H)> end) {
  rt::Call call;
  const Result error = end(rt::real(array, kind));
  if (static_cast<int>(error) == CUDA_SUCCESS) rt::forget_word(rt::word_of(array));
  return error;
}

// The structure with real handles. Null is passed on: the library checks it.
template <class Copy>
class WithRealArrays {
 public:
  explicit WithRealArrays(const Copy* from) {
    if (!from) return;
    Copy& its = copy_.emplace(*from);
    its.srcArray = rt::real(its.srcArray, kArray);
    its.dstArray = rt::real(its.dstArray, kArray);
    if constexpr (requires { its.srcContext; }) {
      its.srcContext = rt::real(its.srcContext, kind::cudaContext);
      its.dstContext = rt::real(its.dstContext, kind::cudaContext);
    }
  }
  const Copy* get() const { return copy_ ? &*copy_ : nullptr; }

 private:
  std::optional<Copy> copy_;
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
  return make_array(CROPDL_CUDART_FUNCTION(cudaMallocArray), kArray, array, format, width, height, flags);
}
cudaError_t lower_cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format,
                                    cudaExtent extent, unsigned flags) {
  return make_array(CROPDL_CUDART_FUNCTION(cudaMalloc3DArray), kArray, array, format, extent, flags);
}
cudaError_t lower_cudaMallocMipmappedArray(cudaMipmappedArray_t* array, const cudaChannelFormatDesc* format,
                                           cudaExtent extent, unsigned levels, unsigned flags) {
  return make_array(CROPDL_CUDART_FUNCTION(cudaMallocMipmappedArray), kMipmapped, array, format, extent,
                    levels, flags);
}
cudaError_t lower_cudaFreeArray(cudaArray_t array) {
  return destroy_array(array, kArray, CROPDL_CUDART_FUNCTION(cudaFreeArray));
}
cudaError_t lower_cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return destroy_array(array, kMipmapped, CROPDL_CUDART_FUNCTION(cudaFreeMipmappedArray));
}

CUresult lower_cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* what) {
  return make_array(CROPDL_DRIVER_FUNCTION(cuArrayCreate_v2), kArray, array, what);
}
CUresult lower_cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* what) {
  return make_array(CROPDL_DRIVER_FUNCTION(cuArray3DCreate_v2), kArray, array, what);
}
CUresult lower_cuArrayDestroy(CUarray array) {
  return destroy_array(array, kArray, CROPDL_DRIVER_FUNCTION(cuArrayDestroy));
}
CUresult lower_cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* what,
                                      unsigned levels) {
  return make_array(CROPDL_DRIVER_FUNCTION(cuMipmappedArrayCreate), kMipmapped, array, what, levels);
}
CUresult lower_cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return destroy_array(array, kMipmapped, CROPDL_DRIVER_FUNCTION(cuMipmappedArrayDestroy));
}

// --- Copies: by structure alone, and with a stream.
#define COPY(Result, REAL, NAME, STRUCTURE)                   \
  Result lower_##NAME(const STRUCTURE* copy) {                \
    rt::Call call;                                            \
    return REAL(NAME)(WithRealArrays<STRUCTURE>(copy).get()); \
  }
#define COPY_IN(Result, REAL, NAME, STRUCTURE)                                     \
  Result lower_##NAME(const STRUCTURE* copy, CUstream stream) {                    \
    rt::Call call;                                                                 \
    return REAL(NAME)(WithRealArrays<STRUCTURE>(copy).get(), real_stream(stream)); \
  }
#define COPIES(Result, REAL, NAME, STRUCTURE) \
  COPY(Result, REAL, NAME, STRUCTURE)         \
  COPY(Result, REAL, NAME##_ptds, STRUCTURE)
#define COPIES_IN(Result, REAL, NAME, STRUCTURE) \
  COPY_IN(Result, REAL, NAME, STRUCTURE)         \
  COPY_IN(Result, REAL, NAME##_ptsz, STRUCTURE)
// NOLINTBEGIN(bugprone-macro-parentheses): a type
#define BATCH(Result, REAL, NAME, Copy)                                                 \
  Result lower_##NAME(size_t n, Copy* all, unsigned long long flags, CUstream stream) { \
    rt::Call call;                                                                      \
    auto copies = with_real_arrays(all, n);                                             \
    return REAL(NAME)(n, all ? copies.data() : nullptr, flags, real_stream(stream));    \
  }
// NOLINTEND(bugprone-macro-parentheses)

// The runtime's variants for each thread's own default stream, which its header declares only on request.
cudaError_t cudaMemcpy3D_ptds(const cudaMemcpy3DParms*);
cudaError_t cudaMemcpy3DAsync_ptsz(const cudaMemcpy3DParms*, cudaStream_t);
cudaError_t cudaMemcpy3DPeer_ptds(const cudaMemcpy3DPeerParms*);
cudaError_t cudaMemcpy3DPeerAsync_ptsz(const cudaMemcpy3DPeerParms*, cudaStream_t);
cudaError_t cudaMemcpy3DBatchAsync_ptsz(size_t, cudaMemcpy3DBatchOp*, unsigned long long, cudaStream_t);

COPIES(cudaError_t, CROPDL_CUDART, cudaMemcpy3D, cudaMemcpy3DParms)
COPIES_IN(cudaError_t, CROPDL_CUDART, cudaMemcpy3DAsync, cudaMemcpy3DParms)
COPIES(cudaError_t, CROPDL_CUDART, cudaMemcpy3DPeer, cudaMemcpy3DPeerParms)
COPIES_IN(cudaError_t, CROPDL_CUDART, cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerParms)
COPIES(CUresult, CROPDL_DRIVER, cuMemcpy2D_v2, CUDA_MEMCPY2D)
COPIES(CUresult, CROPDL_DRIVER, cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D)
COPIES_IN(CUresult, CROPDL_DRIVER, cuMemcpy2DAsync_v2, CUDA_MEMCPY2D)
COPIES(CUresult, CROPDL_DRIVER, cuMemcpy3D_v2, CUDA_MEMCPY3D)
COPIES_IN(CUresult, CROPDL_DRIVER, cuMemcpy3DAsync_v2, CUDA_MEMCPY3D)
COPIES(CUresult, CROPDL_DRIVER, cuMemcpy3DPeer, CUDA_MEMCPY3D_PEER)
COPIES_IN(CUresult, CROPDL_DRIVER, cuMemcpy3DPeerAsync, CUDA_MEMCPY3D_PEER)
BATCH(cudaError_t, CROPDL_CUDART, cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchOp)
BATCH(cudaError_t, CROPDL_CUDART, cudaMemcpy3DBatchAsync_ptsz, cudaMemcpy3DBatchOp)
BATCH(CUresult, CROPDL_DRIVER, cuMemcpy3DBatchAsync_v2, CUDA_MEMCPY3D_BATCH_OP)
BATCH(CUresult, CROPDL_DRIVER, cuMemcpy3DBatchAsync_v2_ptsz, CUDA_MEMCPY3D_BATCH_OP)
#undef BATCH
#undef COPIES_IN
#undef COPIES
#undef COPY_IN
#undef COPY

}  // extern "C"
