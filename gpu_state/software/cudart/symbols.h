// Code that nvcc's start-up code registers: fat binaries, and the host addresses that stand for their kernels
// and variables. A fat binary is loaded into the driver when something in it is first needed, as one library
// for all contexts. Any thread. After enter(). Source: output of nvcc 13.0 (crt/host_runtime.h,
// crt/link.stub, fatbinary_section.h).
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

namespace cropdl::cudart {

// A kernel in the calling thread's context, by its stub's host address, by a cudaKernel_t or by a
// cudaFunction_t. cudaErrorInvalidDeviceFunction: none of these.
cudaError_t function_of(const void* symbol, CUfunction* function);

// The same, for all contexts.
cudaError_t kernel_of(const void* symbol, CUkernel* kernel);

// The reverse, for queries of graphs: the host address by which the function was looked up; null: it was not.
const void* symbol_of(CUfunction function);

// A __device__, __constant__ or __managed__ variable in the calling thread's context, by its shadow's host
// address. cudaErrorInvalidSymbol: none.
cudaError_t variable_of(const void* symbol, CUdeviceptr* address, size_t* size);

}  // namespace cropdl::cudart
