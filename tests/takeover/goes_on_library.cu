// A library with a static runtime of its own: -1, or how many devices it sees.
__global__ void nothing_either() {}

extern "C" int devices_of_library() {
  int devices = 0;
  nothing_either<<<1, 1>>>();
  if (cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return -1;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : -1;
}
