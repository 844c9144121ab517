// A library with its own static runtime: returns the number of devices that it sees, or -1.
__global__ void nothing_either() {}

extern "C" int devices_of_library() {
  int devices = 0;
  nothing_either<<<1, 1>>>();
  if (cudaGetLastError() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return -1;
  return cudaGetDeviceCount(&devices) == cudaSuccess ? devices : -1;
}
