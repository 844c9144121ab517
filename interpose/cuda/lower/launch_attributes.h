// Attributes of launches and of kernels' nodes. The runtime's structures are the driver's under other names
// (driver_types.h: "cudaLaunchAttribute").
#pragma once

#include <cuda.h>
#include <driver_types.h>

namespace cropdl::cuda {

static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(int{cudaLaunchAttributeProgrammaticEvent} == int{CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT} &&
              int{cudaLaunchAttributeLaunchCompletionEvent} ==
                  int{CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT});

// The event in an attribute's value; nullptr: the attribute has none.
template <class Id, class Value>
CUevent* event_in(Id id, Value& v) {
  if (static_cast<int>(id) == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) return &v.programmaticEvent.event;
  if (static_cast<int>(id) == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
    return &v.launchCompletionEvent.event;
  return nullptr;
}

}  // namespace cropdl::cuda
