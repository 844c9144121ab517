#include "gpu_state/software/device/user_objects.h"

#include "gpu_state/software/device/background.h"
#include "gpu_state/software/device/callbacks.h"
#include "gpu_state/software/device/context.h"
#include "gpu_state/software/device/live.h"

struct CUuserObject_st {
  CUcontext context;
  void* data;
  CUhostFn destroy;
  std::mutex mutex;
  uint64_t count;  // held by the program and by graphs

  CUuserObject_st(CUcontext context, void* data, CUhostFn destroy, uint64_t count)
      : context(context), data(data), destroy(destroy), count(count) {}
};

namespace cropdl::device {

namespace {

Live<CUuserObject_st>& live_objects() {
  static auto* live = new Live<CUuserObject_st>;
  return *live;
}

}  // namespace

CUresult create_user_object(CUcontext context, void* data, CUhostFn destroy, unsigned count,
                            CUuserObject* handle) {
  if (!destroy || count == 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = live_objects().add(std::make_shared<CUuserObject_st>(context, data, destroy, count));
  return CUDA_SUCCESS;
}

CUresult retain_user_object(CUuserObject handle, unsigned count) {
  auto object = live_objects().find(handle);
  if (!object || count == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(object->mutex);
  object->count += count;
  return CUDA_SUCCESS;
}

CUresult release_user_object(CUuserObject handle, unsigned count) {
  auto object = live_objects().find(handle);
  if (!object || count == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(object->mutex);
  if (count > object->count) return CUDA_ERROR_INVALID_VALUE;
  object->count -= count;
  if (object->count > 0) return CUDA_SUCCESS;
  live_objects().take(handle);
  // It must not call this API, so without another thread it runs on the caller's.
  if (!in_background([context = object->context, destroy = object->destroy, data = object->data] {
        call_back(context->device, [&] { destroy(data); });
      }))
    object->destroy(object->data);
  return CUDA_SUCCESS;
}

}  // namespace cropdl::device
