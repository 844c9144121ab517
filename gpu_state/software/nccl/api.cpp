// The functions of nccl.h for communicators, memory and errors (calls.cpp has the others). Source of
// behaviour and errors: nccl.h and the NCCL documentation, "NCCL API".
#include <cuda.h>
#include <nccl.h>

#include <cstring>

#include "base/file.h"
#include "base/format.h"
#include "base/random.h"
#include "gpu_state/software/nccl/communicator.h"
#include "gpu_state/software/nccl/group.h"
#include "gpu_state/software/nccl/two_names.h"
#include "gpu_state/software/nccl/work.h"

using namespace cropdl;        // NOLINT
using namespace cropdl::nccl;  // NOLINT

namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;  // NCCL_CONFIG_INITIALIZER

ncclResult_t check_config(const ncclConfig_t* config, bool* blocking) {
  *blocking = true;
  if (!config) return ncclSuccess;
  if (config->magic != kConfigMagic)
    return failed(ncclInvalidArgument, "the ncclConfig_t was not initialised with NCCL_CONFIG_INITIALIZER");
  if (config->blocking != NCCL_CONFIG_UNDEF_INT) {
    if (config->blocking != 0 && config->blocking != 1)
      return failed(ncclInvalidArgument, formatted("ncclConfig_t: blocking is {}", config->blocking));
    *blocking = config->blocking == 1;
  }
  return ncclSuccess;
}

void say_version_once() {
  static const bool kSaid = [] {
    const char* debug = std::getenv("NCCL_DEBUG");
    if (debug && (!strcasecmp(debug, "VERSION") || !strcasecmp(debug, "INFO") || !strcasecmp(debug, "TRACE")))
      std::printf("NCCL version %d.%d.%d+cuda13.0 (%s)\n", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH, kBuild),
          std::fflush(stdout);
    return true;
  }();
  static_cast<void>(kSaid);
}

constexpr size_t kMarkAt = 32;  // in an id, behind the token

// The machine's mark in an id: the boot's UUID (random(4)), the same in all containers.
std::string mark_of_machine() {
  return kernel_text("/proc/sys/kernel/random/boot_id").substr(0, sizeof(ncclUniqueId) - kMarkAt - 1);
}

ncclResult_t initialise(ncclComm_t* into, int ranks, const ncclUniqueId& id, int rank,
                        const ncclConfig_t* config) {
  if (!into) return failed(ncclInvalidArgument, "ncclCommInitRank: no place for the communicator");
  *into = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks)
    return failed(ncclInvalidArgument, formatted("ncclCommInitRank: rank {} of {}", rank, ranks));
  if (ranks > kMostRanks)
    return failed(ncclInvalidUsage,
                  formatted("CropDL's software NCCL has room for {} ranks in a communicator, not {}",
                            kMostRanks, ranks));
  std::string token = token_of(id);
  if (token.size() != 32 || token.find_first_not_of("0123456789abcdef") != token.npos)
    return failed(ncclInvalidArgument,
                  "ncclCommInitRank: the unique id is not one of ncclGetUniqueId of CropDL's software NCCL");
  if (const char* mark = id.internal + kMarkAt;
      mark_of_machine() != std::string(mark, strnlen(mark, sizeof id - kMarkAt)))
    return refused(
        "the communicator's id was made on another machine: CropDL's software NCCL connects ranks of one "
        "machine only");
  Making making;
  if (ncclResult_t result = check_config(config, &making.blocking)) return result;
  making.into = into;
  making.rank = rank;
  making.ranks = ranks;
  making.token = token;
  say_version_once();
  return enqueue(making);
}

}  // namespace

