// Things of the program's that graphs keep alive: a count of references, and a function that is called, on a
// thread of the device's, when none is left. Source: CUDA Driver API, cuUserObjectCreate,
// cuGraphRetainUserObject. Any thread; none of it calls the program on the calling thread.
#pragma once

#include <cuda.h>

namespace cropdl::device {

CUresult create_user_object(CUcontext context, void* data, CUhostFn destroy, unsigned count,
                            CUuserObject* handle);
CUresult retain_user_object(CUuserObject handle, unsigned count);
CUresult release_user_object(CUuserObject handle, unsigned count);

}  // namespace cropdl::device
