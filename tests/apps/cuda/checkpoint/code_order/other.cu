// A file with its own variable, whose code is loaded first.
#include "other.h"

__device__ unsigned other[1000] = {11};
static __global__ void keep(unsigned** at) { *at = &other[0]; }

void keep_other(unsigned** at) { keep<<<1, 1>>>(at); }
