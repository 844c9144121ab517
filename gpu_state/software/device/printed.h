// What kernels print lies in a buffer of the context until something shows it: a synchronisation, a launch, a
// blocking copy, a module's loading or unloading, the context's end, a host function. It is not shown when
// the process ends. When more is printed than the buffer holds (CU_LIMIT_PRINTF_FIFO_SIZE), the oldest is
// lost. Source: CUDA C++ Programming Guide, "Formatted Output". Any thread.
#pragma once

#include <cuda.h>

#include <string_view>

namespace cropdl::device {

void print(CUcontext context, std::string_view text);
// Writes it to stdout, without flushing stdout: it stands between what the program prints before and after.
void show_printed(CUcontext context);

}  // namespace cropdl::device
