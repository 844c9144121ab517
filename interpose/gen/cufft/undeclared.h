/* What libcufft exports and cufft.h and cufftXt.h do not declare. Read by castxml, as C. */
#pragma once

#include <cufft.h>
#include <cufftXt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Private, and not offered, so what they take is not looked at. */
cufftResult cufftDebug(void);
cufftResult cufftXtMakePlanGuru64(void);

#ifdef __cplusplus
}
#endif
