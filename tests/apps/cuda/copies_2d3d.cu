// Pitched and three-dimensional copies and memsets, every direction, with offsets.
#include "check.h"

__global__ void increment(char* data, size_t pitch, int width, int height) {
  int x = threadIdx.x, y = blockIdx.x;
  if (x < width && y < height) reinterpret_cast<int*>(data + y * pitch)[x]++;
}

int main() {
  const int width = 37, height = 11, depth = 5;
  std::vector<int> in(width * height), out(width * height);
  for (size_t i = 0; i < in.size(); i++) in[i] = int(i) * 3;
  char* pitched;
  size_t pitch;
  CALL(cudaMallocPitch(&pitched, &pitch, width * sizeof(int), height));
  EXPECT(pitch >= width * sizeof(int) && pitch % 32 == 0);
  CALL(cudaMemcpy2D(pitched, pitch, in.data(), width * sizeof(int), width * sizeof(int), height,
                    cudaMemcpyHostToDevice));
  increment<<<height, 64>>>(pitched, pitch, width, height);
  LAUNCHED();
  CALL(cudaMemset2D(pitched + 2 * pitch, pitch, 0, 5 * sizeof(int), 3));
  CALL(cudaMemcpy2D(out.data(), width * sizeof(int), pitched, pitch, width * sizeof(int), height,
                    cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      EXPECT(out[y * width + x] == (y >= 2 && y < 5 && x < 5 ? 0 : (y * width + x) * 3 + 1));
  digest(out);
  // A column, device to device, then back to the host.
  Buffer<int> column(height);
  CALL(cudaMemcpy2DAsync(column, sizeof(int), pitched + 7 * sizeof(int), pitch, sizeof(int), height,
                         cudaMemcpyDeviceToDevice, 0));
  std::vector<int> got = column.host();
  for (int y = 0; y < height; y++) EXPECT(got[y] == (y * width + 7) * 3 + 1);

  cudaExtent whole = make_cudaExtent(width * sizeof(short), height, depth);
  cudaPitchedPtr volume;
  CALL(cudaMalloc3D(&volume, whole));
  CALL(cudaMemset3D(volume, 0x11, whole));
  std::vector<short> source(width * height * depth);
  for (size_t i = 0; i < source.size(); i++) source[i] = short(i);
  cudaMemcpy3DParms part = {};
  part.srcPtr = make_cudaPitchedPtr(source.data(), width * sizeof(short), width, height);
  part.srcPos = make_cudaPos(3 * sizeof(short), 1, 1);
  part.dstPtr = volume;
  part.dstPos = make_cudaPos(5 * sizeof(short), 2, 0);
  part.extent = make_cudaExtent(20 * sizeof(short), 6, 3);
  part.kind = cudaMemcpyHostToDevice;
  CALL(cudaMemcpy3D(&part));
  std::vector<short> back(source.size());
  cudaMemcpy3DParms all = {};
  all.srcPtr = volume;
  all.dstPtr = make_cudaPitchedPtr(back.data(), width * sizeof(short), width, height);
  all.extent = whole;
  all.kind = cudaMemcpyDeviceToHost;
  CALL(cudaMemcpy3D(&all));
  for (int z = 0; z < depth; z++)
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) {
        bool inside = x >= 5 && x < 25 && y >= 2 && y < 8 && z < 3;
        short expected = inside ? short(((z + 1) * height + y - 1) * width + x - 2) : short(0x1111);
        EXPECT(back[(z * height + y) * width + x] == expected);
      }
  digest(back);
  FAILS(cudaMemcpy2D(pitched, 8, in.data(), 16, 16, 1, cudaMemcpyHostToDevice), cudaErrorInvalidPitchValue);
  CALL(cudaFree(volume.ptr));
  CALL(cudaFree(pitched));
  return finish();
}
