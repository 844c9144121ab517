// The one thing that the software device's own libraries (NCCL, cuBLAS, cuRAND) want beyond the public driver
// API: work of theirs in a stream. Exported by libcuda.so.1 of the software device under this C name, and
// found by linking with it.
#pragma once

#include <cuda.h>
#include <stddef.h>

extern "C" {

// Runs `run(data)` in stream order, on the stream's own thread, where device, managed and pinned memory may
// be read and written as ordinary memory (once checked), and where it may wait for others. It must not call
// the API. What it returns other than CUDA_SUCCESS breaks the context. `release(data)` is called when it will
// never run again (after the run, or when the graph that captured it goes); null: nothing to do. In a capture
// it becomes a node. Stream as in the driver API.
CUresult cropdl_software_gpu_enqueue(CUstream stream, const char* name, CUresult (*run)(void* data),
                                     void (*release)(void* data), void* data);

// Whether the device of the calling thread's context (or, on a stream's thread, of the stream) may read or
// write all of that memory: else CUDA_ERROR_ILLEGAL_ADDRESS. Touches nothing.
CUresult cropdl_software_gpu_check(CUdeviceptr address, size_t size, int write);

// The process ends, and with it what the library's work needs: no work is begun any more, and whoever waits
// for some is told CUDA_ERROR_DEINITIALIZED. libcuda.so.1 says so itself when its own end has come, which may
// be later than that of a library that depends on it.
void cropdl_software_gpu_end(void);
}
