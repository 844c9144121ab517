// What a stream does, one thing after another, and what a node of a graph is: the same list. Whatever a
// caller hands over is copied here before his call returns (arguments of kernels above all).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "gpu_state/software/engine/launch.h"

namespace cropdl::device {

struct KernelWork {
  CUfunction function = nullptr;
  std::shared_ptr<const engine::Kernel> kernel;
  engine::Dim3 grid{1, 1, 1}, block{1, 1, 1};
  uint32_t shared = 0;
  bool cooperative = false;
  std::vector<std::byte> parameters;
  std::vector<CUlaunchAttribute> attributes;  // as they were given, for those who ask a node
};

// Host and device memory are told apart by their addresses; the types are what the caller said, which
// examine() in copies.h checks. 1D copies are one row. Width in bytes.
struct CopyWork {
  CUDA_MEMCPY3D copy{};
  // Pageable memory of the host that the caller may change when his call returns: its bytes, taken then.
  std::shared_ptr<std::vector<std::byte>> staged;
  CUcontext source = nullptr, destination = nullptr;  // of peer copies
  // Whose memory it was of and to when it was given (examine()); -1: no device's. Graphs' updates ask.
  int from_device = -1, to_device = -1;
};

struct MemsetWork {
  CUdeviceptr destination = 0;
  size_t pitch = 0, width = 0, height = 1;  // width in elements
  unsigned value = 0, element = 1;          // bytes: 1, 2, 4
  int device = -1;                          // as CopyWork::to_device
};

struct HostWork {
  CUhostFn function = nullptr;
  void* data = nullptr;
  CUstreamCallback callback = nullptr;  // cuStreamAddCallback instead
  CUstream stream = nullptr;            // what it is then told: the handle as it was given to submit()
};

// Work of NCCL, cuBLAS, cuRAND: runs on the stream's own thread with the device's memory at hand, and may
// wait there.
struct LibraryWork {
  std::string name;
  std::function<CUresult()> run;
};

struct RecordWork {
  CUevent event = nullptr;
  bool external = false;
};
struct WaitWork {
  CUevent event = nullptr;
  bool external = false;
};
// Memory in stream order: its address was chosen at the call (pools.h); what runs opens and closes it.
// Without a pool it is a graph's, whose address is the same each time.
struct AllocateWork {
  CUmemoryPool pool = nullptr;
  size_t size = 0;
  CUdeviceptr address = 0;
  uint64_t id = 0;  // Allocation::id
};
struct ReleaseWork {
  CUdeviceptr address = 0;
  uint64_t id = 0;
  std::shared_ptr<void> reservation;  // of what a graph left allocated (graphs_memory.h)
};
// cuStreamWaitValue, cuStreamWriteValue, cuStreamBatchMemOp: one after another.
struct ValueWork {
  struct One {
    CUdeviceptr address = 0;
    uint64_t value = 0;
    unsigned flags = 0;
    bool is_64 = false, is_wait = false;
  };
  std::vector<One> all;
};
struct PrefetchWork {
  CUdeviceptr address = 0;
  size_t size = 0;
  int device = 0;         // or CU_DEVICE_CPU
  bool recorded = false;  // it was asked for at the call; else it is each time that it runs (a graph's node)
};
struct ChildWork {
  CUgraph graph = nullptr;
};
struct EmptyWork {};

using Work = std::variant<EmptyWork, KernelWork, CopyWork, MemsetWork, HostWork, LibraryWork, RecordWork,
                          WaitWork, AllocateWork, ReleaseWork, ValueWork, PrefetchWork, ChildWork>;

// Hands work to a stream (null, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD and the caller's current context are
// understood), or adds it as a node to the graph that the stream is captured into. Returns before it runs. An
// error of the kind "not there, not valid" is the caller's answer; what goes wrong while it runs breaks the
// context. streams.cpp.
CUresult submit(CUstream stream, Work work);

// The graph (CUgraph_st::id) that what is given to the stream now becomes part of; 0: none. Memory of the
// host is then read when the graph runs, not taken at the call.
uint64_t captured_into(CUstream stream);
inline bool is_captured(CUstream stream) { return captured_into(stream) != 0; }

// Waits until all that the stream was given so far is done; CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while it is
// captured.
CUresult wait_for(CUstream stream);
// For calls that wait for all of the device: frees, cuCtxSynchronize.
CUresult wait_for_all(CUcontext context);

// Whether calls that may wait or that are unsafe while somebody captures are forbidden now to this thread
// (cuThreadExchangeStreamCaptureMode): then CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the capture is spoilt.
CUresult unsafe_while_capturing();

// Each does one kind of work, on the stream's thread: copies.cpp, pools.cpp, memory_managed.cpp.
CUresult perform(const CopyWork& work, CUcontext context);
CUresult perform(const MemsetWork& work, CUcontext context);
CUresult perform(const AllocateWork& work, CUcontext context);
CUresult perform(const ReleaseWork& work, CUcontext context);
CUresult perform(const PrefetchWork& work, CUcontext context);
CUresult perform(const ValueWork& work, CUcontext context);  // values.cpp

}  // namespace cropdl::device
