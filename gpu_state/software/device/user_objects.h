// Objects of the program that graphs keep alive: a reference count and a function that a device's thread
// calls when the count reaches 0. Source: CUDA Driver API, cuUserObjectCreate, cuGraphRetainUserObject. Any
// thread; no function calls the program on the calling thread.
#pragma once

#include <cuda.h>

namespace cropdl::device {

CUresult create_user_object(CUcontext context, void* data, CUhostFn destroy, unsigned count,
                            CUuserObject* handle);
CUresult retain_user_object(CUuserObject handle, unsigned count);
CUresult release_user_object(CUuserObject handle, unsigned count);

}  // namespace cropdl::device
