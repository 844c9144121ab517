// The only algorithm, number 0: it needs no workspace and has no settings.
#include "gpu_state/software/blas/lt.h"
#include "gpu_state/software/blas/product.h"

namespace cropdl::blas::lt {

cublasStatus_t can_run(const Algorithm& algorithm) {
  for (uint32_t name = 0; name < std::size(algorithm.configuration); name++) {
    uint32_t value = algorithm.configuration[name];
    if (value && !(name == CUBLASLT_ALGO_CONFIG_SPLITK_NUM && value == 1))
      return refuse("an algorithm configured to other than its defaults");
  }
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

constexpr size_t at(int name) {
  return offsetof(Algorithm, configuration) + sizeof(uint32_t) * static_cast<size_t>(name);
}
const Attribute kConfiguration[] = {
    {CUBLASLT_ALGO_CONFIG_ID, at(0), 4},
    {CUBLASLT_ALGO_CONFIG_TILE_ID, at(1), 4},
    {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, at(2), 4},
    {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, at(3), 4},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, at(4), 4},
    {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, at(5), 4},
    {CUBLASLT_ALGO_CONFIG_STAGES_ID, at(6), 4},
    {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, at(7), 2},
    {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, at(8), 2},
};

struct Capabilities {
  int32_t none = 0, yes = 1;
  uint32_t undefined = 0, no_mask = 0;
  uint32_t pointer_modes = CUBLASLT_POINTER_MODE_MASK_HOST | CUBLASLT_POINTER_MODE_MASK_DEVICE;
  uint32_t epilogues = CUBLASLT_EPILOGUE_DEFAULT | CUBLASLT_EPILOGUE_RELU_AUX_BIAS |
                       CUBLASLT_EPILOGUE_DRELU_BGRAD | CUBLASLT_EPILOGUE_GELU_AUX_BIAS |
                       CUBLASLT_EPILOGUE_DGELU_BGRAD | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB;
  uint64_t numerics = CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F |
                      CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;
  uint32_t alignment = 1;
};
#define CROPDL_CAPABILITY(name, member) \
  { CUBLASLT_ALGO_CAP_##name, offsetof(Capabilities, member), sizeof(Capabilities::member) }
const Attribute kCapabilities[] = {
    CROPDL_CAPABILITY(SPLITK_SUPPORT, none),
    CROPDL_CAPABILITY(REDUCTION_SCHEME_MASK, no_mask),
    CROPDL_CAPABILITY(CTA_SWIZZLING_SUPPORT, no_mask),
    CROPDL_CAPABILITY(STRIDED_BATCH_SUPPORT, yes),
    CROPDL_CAPABILITY(OUT_OF_PLACE_RESULT_SUPPORT, yes),
    CROPDL_CAPABILITY(UPLO_SUPPORT, none),
    CROPDL_CAPABILITY(CUSTOM_OPTION_MAX, none),
    CROPDL_CAPABILITY(CUSTOM_MEMORY_ORDER, none),
    CROPDL_CAPABILITY(POINTER_MODE_MASK, pointer_modes),
    CROPDL_CAPABILITY(EPILOGUE_MASK, epilogues),
    CROPDL_CAPABILITY(LD_NEGATIVE, none),
    CROPDL_CAPABILITY(NUMERICAL_IMPL_FLAGS, numerics),
    CROPDL_CAPABILITY(MIN_ALIGNMENT_A_BYTES, alignment),
    CROPDL_CAPABILITY(MIN_ALIGNMENT_B_BYTES, alignment),
    CROPDL_CAPABILITY(MIN_ALIGNMENT_C_BYTES, alignment),
    CROPDL_CAPABILITY(MIN_ALIGNMENT_D_BYTES, alignment),
    CROPDL_CAPABILITY(POINTER_ARRAY_BATCH_SUPPORT, none),
    CROPDL_CAPABILITY(FLOATING_POINT_EMULATION_SUPPORT, none),
};

void begin(cublasLtMatmulAlgo_t* algorithm) {
  static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));
  std::memset(algorithm, 0, sizeof *algorithm);
  *reinterpret_cast<Algorithm*>(algorithm) = Algorithm{};
}

