// A single process that computes on the host, launches, waits for a kernel and copies; each phase is long
// enough to be hit by a kill.
#include "saved.h"

__global__ void turn(unsigned* values, unsigned by) {
  unsigned& value = values[blockIdx.x * blockDim.x + threadIdx.x];
  value = (value << 7 | value >> 25) * 2654435761u + by;
}

__global__ void churn(unsigned* values, int rounds) {
  unsigned& at = values[blockIdx.x * blockDim.x + threadIdx.x];
  unsigned value = at;
  for (int i = 0; i < rounds; i++) value = (value << 5 | value >> 27) ^ (value + i);
  at = value;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  constexpr int kFew = 256, kMany = 1 << 20, kLaunches = 300, kCopies = 6, kRounds = 2000;
  unsigned* pinned;
  CALL(cudaMallocHost(&pinned, kMany * sizeof *pinned));
  for (unsigned i = 0; i < kMany; i++) pinned[i] = i * 2246822519u;
  cudaStream_t streams[2];
  cudaEvent_t launched;
  CALL(cudaEventCreateWithFlags(&launched, cudaEventDisableTiming));
  for (cudaStream_t& stream : streams) CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  {
    Buffer<unsigned> few(std::vector<unsigned>(kFew, 1)), many(kMany);
    CALL(cudaMemcpy(many, pinned, kMany * sizeof *pinned, cudaMemcpyHostToDevice));
    while (steplog_done < steplog_steps) {
      steplog_at("launch");
      for (int i = 0; i < kLaunches; i++) {
        cudaStream_t stream = streams[i / 50 % 2];
        if (i % 50 == 0) CALL(cudaStreamWaitEvent(stream, launched));
        turn<<<1, kFew, 0, stream>>>(few, i + steplog_done);
        if (i % 50 == 49) CALL(cudaEventRecord(launched, stream));
      }
      LAUNCHED();
      steplog_at("kernel");
      churn<<<8, 256, 0, streams[0]>>>(many, kRounds);
      CALL(cudaStreamSynchronize(streams[0]));
      steplog_at("copy");
      for (int i = 0; i < kCopies; i++) {
        CALL(cudaMemcpyAsync(pinned, many, kMany * sizeof *pinned, cudaMemcpyDeviceToHost, streams[1]));
        CALL(cudaMemcpyAsync(many + i, pinned, (kMany - i) * sizeof *pinned, cudaMemcpyHostToDevice,
                             streams[1]));
      }
      CALL(cudaDeviceSynchronize());
      steplog_mix_bytes(pinned, 4096);
      mix(few.host());
      steplog_step();
    }
    mix(many.host());
  }
  for (cudaStream_t stream : streams) CALL(cudaStreamDestroy(stream));
  CALL(cudaEventDestroy(launched));
  CALL(cudaFreeHost(pinned));
  nonce.back();
  steplog_ok();
  return 0;
}
