/* All headers of libcublas. cublas.h, the older interface without handles, is included first, because
   cublas_v2.h renames its functions. */
#pragma once

#include <cublas.h>
#define CUBLAS_V2_H_
#include <cublasXt.h>
