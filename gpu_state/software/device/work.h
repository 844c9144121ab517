// The kinds of work of a stream and of a graph's node. Everything that the caller passes (above all kernel
// arguments) is copied here before the call returns.
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
  std::vector<CUlaunchAttribute> attributes;  // as given, for queries of a node
};

// Addresses show whether memory is host or device memory; the types are the caller's, and examine() in
// copies.h checks them. 1D copies are one row. Width in bytes.
struct CopyWork {
  CUDA_MEMCPY3D copy{};
  // The bytes of pageable host memory, copied at the call because the caller may change it afterwards.
  std::shared_ptr<std::vector<std::byte>> staged;
  CUcontext source = nullptr, destination = nullptr;  // of peer copies
  // The devices whose memory it was at the call (examine()); -1: none. Used by graphs' updates.
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
  CUstream stream = nullptr;            // the callback's argument: the handle as given to submit()
};

// Work of NCCL, cuBLAS, cuRAND: runs on the stream's own thread, may access the device's memory and may wait.
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
// Stream-ordered memory: the call chose the address (pools.h); the work makes it accessible and inaccessible.
// Without a pool it belongs to a graph, with the same address each time.
struct AllocateWork {
  CUmemoryPool pool = nullptr;
  size_t size = 0;
  CUdeviceptr address = 0;
  uint64_t id = 0;  // Allocation::id
};
struct ReleaseWork {
  CUdeviceptr address = 0;
  uint64_t id = 0;
  std::shared_ptr<void> reservation;  // of memory that a graph left allocated (graphs_memory.h)
};
// cuStreamWaitValue, cuStreamWriteValue, cuStreamBatchMemOp, in sequence.
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
  bool recorded = false;  // recorded at the call; false: recorded at each run (a graph's node)
};
struct ChildWork {
  CUgraph graph = nullptr;
};
struct EmptyWork {};

using Work = std::variant<EmptyWork, KernelWork, CopyWork, MemsetWork, HostWork, LibraryWork, RecordWork,
                          WaitWork, AllocateWork, ReleaseWork, ValueWork, PrefetchWork, ChildWork>;

// Submits work to a stream (null, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD refer to the caller's current
// context), or adds it as a node to the graph that the stream is captured into. Returns before the work runs.
// Invalid arguments and handles are returned; errors while it runs break the context. streams_run.cpp.
CUresult submit(CUstream stream, Work work);

// The graph (CUgraph_st::id) that new work in the stream becomes part of; 0: none. Host memory is then read
// when the graph runs, not at the call.
uint64_t captured_into(CUstream stream);
inline bool is_captured(CUstream stream) { return captured_into(stream) != 0; }

// Waits until all work submitted to the stream so far is done; CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while it
// is captured.
CUresult wait_for(CUstream stream);
// For calls that wait for the whole device: frees, cuCtxSynchronize.
CUresult wait_for_all(CUcontext context);

// For calls that may wait or are unsafe during a capture: if this thread is forbidden to make them now
// (cuThreadExchangeStreamCaptureMode), invalidates the capture and returns
// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
CUresult unsafe_while_capturing();

// Each runs one kind of work on the stream's thread: copies.cpp, pools.cpp, memory_managed.cpp.
CUresult perform(const CopyWork& work, CUcontext context);
CUresult perform(const MemsetWork& work, CUcontext context);
CUresult perform(const AllocateWork& work, CUcontext context);
CUresult perform(const ReleaseWork& work, CUcontext context);
CUresult perform(const PrefetchWork& work, CUcontext context);
CUresult perform(const ValueWork& work, CUcontext context);  // values.cpp

}  // namespace cropdl::device
