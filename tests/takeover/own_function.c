/* A function local to this file with a name of the runtime's, which every program may have. */
static __attribute__((noinline)) int cudaStreamQuery(int value) { return value + 1; }
int own_function(int value) { return cudaStreamQuery(value); }
