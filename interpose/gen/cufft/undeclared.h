/* Functions that libcufft exports and that cufft.h and cufftXt.h do not declare. Read by castxml, as C. */
#pragma once

#include <cufft.h>
#include <cufftXt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Private functions that are not offered, so their arguments do not matter. */
cufftResult cufftDebug(void);
cufftResult cufftXtMakePlanGuru64(void);

#ifdef __cplusplus
}
#endif
