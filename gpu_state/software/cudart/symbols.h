// What nvcc's start-up code registers: fat binaries, and which addresses of the host stand for which kernels
// and variables in them. A fat binary is given to the driver when something in it is first needed, as one
// library for all contexts. Any thread. After enter().
// Source: what nvcc 13.0 emits (crt/host_runtime.h, crt/link.stub, fatbinary_section.h).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

namespace cropdl::cudart {

// A kernel by the host's address of its stub, by a cudaKernel_t or by a cudaFunction_t, as it is in the
// calling thread's context. cudaErrorInvalidDeviceFunction: it is none of these.
cudaError_t function_of(const void* symbol, CUfunction* function);

// The same for all contexts.
cudaError_t kernel_of(const void* symbol, CUkernel* kernel);

// The way back, for what graphs are asked: the host's address that the function was found by; null: it was
// not found so.
const void* symbol_of(CUfunction function);

// A __device__, __constant__ or __managed__ variable by the host's address of its shadow, in the calling
// thread's context. cudaErrorInvalidSymbol: there is none.
cudaError_t variable_of(const void* symbol, CUdeviceptr* address, size_t* size);

}  // namespace cropdl::cudart
