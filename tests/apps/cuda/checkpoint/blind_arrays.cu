// nvcc: -std=c++17
// run: ways=static,shared
// CUDA arrays of two and three dimensions, filled and read by copies. Some are alive in the first half of the
// steps (from --from to --to); before and after, the program has ordinary memory only.
#include "saved.h"

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  long to = steplog_steps / 2;
  cudaArray_t flat = nullptr, box = nullptr;
  uint32_t* linear;
  constexpr int kWidth = 16, kHeight = 8;
  CALL(cudaMalloc(&linear, kWidth * kHeight * 4));
  CALL(cudaMemset(linear, 0, kWidth * kHeight * 4));
  std::vector<uint32_t> host(kWidth * kHeight), got(kWidth * kHeight);
  cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned>();
  CALL(cudaMallocArray(&flat, &format, kWidth, kHeight));
  if (steplog_has(argc, argv, "--box")) {
    CALL(cudaMalloc3DArray(&box, &format, make_cudaExtent(8, 4, 2)));
    CALL(cudaFreeArray(flat));
    flat = nullptr;
  }
  while (steplog_done < steplog_steps) {
    const long step = steplog_done;
    if (step == to) {
      if (flat) CALL(cudaFreeArray(flat));
      if (box) CALL(cudaFreeArray(box));
      flat = box = nullptr;
    }
    for (auto& h : host) h = h * 3 + static_cast<uint32_t>(step);
    if (flat) {
      CALL(cudaMemcpy2DToArray(flat, 0, 0, host.data(), kWidth * 4, kWidth * 4, kHeight,
                               cudaMemcpyHostToDevice));
      CALL(cudaMemcpy2DFromArray(linear, kWidth * 4, flat, 0, 0, kWidth * 4, kHeight,
                                 cudaMemcpyDeviceToDevice));
    } else {
      CALL(cudaMemcpy(linear, host.data(), host.size() * 4, cudaMemcpyHostToDevice));
    }
    CALL(cudaDeviceSynchronize());
    CALL(cudaMemcpy(got.data(), linear, got.size() * 4, cudaMemcpyDeviceToHost));
    EXPECT(got == host);
    mix(got);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}
