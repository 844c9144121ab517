/* What libcudnn exports and cudnn.h does not declare. Read by castxml, as C. */
#pragma once

#include <cudnn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Private, and not offered, so what they take is not looked at. */
cudnnStatus_t cudnnGetBackdoor(void);
cudnnStatus_t cudnnGetRNNDropoutLocationsInternal(void);
cudnnStatus_t cudnnSetBackdoor(void);
cudnnStatus_t cudnnSetBackdoorEx(void);

#ifdef __cplusplus
}
#endif
