// Kinds of objects of CUDA's family of libraries, as the tables name them. In images: append only. LH.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cropdl::one_abi::kind {

// 0 is unused; 1 is the kind of state records (interpose/one_abi/state.h).
inline constexpr uint32_t cudaStream = 2;
inline constexpr uint32_t cudaEvent = 3;
inline constexpr uint32_t cudaGraph = 4;
inline constexpr uint32_t cudaGraphNode = 5;
inline constexpr uint32_t cudaGraphExec = 6;
inline constexpr uint32_t cudaArray = 7;
inline constexpr uint32_t cudaMipmappedArray = 8;
inline constexpr uint32_t cudaMemPool = 9;
inline constexpr uint32_t cudaExternalMemory = 10;
inline constexpr uint32_t cudaExternalSemaphore = 11;
inline constexpr uint32_t cudaGraphicsResource = 12;
inline constexpr uint32_t cudaUserObject = 13;
inline constexpr uint32_t cudaLibrary = 14;
inline constexpr uint32_t cudaKernel = 15;
inline constexpr uint32_t cudaFunction = 16;
inline constexpr uint32_t cudaAsyncCallback = 17;
inline constexpr uint32_t cudaLogsCallback = 18;
inline constexpr uint32_t cudaContext = 19;
inline constexpr uint32_t cudaModule = 20;
inline constexpr uint32_t cudaGreenContext = 21;
inline constexpr uint32_t cudaDevResourceDesc = 22;
inline constexpr uint32_t cudaLinkState = 23;
inline constexpr uint32_t cudaTexRef = 24;
inline constexpr uint32_t cudaSurfRef = 25;
inline constexpr uint32_t cudaMemAllocation = 26;
inline constexpr uint32_t ncclComm = 27;
inline constexpr uint32_t ncclRedOp = 28;
inline constexpr uint32_t ncclWindow = 29;
inline constexpr uint32_t cublasHandle = 30;
inline constexpr uint32_t cublasXtHandle = 31;
inline constexpr uint32_t curandGenerator = 32;
inline constexpr uint32_t cufftHandle = 33;
inline constexpr uint32_t cusparseHandle = 34;
inline constexpr uint32_t cusparseMatDescr = 35;
inline constexpr uint32_t cusparseSpVec = 36;
inline constexpr uint32_t cusparseDnVec = 37;
inline constexpr uint32_t cusparseSpMat = 38;
inline constexpr uint32_t cusparseDnMat = 39;
inline constexpr uint32_t cusparseSpSV = 40;
inline constexpr uint32_t cusparseSpSM = 41;
inline constexpr uint32_t cusparseSpGEMM = 42;
inline constexpr uint32_t cusparseSpMMOpPlan = 43;
inline constexpr uint32_t cusparseInfo = 44;
inline constexpr uint32_t cusolverDnHandle = 45;
inline constexpr uint32_t cusolverDnParams = 46;
inline constexpr uint32_t cusolverDnIRSParams = 47;
inline constexpr uint32_t cusolverDnIRSInfos = 48;
inline constexpr uint32_t cusolverInfo = 49;
inline constexpr uint32_t cusolverSpHandle = 50;
inline constexpr uint32_t cusolverRfHandle = 51;
inline constexpr uint32_t cudnnHandle = 52;
inline constexpr uint32_t cudnnTensor = 53;
inline constexpr uint32_t cudnnFilter = 54;
inline constexpr uint32_t cudnnConvolution = 55;
inline constexpr uint32_t cudnnPooling = 56;
inline constexpr uint32_t cudnnActivation = 57;
inline constexpr uint32_t cudnnLRN = 58;
inline constexpr uint32_t cudnnOpTensor = 59;
inline constexpr uint32_t cudnnReduceTensor = 60;
inline constexpr uint32_t cudnnCTCLoss = 61;
inline constexpr uint32_t cudnnSpatialTransformer = 62;
inline constexpr uint32_t cudnnDropout = 63;
inline constexpr uint32_t cudnnTensorTransform = 64;
inline constexpr uint32_t cudnnRNN = 65;
inline constexpr uint32_t cudnnRNNData = 66;
inline constexpr uint32_t cudnnSeqData = 67;
inline constexpr uint32_t cudnnAttn = 68;
inline constexpr uint32_t cudnnBackend = 69;
inline constexpr uint32_t cudaFatBinary = 70;
// Not handles but the library's own numbers, recorded so that refusals can name them.
inline constexpr uint32_t cudaTextureObject = 72;
inline constexpr uint32_t cudaSurfaceObject = 73;
inline constexpr uint32_t cudaCapture = 80;  // a stream capture, until it ends

// Objects that belong to no device: they are made without a context and outlive the end of one. They are host
// objects, code that the library loads on each device that uses it, or objects that name their own location.
inline constexpr uint32_t kOfNoDevice[] = {
    cudaFatBinary,       cudaContext,       cudaLibrary,     cudaKernel,
    cudaMemPool,         cudaMemAllocation, cudaGraph,       cudaGraphNode,
    cudaUserObject,      cusparseMatDescr,  cudnnTensor,     cudnnFilter,
    cudnnConvolution,    cudnnPooling,      cudnnActivation, cudnnLRN,
    cudnnOpTensor,       cudnnReduceTensor, cudnnCTCLoss,    cudnnSpatialTransformer,
    cudnnTensorTransform};
constexpr bool is_of_no_device(uint32_t kind) {
  return std::ranges::find(kOfNoDevice, kind) != std::end(kOfNoDevice);
}

}  // namespace cropdl::one_abi::kind
