/* Functions that libcudnn exports and that cudnn.h does not declare. Read by castxml, as C. */
#pragma once

#include <cudnn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Private functions that are not offered, so their arguments do not matter. */
cudnnStatus_t cudnnGetBackdoor(void);
cudnnStatus_t cudnnGetRNNDropoutLocationsInternal(void);
cudnnStatus_t cudnnSetBackdoor(void);
cudnnStatus_t cudnnSetBackdoorEx(void);

#ifdef __cplusplus
}
#endif