cublasStatus_t any_of_types(cublasComputeType_t compute, cudaDataType scale, cudaDataType a, cudaDataType b,
                            cudaDataType c, cudaDataType d) {
  Product product;
  product.a.type = a;
  product.b.type = b;
  product.c.type = c;
  product.d_type = d;
  if (!scale_type_of(compute, d, &product.scale_type) || product.scale_type != scale || !is_built(product))
    return refuse("a product of these types");
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace cropdl::blas::lt

using namespace cropdl::blas::lt;  // NOLINT

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  if (!count || !results || most <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 0;
  if (cublasStatus_t status = check(handle)) return status;
  if (!descriptor<Preference>(preference)) return CUBLAS_STATUS_INVALID_VALUE;
  begin(&results[0].algo);
  cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle, operation, a, b, c, d, &results[0].algo, &results[0]);
  if (status == CUBLAS_STATUS_SUCCESS) *count = 1;
  return status;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t compute,
                                        cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
                                        cudaDataType_t c, cudaDataType_t d, int most, int* ids, int* count) {
  if (cublasStatus_t status = check(handle)) return status;
  if (most <= 0 || !ids || !count) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 0;
  if (cublasStatus_t status = any_of_types(compute, scale, a, b, c, d)) return status;
  ids[0] = 0;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
                                      cudaDataType_t c, cudaDataType_t d, int id,
                                      cublasLtMatmulAlgo_t* algorithm) {
  if (cublasStatus_t status = check(handle)) return status;
  if (!algorithm || id != 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (cublasStatus_t status = any_of_types(compute, scale, a, b, c, d)) return status;
  begin(algorithm);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (cublasStatus_t status = check(handle)) return status;
  auto* what = descriptor<Operation>(operation);
  auto *of_a = descriptor<Layout>(a), *of_b = descriptor<Layout>(b), *of_c = descriptor<Layout>(c),
       *of_d = descriptor<Layout>(d);
  auto* how = descriptor<Algorithm>(algorithm);
  if (!what || !of_a || !of_b || !of_c || !of_d || !how || !result) return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = can_run(*how);
  if (status == CUBLAS_STATUS_SUCCESS) status = can_multiply(*what, *of_a, *of_b, *of_c, *of_d);
  if (&result->algo != algorithm) result->algo = *algorithm;
  result->workspaceSize = 0;
  result->state = status;
  result->wavesCount = 1;
  return status;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    const void* from, size_t size) {
  if (name == CUBLASLT_ALGO_CONFIG_ID) return CUBLAS_STATUS_INVALID_VALUE;  // read-only
  return set(descriptor<Algorithm>(algorithm), kConfiguration, name, from, size);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name, void* into,
                                                    size_t size, size_t* written) {
  return get(descriptor<Algorithm>(algorithm), kConfiguration, name, into, size, written);
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                 cublasLtMatmulAlgoCapAttributes_t name, void* into,
                                                 size_t size, size_t* written) {
  if (!descriptor<Algorithm>(algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
  // Capability lists: the single entry "undefined" means that there is no choice.
  if (name == CUBLASLT_ALGO_CAP_TILE_IDS || name == CUBLASLT_ALGO_CAP_STAGES_IDS) {
    if (size ? !into || size % sizeof(uint32_t) : !written) return CUBLAS_STATUS_INVALID_VALUE;
    if (size) std::memset(into, 0, sizeof(uint32_t));
    if (written) *written = sizeof(uint32_t);
    return CUBLAS_STATUS_SUCCESS;
  }
  static constexpr Capabilities kThese;
  return get(&kThese, kCapabilities, name, into, size, written);
}

}  // extern "C"
