// Names and texts of errors. Source: cuda.h's enumeration and, for the texts, the toolkit's
// cudaGetErrorString for the same numbers.
#include <cuda.h>

#include <utility>

namespace {

struct Text {
  CUresult error;
  const char *name, *text;
};
#define CROPDL_ERROR(error, text) \
  { error, #error, text }
constexpr Text kTexts[] = {
    CROPDL_ERROR(CUDA_SUCCESS, "no error"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    CROPDL_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    CROPDL_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    CROPDL_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    CROPDL_ERROR(CUDA_ERROR_PROFILER_DISABLED, "profiler disabled while using external profiling tool"),
    CROPDL_ERROR(CUDA_ERROR_PROFILER_NOT_INITIALIZED,
                 "profiler not initialized: call cudaProfilerInitialize()"),
    CROPDL_ERROR(CUDA_ERROR_PROFILER_ALREADY_STARTED, "profiler already started"),
    CROPDL_ERROR(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "profiler already stopped"),
    CROPDL_ERROR(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
    CROPDL_ERROR(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER,
                 "API call is not supported in the installed CUDA driver"),
    CROPDL_ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    CROPDL_ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    CROPDL_ERROR(CUDA_ERROR_DEVICE_NOT_LICENSED, "device doesn't have valid Grid license"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    CROPDL_ERROR(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "context already current"),
    CROPDL_ERROR(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
    CROPDL_ERROR(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
    CROPDL_ERROR(CUDA_ERROR_ARRAY_IS_MAPPED, "array is mapped"),
    CROPDL_ERROR(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    CROPDL_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    CROPDL_ERROR(CUDA_ERROR_ALREADY_ACQUIRED, "resource already acquired"),
    CROPDL_ERROR(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
    CROPDL_ERROR(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "resource not mapped as array"),
    CROPDL_ERROR(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "resource not mapped as pointer"),
    CROPDL_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    CROPDL_ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    CROPDL_ERROR(CUDA_ERROR_CONTEXT_ALREADY_IN_USE,
                 "exclusive-thread device already in use by a different thread"),
    CROPDL_ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
                 "peer access is not supported between these two devices"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid OpenGL or DirectX context"),
    CROPDL_ERROR(CUDA_ERROR_NVLINK_UNCORRECTABLE, "uncorrectable NVLink error detected during the execution"),
    CROPDL_ERROR(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler library not found"),
    CROPDL_ERROR(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                 "the provided PTX was compiled with an unsupported toolchain."),
    CROPDL_ERROR(CUDA_ERROR_JIT_COMPILATION_DISABLED, "PTX JIT compilation was disabled"),
    CROPDL_ERROR(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "the provided execution affinity is not supported"),
    CROPDL_ERROR(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC,
                 "the provided PTX contains unsupported call to cudaDeviceSynchronize"),
    CROPDL_ERROR(CUDA_ERROR_CONTAINED, "Invalid access of peer GPU memory over nvlink or a hardware error"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
    CROPDL_ERROR(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    CROPDL_ERROR(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
    CROPDL_ERROR(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
    CROPDL_ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    CROPDL_ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    CROPDL_ERROR(CUDA_ERROR_LOSSY_QUERY, "attempted introspection would be semantically lossy"),
    CROPDL_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    CROPDL_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    CROPDL_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    CROPDL_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    CROPDL_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    CROPDL_ERROR(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "launch uses incompatible texturing mode"),
    CROPDL_ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    CROPDL_ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    CROPDL_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "cannot set while device is active in this process"),
    CROPDL_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    CROPDL_ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    CROPDL_ERROR(CUDA_ERROR_TOO_MANY_PEERS, "peer mapping resources exhausted"),
    CROPDL_ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                 "part or all of the requested memory range is already mapped"),
    CROPDL_ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                 "pointer does not correspond to a registered memory region"),
    CROPDL_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    CROPDL_ERROR(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    CROPDL_ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on global/shared address space"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_PC, "invalid program counter"),
    CROPDL_ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    CROPDL_ERROR(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
    CROPDL_ERROR(CUDA_ERROR_TENSOR_MEMORY_LEAK, "tensor memory not completely freed"),
    CROPDL_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    CROPDL_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    CROPDL_ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    CROPDL_ERROR(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                 "system has unsupported display driver / cuda driver combination"),
    CROPDL_ERROR(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE,
                 "forward compatibility was attempted on non supported HW"),
    CROPDL_ERROR(CUDA_ERROR_MPS_CONNECTION_FAILED,
                 "MPS client failed to connect to the MPS control daemon or the MPS server"),
    CROPDL_ERROR(CUDA_ERROR_MPS_RPC_FAILURE,
                 "the remote procedural call between the MPS server and the MPS client failed"),
    CROPDL_ERROR(CUDA_ERROR_MPS_SERVER_NOT_READY,
                 "MPS server is not ready to accept new MPS client requests"),
    CROPDL_ERROR(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED,
                 "the hardware resources required to create MPS client have been exhausted"),
    CROPDL_ERROR(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED,
                 "the hardware resources required to support device connections have been exhausted"),
    CROPDL_ERROR(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS client has been terminated by the server"),
    CROPDL_ERROR(
        CUDA_ERROR_CDP_NOT_SUPPORTED,
        "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it"),
    CROPDL_ERROR(CUDA_ERROR_CDP_VERSION_MISMATCH,
                 "unsupported interaction between different versions of CUDA Dynamic Parallelism"),
    CROPDL_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    CROPDL_ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                 "operation failed due to a previous error during capture"),
    CROPDL_ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE,
                 "operation would result in a merge of separate capture sequences"),
    CROPDL_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not ended in the same stream as it began"),
    CROPDL_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    CROPDL_ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                 "dependency created on uncaptured work in another stream"),
    CROPDL_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                 "operation would make the legacy stream depend on a capturing blocking stream"),
    CROPDL_ERROR(CUDA_ERROR_CAPTURED_EVENT,
                 "operation not permitted on an event last recorded in a capturing stream"),
    CROPDL_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                 "attempt to terminate a thread-local capture sequence from another thread"),
    CROPDL_ERROR(CUDA_ERROR_TIMEOUT, "wait operation timed out"),
    CROPDL_ERROR(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                 "the graph update was not performed because it included changes which violated constraints "
                 "specific to instantiated graph update"),
    CROPDL_ERROR(CUDA_ERROR_EXTERNAL_DEVICE, "an async error has occured in external entity outside of CUDA"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                 "a kernel launch error has occurred due to cluster misconfiguration"),
    CROPDL_ERROR(CUDA_ERROR_FUNCTION_NOT_LOADED,
                 "the function handle is not loaded when calling an API that requires a loaded function"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_RESOURCE_TYPE,
                 "one or more resources passed in are not valid resource types for the operation"),
    CROPDL_ERROR(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION,
                 "one or more resources are insufficient or non-applicable for the operation"),
    CROPDL_ERROR(CUDA_ERROR_KEY_ROTATION, "encryption keys rotated"),
    CROPDL_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef CROPDL_ERROR

CUresult find(CUresult error, const char** into, const char* Text::*member) {
  if (!into) return CUDA_ERROR_INVALID_VALUE;
  *into = nullptr;
  for (const Text& text : kTexts)
    if (text.error == error) {
      *into = text.*member;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult cuGetErrorName(CUresult error, const char** name) { return find(error, name, &Text::name); }
CUresult cuGetErrorString(CUresult error, const char** text) { return find(error, text, &Text::text); }

}  // extern "C"
