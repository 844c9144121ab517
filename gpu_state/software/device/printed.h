// The output of kernels' printf stays in a buffer of the context until one of these shows it: a
// synchronization, a launch, a blocking copy, a module's loading or unloading, the context's end, a host
// function. The end of the process does not show it. If the buffer overflows (CU_LIMIT_PRINTF_FIFO_SIZE), the
// oldest output is lost. Source: CUDA C++ Programming Guide, "Formatted Output". Any thread.
#pragma once

#include <cuda.h>

#include <string_view>

namespace cropdl::device {

void print(CUcontext context, std::string_view text);
// Writes it to stdout without flushing, so that it is in order with the program's own output.
void show_printed(CUcontext context);

}  // namespace cropdl::device
