// The only interface beyond the public driver API that the software device's own libraries (NCCL, cuBLAS,
// cuRAND) need: their work in a stream. The software device's libcuda.so.1 exports it under these C names;
// the libraries link with it.
#pragma once

#include <cuda.h>
#include <stddef.h>

extern "C" {

// Runs `run(data)` in stream order on the stream's own thread. There it may read and write device, managed
// and pinned memory as ordinary memory (once checked), and may wait for other threads. It must not call the
// API. A result other than CUDA_SUCCESS breaks the context. `release(data)` is called when `run` will never
// run again (after the run, or when the graph that captured it is destroyed); null: nothing to do. In a
// capture the work becomes a node. `stream` as in the driver API.
CUresult cropdl_software_gpu_enqueue(CUstream stream, const char* name, CUresult (*run)(void* data),
                                     void (*release)(void* data), void* data);

// Whether the device of the calling thread's context (on a stream's thread: of the stream) may read or write
// all of that memory: otherwise CUDA_ERROR_ILLEGAL_ADDRESS. Accesses nothing.
CUresult cropdl_software_gpu_check(CUdeviceptr address, size_t size, int write);

// Call when the process ends, and with it state that the library's work needs: no more work begins, and
// waiting threads get CUDA_ERROR_DEINITIALIZED. libcuda.so.1 calls it at its own end, which may be later than
// that of a library that depends on it.
void cropdl_software_gpu_end(void);
}
