// Host memory known to devices: pinned, registered, managed. Any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace cropdl::device {

// cuMemHostAlloc: page-aligned host memory that all devices may access. Keeps the flags.
CUresult allocate_pinned(size_t size, unsigned flags, CUcontext context, int device, void** address);
CUresult release_pinned(void* address);
// CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, …_NOT_REGISTERED, CUDA_ERROR_INVALID_VALUE if the memory is not
// accessible.
CUresult register_host(void* address, size_t size, unsigned flags, CUcontext context, int device);
CUresult unregister_host(void* address);

// Managed memory, which all devices and the host may access. `of_module`: a __managed__ variable, which
// programs cannot free.
CUresult allocate_managed(size_t size, unsigned flags, CUcontext context, int device, CUdeviceptr* address,
                          bool of_module = false);
CUresult release_managed(CUdeviceptr address, bool of_module = false);

// Removes the context's registrations (cuMemHostRegister) and releases its large managed memory. With
// memory_lock() held.
void unregister_all(CUcontext context);

// Whether the host may read or write all of these bytes. Accesses the pages without changing them; no signal
// is raised.
bool host_allows(uint64_t address, uint64_t size, bool write);

}  // namespace cropdl::device