extern "C" {

ncclResult_t pncclGetVersion(int* version) {
  if (!version) return failed(ncclInvalidArgument, "ncclGetVersion: no place for the version");
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t pncclGetUniqueId(ncclUniqueId* id) {
  if (!id) return failed(ncclInvalidArgument, "ncclGetUniqueId: no place for the id");
  std::memset(id, 0, sizeof *id);
  std::string token = random_hex(16);
  const std::string mark = mark_of_machine();
  std::memcpy(id->internal, token.data(), token.size());
  std::memcpy(id->internal + kMarkAt, mark.data(), mark.size());
  return ncclSuccess;
}

ncclResult_t pncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank) {
  return spoil(initialise(communicator, ranks, id, rank, nullptr));
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                     ncclConfig_t* config) {
  return spoil(initialise(communicator, ranks, id, rank, config));
}

ncclResult_t pncclCommInitRankScalable(ncclComm_t* communicator, int ranks, int rank, int number,
                                       ncclUniqueId* ids, ncclConfig_t* config) {
  if (number < 1 || !ids) return spoil(failed(ncclInvalidArgument, "ncclCommInitRankScalable: no unique id"));
  return spoil(initialise(communicator, ranks, ids[0], rank, config));
}

ncclResult_t pncclCommInitAll(ncclComm_t* communicators, int number, const int* devices) {
  if (!communicators || number < 1)
    return spoil(failed(ncclInvalidArgument, formatted("ncclCommInitAll: {} devices", number)));
  int there = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&there) != CUDA_SUCCESS)
    return spoil(failed(ncclUnhandledCudaError, "there is no device"));
  for (int i = 0; i < number; i++) {
    int device = devices ? devices[i] : i;
    if (device < 0 || device >= there)
      return spoil(failed(ncclInvalidArgument, formatted("ncclCommInitAll: device {} of {}", device, there)));
    for (int j = 0; devices && j < i; j++)
      if (devices[j] == device)
        return spoil(
            failed(ncclInvalidUsage, formatted("ncclCommInitAll: device {} is named twice", device)));
  }
  ncclUniqueId id;
  pncclGetUniqueId(&id);
  CUcontext before = nullptr;
  cuCtxGetCurrent(&before);
  group_start();
  ncclResult_t result = ncclSuccess;
  std::vector<CUcontext> contexts(static_cast<size_t>(number));
  for (int i = 0; i < number && !result; i++) {
    CUcontext context;
    if (cuDevicePrimaryCtxRetain(&context, devices ? devices[i] : i) != CUDA_SUCCESS) {
      result = failed(ncclUnhandledCudaError, "a device has no context");
      break;
    }
    Making making;
    making.into = &communicators[i];
    making.rank = i;
    making.ranks = number;
    making.token = token_of(id);
    making.context = context;
    result = enqueue(making);
  }
  if (result) spoil(result);
  ncclResult_t ended = group_end();
  cuCtxSetCurrent(before);
  return result ? result : ended;
}

ncclResult_t pncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* into, ncclConfig_t* config) {
  Communicator parent = find(handle);
  ncclResult_t result = check_state(parent);
  Making making;
  if (!result && !parent->revoked.load()) result = check_ready(parent);
  if (!result && !into) result = failed(ncclInvalidArgument, "ncclCommSplit: no place for the communicator");
  if (!result && color < 0 && color != NCCL_SPLIT_NOCOLOR)
    result = failed(ncclInvalidArgument, formatted("ncclCommSplit: color {}", color));
  if (!result) result = check_config(config, &making.blocking);
  if (result) return spoil(result);
  *into = nullptr;
  if (!config || config->blocking == NCCL_CONFIG_UNDEF_INT) making.blocking = parent->blocking;
  making.into = into;
  making.parent = parent;
  making.is_split = true;
  making.color = color;
  making.key = key;
  return spoil(enqueue(making));
}

