// cuInit, cuDevice*: the devices and their attributes. Any thread, no context needed.
#include <cuda.h>

#include <cstring>

#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/device.h"
#include "gpu_state/software/device/work.h"
#include "gpu_state/software/settings/settings.h"

using namespace cropdl;
using device::Device;

namespace {

// Returns the device, or CUDA_ERROR_NOT_INITIALIZED or CUDA_ERROR_INVALID_DEVICE.
CUresult get(CUdevice ordinal, Device** found) {
  if (CUresult error = device::initialized()) return error;
  *found = device::find(ordinal);
  return *found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult check_flags(unsigned flags) {
  unsigned schedule = flags & CU_CTX_SCHED_MASK;
  bool one_schedule = (schedule & (schedule - 1)) == 0;
  return (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0 && one_schedule ? CUDA_SUCCESS
                                                                                  : CUDA_ERROR_INVALID_VALUE;
}

// Consistent with CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED and
// CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED: every atomic operation of kernels works between devices,
// none with the host.
CUresult atomic_capabilities(unsigned* capabilities, const CUatomicOperation* operations, unsigned count,
                             bool supported) {
  if (!capabilities || !operations || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (operations[i] < 0 || operations[i] >= CU_ATOMIC_OPERATION_MAX) return CUDA_ERROR_INVALID_VALUE;
    capabilities[i] = supported ? CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED |
                                      CU_ATOMIC_CAPABILITY_REDUCTION | CU_ATOMIC_CAPABILITY_SCALAR_32 |
                                      CU_ATOMIC_CAPABILITY_SCALAR_64
                                : 0;
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int flags) { return flags ? CUDA_ERROR_INVALID_VALUE : device::initialize(); }

CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  if (CUresult error = device::initialized()) return error;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = device::count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (!name || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  std::strncpy(name, "CropDL software device", static_cast<size_t>(length));
  name[length - 1] = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  *uuid = found->uuid();
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal) { return cuDeviceGetUuid_v2(uuid, ordinal); }

// "Only on Windows": not supported elsewhere.
CUresult cuDeviceGetLuid(char*, unsigned int*, CUdevice ordinal) {
  Device* found = nullptr;
  CUresult error = get(ordinal, &found);
  return error ? error : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = settings::settings().memory;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  return value ? found->attribute(value, which) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  auto of = [&](CUdevice_attribute which) {
    int value = 0;
    found->attribute(&value, which);
    return value;
  };
  *properties = {of(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                 {of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                  of(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
                 {of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                  of(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
                 of(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
                 of(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
                 of(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
                 of(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
                 of(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
                 of(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
                 of(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)};
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = settings::settings().major;
  *minor = settings::settings().minor;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  std::string id = found->pci_bus_id();
  if (!text || length <= static_cast<int>(id.size())) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(text, id.c_str(), id.size() + 1);
  return CUDA_SUCCESS;
}

// "[domain]:[bus]:[device].[function]", "[domain]:[bus]:[device]" or "[bus]:[device].[function]"
CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
  if (CUresult error = device::initialized()) return error;
  if (!device || !text) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  int used = 0, length = static_cast<int>(std::strlen(text));
  bool read =
      (std::sscanf(text, "%x:%x:%x.%x%n", &domain, &bus, &slot, &function, &used) == 4 && used == length) ||
      (std::sscanf(text, "%x:%x:%x%n", &domain, &bus, &slot, &used) == 3 && used == length) ||
      (domain = 0, std::sscanf(text, "%x:%x.%x%n", &bus, &slot, &function, &used) == 3 && used == length);
  if (!read) return CUDA_ERROR_INVALID_VALUE;
  char wanted[40];
  std::snprintf(wanted, sizeof wanted, "%04x:%02x:%02x.%x", domain, bus, slot, function);
  for (int ordinal = 0; ordinal < device::count(); ++ordinal)
    if (device::find(ordinal)->pci_bus_id() == wanted) {
      *device = ordinal;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute which, CUdevice source,
                                 CUdevice destination) {
  Device *from = nullptr, *to = nullptr;
  if (CUresult error = get(source, &from)) return error;
  if (CUresult error = get(destination, &to)) return error;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (from == to) return CUDA_ERROR_INVALID_DEVICE;
  switch (which) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetP2PAtomicCapabilities(unsigned int* capabilities, const CUatomicOperation* operations,
                                          unsigned int count, CUdevice source, CUdevice destination) {
  Device *from = nullptr, *to = nullptr;
  if (CUresult error = get(source, &from)) return error;
  if (CUresult error = get(destination, &to)) return error;
  if (from == to) return CUDA_ERROR_INVALID_DEVICE;
  return atomic_capabilities(capabilities, operations, count, true);
}

CUresult cuDeviceGetHostAtomicCapabilities(unsigned int* capabilities, const CUatomicOperation* operations,
                                           unsigned int count, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  return atomic_capabilities(capabilities, operations, count, false);
}

CUresult cuDeviceGetExecAffinitySupport(int* value, CUexecAffinityType type, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (!value || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
  *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  return context ? device::retain_primary(*found, context) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (CUresult error = device::unsafe_while_capturing()) return error;
  return device::release_primary(*found);
}
CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) { return cuDevicePrimaryCtxRelease_v2(ordinal); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (CUresult error = device::unsafe_while_capturing()) return error;
  return device::reset_primary(*found);
}
CUresult cuDevicePrimaryCtxReset(CUdevice ordinal) { return cuDevicePrimaryCtxReset_v2(ordinal); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (CUresult error = check_flags(flags)) return error;
  device::primary_of(*found)->flags.store(flags);
  return CUDA_SUCCESS;
}
// Before CUDA 11, flags of an active context could not be changed.
CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned int flags) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (device::primary_of(*found)->alive.load()) return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
  return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int* flags, int* active) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  *flags = device::primary_of(*found)->flags.load();
  *active = device::primary_of(*found)->alive.load();
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned int flags,
                        CUdevice ordinal) {
  Device* found = nullptr;
  if (CUresult error = get(ordinal, &found)) return error;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult error = check_flags(flags)) return error;
  if (parameters && parameters->cigParams) {
    settings::say_not_built("cuCtxCreate with parameters for graphics");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (parameters && parameters->numExecAffinityParams > 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return device::create_context(*found, flags, context);
}
CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int count, unsigned int flags,
                        CUdevice ordinal) {
  return count > 0 ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : cuCtxCreate_v4(context, nullptr, flags, ordinal);
}
CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice ordinal) {
  return cuCtxCreate_v4(context, nullptr, flags, ordinal);
}
CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice ordinal) {
  return cuCtxCreate_v4(context, nullptr, flags, ordinal);
}

CUresult cuCtxSetFlags(unsigned int flags) {
  CUcontext context;
  if (CUresult error = device::enter(&context)) return error;
  if (CUresult error = check_flags(flags)) return error;
  context->flags.store(flags);
  return CUDA_SUCCESS;
}

}  // extern "C"
