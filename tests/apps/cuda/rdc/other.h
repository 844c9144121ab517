// Declarations that the two files of the separately compiled program share.
#pragma once

typedef int (*Operation)(int);
extern __device__ int table[4];
extern __constant__ int limit;
__device__ int twice(int x);
__device__ Operation choose(int i);
__device__ void count_up();
int counted();  // reads a device variable that only its own file can name