ncclResult_t pncclCommShrink(ncclComm_t handle, int* excluded, int number, ncclComm_t* into,
                             ncclConfig_t* config, int flags) {
  Communicator parent = find(handle);
  ncclResult_t result = check(parent);
  Making making;
  if (!result && flags & NCCL_SHRINK_ABORT) result = revoke(parent);
  if (!result) result = check_state(parent);
  if (!result && !parent->revoked.load()) result = check_ready(parent);
  if (!result && (!into || !excluded || number < 1))
    result = failed(ncclInvalidArgument, "ncclCommShrink: nobody is excluded");
  if (!result) result = check_config(config, &making.blocking);
  if (result) return spoil(result);
  *into = nullptr;
  std::vector<bool> out(static_cast<size_t>(parent->ranks));
  uint64_t names = 0;  // one bit each
  static_assert(kMostRanks <= 64);
  for (int i = 0; i < number; i++) {
    if (excluded[i] < 0 || excluded[i] >= parent->ranks || excluded[i] == parent->rank)
      return spoil(failed(
          ncclInvalidArgument,
          formatted("ncclCommShrink: rank {} cannot be excluded by rank {}", excluded[i], parent->rank)));
    out[static_cast<size_t>(excluded[i])] = true;
  }
  for (int rank = 0; rank < parent->ranks; rank++) {
    if (out[static_cast<size_t>(rank)]) {
      names |= uint64_t{1} << rank;
      continue;
    }
    if (rank < parent->rank) making.rank++;
    making.ranks++;
  }
  if (!config || config->blocking == NCCL_CONFIG_UNDEF_INT) making.blocking = parent->blocking;
  making.into = into;
  making.parent = parent;
  making.token = formatted("{}.without-{:x}.{}", parent->token, names, parent->shrinks[names]++);
  return spoil(enqueue(making));
}

ncclResult_t pncclCommFinalize(ncclComm_t handle) {
  Communicator communicator = find(handle);
  ncclResult_t result = check_ready(communicator);
  return spoil(result ? result : finalize(communicator));
}

ncclResult_t pncclCommDestroy(ncclComm_t handle) {
  if (!handle) return ncclSuccess;
  Communicator communicator = find(handle);
  ncclResult_t result = check_state(communicator);
  return spoil(result ? result : destroy(communicator, communicator->aborted.load()));
}

ncclResult_t pncclCommAbort(ncclComm_t handle) {
  if (!handle) return ncclSuccess;
  Communicator communicator = find(handle);
  ncclResult_t result = check(communicator);
  return spoil(result ? result : destroy(communicator, true));
}

ncclResult_t pncclCommRevoke(ncclComm_t handle, int flags) {
  Communicator communicator = find(handle);
  ncclResult_t result = check(communicator);
  if (!result && flags != NCCL_REVOKE_DEFAULT)
    result = failed(ncclInvalidArgument, formatted("ncclCommRevoke: flags {}", flags));
  return result ? result : revoke(communicator);
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  Communicator communicator = find(handle);
  if (ncclResult_t result = check(communicator)) return result;
  if (!error) return failed(ncclInvalidArgument, "ncclCommGetAsyncError: no place for the error");
  *error = state_of(*communicator);
  return ncclSuccess;
}

ncclResult_t pncclCommCount(const ncclComm_t handle, int* count) {
  Communicator communicator = find(handle);
  ncclResult_t result = check_state(communicator);
  if (!result && !count) result = failed(ncclInvalidArgument, "ncclCommCount: no place for the count");
  if (!result) *count = communicator->ranks;
  return result;
}

ncclResult_t pncclCommCuDevice(const ncclComm_t handle, int* device) {
  Communicator communicator = find(handle);
  ncclResult_t result = check_state(communicator);
  if (!result && !device) result = failed(ncclInvalidArgument, "ncclCommCuDevice: no place for the device");
  if (!result) *device = communicator->device;
  return result;
}

ncclResult_t pncclCommUserRank(const ncclComm_t handle, int* rank) {
  Communicator communicator = find(handle);
  ncclResult_t result = check_state(communicator);
  if (!result && !rank) result = failed(ncclInvalidArgument, "ncclCommUserRank: no place for the rank");
  if (!result) *rank = communicator->rank;
  return result;
}

const char* pncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* pncclGetLastError(ncclComm_t) { return last_error(); }

