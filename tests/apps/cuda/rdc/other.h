// What one file of the separately compiled program offers the other.
#pragma once

typedef int (*Operation)(int);
extern __device__ int table[4];
extern __constant__ int limit;
__device__ int twice(int x);
__device__ Operation choose(int i);
__device__ void count_up();
int counted();  // reads the device's variable, which only its own file names
