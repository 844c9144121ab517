// Launches; memory of each kind, streams and events are made and destroyed in every step, which must leave
// nothing behind.
#include "saved.h"

__global__ void count(unsigned* counter) { atomicAdd(counter, 1u); }

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  int each = 100;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--each")) each = atoi(argv[i + 1]);
  cudaStream_t own;
  CALL(cudaStreamCreate(&own));
  {
    Buffer<unsigned> counter(std::vector<unsigned>{0});
    while (steplog_done < steplog_steps) {
      for (int i = 0; i < each; i++) {
        cudaStream_t stream;
        cudaEvent_t event;
        void *memory, *ordered, *managed = nullptr, *pinned = nullptr;
        CALL(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
        CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
        CALL(cudaMalloc(&memory, 100 + i % 100 * 1000));
        CALL(cudaMallocAsync(&ordered, 5000, stream));
        if (i % 10 == 0) CALL(cudaMallocManaged(&managed, 3000));
        if (i % 10 == 0) CALL(cudaMallocHost(&pinned, 3000));
        for (int k = 0; k < 10; k++) count<<<1, 1, 0, k % 2 ? stream : own>>>(counter);
        CALL(cudaEventRecord(event, stream));
        CALL(cudaStreamWaitEvent(own, event));
        CALL(cudaFreeAsync(ordered, stream));
        CALL(cudaEventDestroy(event));
        CALL(cudaStreamDestroy(stream));
        CALL(cudaFree(memory));
        CALL(cudaFree(managed));
        if (pinned) CALL(cudaFreeHost(pinned));
      }
      LAUNCHED();
      CALL(cudaDeviceSynchronize());
      EXPECT(counter.host()[0] == static_cast<unsigned>(each * 10 * (steplog_done + 1)));
      steplog_step();
    }
  }
  CALL(cudaStreamDestroy(own));
  nonce.back();
  steplog_mix(each);
  steplog_ok();
  return 0;
}