// Device memory, like that of NCCL's allocator.
ncclResult_t pncclMemAlloc(void** pointer, size_t size) {
  if (!pointer || !size) return failed(ncclInvalidArgument, "ncclMemAlloc: nothing to allocate");
  CUdeviceptr address;
  if (cuMemAlloc(&address, size) != CUDA_SUCCESS)
    return failed(ncclUnhandledCudaError, "ncclMemAlloc: out of memory");
  *pointer = reinterpret_cast<void*>(address);
  return ncclSuccess;
}

ncclResult_t pncclMemFree(void* pointer) {
  if (!pointer) return ncclSuccess;
  return cuMemFree(reinterpret_cast<CUdeviceptr>(pointer)) == CUDA_SUCCESS
             ? ncclSuccess
             : failed(ncclUnhandledCudaError, "ncclMemFree: not allocated");
}

// Registration does not speed anything up here; it is recorded, so that deregistering an unknown one fails.
ncclResult_t pncclCommRegister(const ncclComm_t of, void* buffer, size_t size, void** handle) {
  Communicator communicator = find(of);
  ncclResult_t result = check_ready(communicator);
  if (!result && (!buffer || !size || !handle))
    result = failed(ncclInvalidArgument, "ncclCommRegister: no buffer");
  if (result) return result;
  *handle = new char;
  communicator->registrations[*handle] = size;
  return ncclSuccess;
}

ncclResult_t pncclCommDeregister(const ncclComm_t of, void* handle) {
  Communicator communicator = find(of);
  ncclResult_t result = check(communicator);
  if (!result && !communicator->registrations.erase(handle))
    return failed(ncclInvalidArgument, "ncclCommDeregister: not registered");
  if (!result) delete static_cast<char*>(handle);
  return result;
}

// As on hardware without symmetric memory: success, without a window (users of nccl.h check for that).
ncclResult_t pncclCommWindowRegister(ncclComm_t handle, void* buffer, size_t size, ncclWindow_t* window,
                                     int) {
  Communicator communicator = find(handle);
  ncclResult_t result = check_ready(communicator);
  if (!result && (!buffer || !size || !window))
    result = failed(ncclInvalidArgument, "ncclCommWindowRegister: no buffer");
  if (!result) *window = nullptr;
  return result;
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  ncclResult_t result = check(find(handle));
  return !result && window ? failed(ncclInvalidArgument, "ncclCommWindowDeregister: not registered") : result;
}

void pncclResetDebugInit() {}

}  // extern "C"

ALSO_WITHOUT_P(GetVersion);
ALSO_WITHOUT_P(ResetDebugInit);
ALSO_WITHOUT_P(GetUniqueId);
ALSO_WITHOUT_P(CommInitRank);
ALSO_WITHOUT_P(CommInitRankConfig);
ALSO_WITHOUT_P(CommInitRankScalable);
ALSO_WITHOUT_P(CommInitAll);
ALSO_WITHOUT_P(CommSplit);
ALSO_WITHOUT_P(CommShrink);
ALSO_WITHOUT_P(CommFinalize);
ALSO_WITHOUT_P(CommDestroy);
ALSO_WITHOUT_P(CommAbort);
ALSO_WITHOUT_P(CommRevoke);
ALSO_WITHOUT_P(CommGetAsyncError);
ALSO_WITHOUT_P(CommCount);
ALSO_WITHOUT_P(CommCuDevice);
ALSO_WITHOUT_P(CommUserRank);
ALSO_WITHOUT_P(GetErrorString);
ALSO_WITHOUT_P(GetLastError);
ALSO_WITHOUT_P(MemAlloc);
ALSO_WITHOUT_P(MemFree);
ALSO_WITHOUT_P(CommRegister);
ALSO_WITHOUT_P(CommDeregister);
ALSO_WITHOUT_P(CommWindowRegister);
ALSO_WITHOUT_P(CommWindowDeregister);
