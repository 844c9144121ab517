// nvcc: -std=c++17 -lcuda -Xcompiler -pthread
// run: build=long ways=static,per-thread also=per-thread
// Streams that wait for a word in memory (cuStreamWaitValue32), written by the host, another thread or
// another stream, sometimes some hundred milliseconds late; batches of writes; events in blocked streams;
// streams and events destroyed while their work is pending.
#include <cuda.h>

#include <atomic>
#include <thread>

#include "saved.h"

#define CU(what)                                                                                 \
  do {                                                                                           \
    CUresult result_ = (what);                                                                   \
    if (result_ != CUDA_SUCCESS) steplog_fail("line %d: %s: %d", __LINE__, #what, (int)result_); \
  } while (0)

__global__ void add(uint32_t* v, uint32_t with) { *v = *v * 3 + with; }

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  DeviceNonce nonce;
  cudaStream_t s, t;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  uint32_t* v;
  volatile uint32_t* words;
  uint32_t* device_words;
  CALL(cudaMalloc(&v, 64));
  CALL(cudaMemset(v, 0, 64));
  CALL(cudaMalloc(&device_words, 64));
  CALL(cudaMemset(device_words, 0, 64));
  CALL(cudaHostAlloc(const_cast<uint32_t**>(&words), 64, cudaHostAllocMapped));
  for (int i = 0; i < 16; i++) words[i] = 0;
  CALL(cudaDeviceSynchronize());
  uint32_t model[2] = {};
  while (steplog_done < steplog_steps) {
    const uint32_t step = static_cast<uint32_t>(steplog_done);
    CU(cuStreamWaitValue32(s, reinterpret_cast<CUdeviceptr>(words), step + 1, CU_STREAM_WAIT_VALUE_EQ));
    add<<<1, 1, 0, s>>>(v, step);
    model[0] = model[0] * 3 + step;
    CU(cuStreamWriteValue32(s, reinterpret_cast<CUdeviceptr>(device_words), step + 7, 0));
    CU(cuStreamWaitValue32(t, reinterpret_cast<CUdeviceptr>(device_words), step + 7,
                           CU_STREAM_WAIT_VALUE_GEQ));
    CUstreamBatchMemOpParams ops[2] = {};
    ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = reinterpret_cast<CUdeviceptr>(device_words + 1);
    ops[0].writeValue.value = step * 5;
    ops[1].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[1].writeValue.address = reinterpret_cast<CUdeviceptr>(const_cast<uint32_t*>(words) + 2);
    ops[1].writeValue.value = step * 7;
    CU(cuStreamBatchMemOp(t, 2, ops, 0));
    add<<<1, 1, 0, t>>>(v + 1, step + 1);
    model[1] = model[1] * 3 + step + 1;
    cudaStream_t passing;
    cudaEvent_t event;
    CALL(cudaStreamCreateWithFlags(&passing, cudaStreamNonBlocking));
    CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CALL(cudaEventRecord(event, t));
    CALL(cudaStreamWaitEvent(passing, event, 0));
    add<<<1, 1, 0, passing>>>(v + 2, step);
    CALL(cudaEventRecord(event, passing));
    CALL(cudaStreamWaitEvent(s, event, 0));
    CALL(cudaStreamDestroy(passing));  // while its work is pending
    CALL(cudaEventDestroy(event));
    EXPECT(cudaStreamQuery(s) == cudaErrorNotReady);
    const long delay = step % 6 == 5 ? 300000 : step % 2 ? 0 : steplog_pace / 2;
    if (step % 3 == 0) {
      std::thread writer([&] {
        steplog_spin(delay);
        words[0] = step + 1;
      });
      CALL(cudaStreamSynchronize(t));
      writer.join();
    } else {
      steplog_spin(delay);
      words[0] = step + 1;
    }
    LAUNCHED();
    CALL(cudaStreamSynchronize(s));
    CALL(cudaStreamSynchronize(t));
    uint32_t got[3], word;
    CALL(cudaMemcpy(got, v, 12, cudaMemcpyDeviceToHost));
    CALL(cudaMemcpy(&word, device_words + 1, 4, cudaMemcpyDeviceToHost));
    EXPECT(got[0] == model[0] && got[1] == model[1] && word == step * 5 && words[2] == step * 7);
    steplog_mix(got[0]);
    steplog_mix(got[2]);
    steplog_step();
  }
  nonce.back();
  steplog_ok();
  return 0;
}
