// nvcc: -std=c++17
// run: build=long ways=static
// Pinned memory of every kind, written by kernels while the host reads it; the program's memory, registered,
// deregistered and registered again, also in the middle of a larger block; copies of rows and boxes with
// pitches, memsets of rows; temporary blocks of any size between permanent ones.
#include <sys/mman.h>

#include "saved.h"

__global__ void count(volatile uint32_t* v, uint32_t with) { v[threadIdx.x] = v[threadIdx.x] * 7 + with; }
__global__ void rows(uint32_t* v, size_t pitch, int width, int height, uint32_t with) {
  for (int y = blockIdx.x; y < height; y += gridDim.x)
    for (int x = threadIdx.x; x < width; x += blockDim.x) {
      uint32_t* at = reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(v) + y * pitch) + x;
      *at = *at * 3 + with + y * 100 + x;
    }
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  cudaStream_t s;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  static const unsigned kinds[] = {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocMapped,
                                   cudaHostAllocWriteCombined,
                                   cudaHostAllocMapped | cudaHostAllocPortable | cudaHostAllocWriteCombined};
  constexpr int kKinds = 5;
  uint32_t *host[kKinds], *device[kKinds], model[kKinds] = {};
  unsigned flags[kKinds];
  for (int i = 0; i < kKinds; i++) {
    CALL(cudaHostAlloc(&host[i], 1000 + 5000 * i, kinds[i]));
    memset(host[i], 0, 128);
    CALL(cudaHostGetDevicePointer(&device[i], host[i], 0));
    CALL(cudaHostGetFlags(&flags[i], host[i]));
  }
  char* block =
      static_cast<char*>(mmap(nullptr, 64 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT(block != MAP_FAILED);
  uint32_t registered_model[3] = {};
  bool registered[3] = {};
  uint32_t* parts[3] = {reinterpret_cast<uint32_t*>(block + (4 << 12) + 256),
                        reinterpret_cast<uint32_t*>(block + (20 << 12)),
                        reinterpret_cast<uint32_t*>(static_cast<char*>(malloc(70000)) + 16)};
  memset(parts[2], 0, 69000);
  size_t pitch;
  uint32_t* pitched;
  constexpr int kWidth = 37, kHeight = 19, kDepth = 3;
  CALL(cudaMallocPitch(&pitched, &pitch, kWidth * 4, kHeight));
  CALL(cudaMemset2D(pitched, pitch, 0, kWidth * 4, kHeight));
  cudaPitchedPtr box;
  CALL(cudaMalloc3D(&box, make_cudaExtent(kWidth * 4, kHeight, kDepth)));
  CALL(cudaMemset3D(box, 0, make_cudaExtent(kWidth * 4, kHeight, kDepth)));
  CALL(cudaDeviceSynchronize());
  std::vector<uint32_t> pitched_model(kWidth * kHeight, 0);
  struct Block {
    uint32_t* at = nullptr;
    size_t words;
    uint32_t with;
  } blocks[24];
  uint64_t state = 9;
  while (steplog_done < steplog_steps) {
    const uint32_t step = static_cast<uint32_t>(steplog_done);
    for (int i = 0; i < kKinds; i++) {
      count<<<1, 32, 0, s>>>(device[i], step + i);
      model[i] = model[i] * 7 + step + i;
    }
    for (int i = 0; i < 3; i++) {
      if (step % (5 + i) == static_cast<uint32_t>(i)) {
        if (registered[i]) CALL(cudaHostUnregister(parts[i]));
        registered[i] = !registered[i];
        if (registered[i])
          CALL(cudaHostRegister(parts[i], 5000 + 4000 * i,
                                i == 1 ? cudaHostRegisterPortable : cudaHostRegisterMapped));
      }
      if (!registered[i]) continue;
      uint32_t* there;
      CALL(cudaHostGetDevicePointer(&there, parts[i], 0));
      count<<<1, 32, 0, s>>>(there, step);
      registered_model[i] = registered_model[i] * 7 + step;
    }
    rows<<<3, 32, 0, s>>>(pitched, pitch, kWidth, kHeight, step);
    for (int y = 0; y < kHeight; y++)
      for (int x = 0; x < kWidth; x++)
        pitched_model[y * kWidth + x] = pitched_model[y * kWidth + x] * 3 + step + y * 100 + x;
    CALL(cudaMemset2DAsync(pitched + 3, pitch, static_cast<int>(step & 255), 12, 5, s));
    for (int y = 0; y < 5; y++) memset(&pitched_model[y * kWidth + 3], static_cast<int>(step & 255), 12);
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(pitched, pitch, kWidth * 4, kHeight);
    p.dstPtr = box;
    p.dstPos = make_cudaPos(0, 0, step % kDepth);
    p.extent = make_cudaExtent(kWidth * 4, kHeight, 1);
    p.kind = cudaMemcpyDeviceToDevice;
    CALL(cudaMemcpy3DAsync(&p, s));
    for (int round = 0; round < 6; round++) {
      Block& b = blocks[steplog_random(&state) % 24];
      if (b.at) {
        uint32_t last;
        CALL(cudaMemcpy(&last, b.at + b.words - 1, 4, cudaMemcpyDeviceToHost));
        EXPECT(last == b.with);
        CALL(cudaFree(b.at));
        b.at = nullptr;
      } else {
        b.words = steplog_random(&state) % 8 ? 1 + steplog_random(&state) % 300
                                             : (size_t{1} << 20) / 4 * (steplog_random(&state) % 9) + 3;
        b.with = step * 77 + round;
        CALL(cudaMalloc(&b.at, b.words * 4));
        CALL(cudaMemcpy(b.at + b.words - 1, &b.with, 4, cudaMemcpyHostToDevice));
      }
    }
    LAUNCHED();
    CALL(cudaStreamSynchronize(s));
    for (int i = 0; i < kKinds; i++) {
      for (int j = 0; j < 32; j++) EXPECT(host[i][j] == model[i]);
      unsigned f;
      uint32_t* d;
      CALL(cudaHostGetFlags(&f, host[i]));
      CALL(cudaHostGetDevicePointer(&d, host[i], 0));
      if (f != flags[i]) steplog_fail("flags of kind %d are %x, were %x", i, f, flags[i]);
      EXPECT(d == device[i]);
    }
    for (int i = 0; i < 3; i++) {
      cudaPointerAttributes of;
      EXPECT(parts[i][31] == registered_model[i] && parts[i][0] == registered_model[i]);
      CALL(cudaPointerGetAttributes(&of, parts[i] + 2));
      EXPECT(of.type == (registered[i] ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered));
      unsigned f;
      if (registered[i]) CALL(cudaHostGetFlags(&f, parts[i]));
    }
    std::vector<uint32_t> got(kWidth * kHeight), slice(kWidth * kHeight);
    CALL(cudaMemcpy2D(got.data(), kWidth * 4, pitched, pitch, kWidth * 4, kHeight, cudaMemcpyDeviceToHost));
    EXPECT(got == pitched_model);
    p.srcPtr = box;
    p.srcPos = make_cudaPos(0, 0, step % kDepth);
    p.dstPtr = make_cudaPitchedPtr(slice.data(), kWidth * 4, kWidth * 4, kHeight);
    p.dstPos = make_cudaPos(0, 0, 0);
    p.kind = cudaMemcpyDeviceToHost;
    CALL(cudaMemcpy3D(&p));
    EXPECT(slice == pitched_model);
    if (step >= 2) {  // the result of an earlier step
      p.srcPos = make_cudaPos(0, 0, (step + 1) % kDepth);
      CALL(cudaMemcpy3D(&p));
      mix(slice);
    }
    mix(got);
    for (auto m : model) steplog_mix(m);
    steplog_step();
  }
  for (auto& b : blocks)
    if (b.at) {
      uint32_t last;
      CALL(cudaMemcpy(&last, b.at + b.words - 1, 4, cudaMemcpyDeviceToHost));
      EXPECT(last == b.with);
    }
  nonce.back();
  steplog_ok();
  return 0;
}
