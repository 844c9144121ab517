/* Local to this file, as every program may call its functions. */
static __attribute__((noinline)) int cudaStreamQuery(int value) { return value + 1; }
int own_function(int value) { return cudaStreamQuery(value); }
