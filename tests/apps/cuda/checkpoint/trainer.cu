// nvcc: -std=c++17 -lnccl -lcublas -Xcompiler -Wno-cast-function-type
// run: ranks=2,4 ways=static,shared
// Data-parallel training as users write it: started by MPI, which distributes NCCL's id; one device per rank,
// cuBLAS products, own kernels forward and backward, NCCL's all-reduce of the gradients. Batches are in
// pinned memory and are copied on their own stream while the previous one is used; learning rates and losses
// are in managed memory, written by host and device. Every sum has a fixed order: the weights of each step
// are the same in every run.
// Two words in pinned memory say what the device is doing; the log has their address (`at
// device-words-ADDRESS`). First word: 1 a kernel, 2 the all-reduce; second word: 1 a copy.
// --communicators N: N more communicators, half of them by a split; each step adds up the losses on one.
#include <cublas_v2.h>

#include <cmath>

#include "nccl_calls.h"

#define CUBLAS(what)                                                                 \
  do {                                                                               \
    cublasStatus_t status = (what);                                                  \
    if (status != CUBLAS_STATUS_SUCCESS)                                             \
      steplog_fail("line %d: %s: %s", __LINE__, #what, cublasGetStatusName(status)); \
  } while (0)

constexpr int kIn = 64, kHidden = 48, kOut = 10, kBatch = 32, kBatches = 8;
constexpr int kFirst = 0, kSecond = kIn * kHidden, kParameters = kSecond + kHidden * kOut;
enum { kNothing, kKernel, kCollective };

__device__ unsigned steps_on_the_device;
__constant__ float decay = 0.9f;

__global__ void mark(volatile unsigned* word, unsigned what) { *word = what; }

__global__ void relu(float* values, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = fmaxf(values[i], 0.0f);
}

// error = softmax(scores) - (1 for the label's class). One thread per sample; the losses are summed in order.
__global__ void softmax_error(float* scores, const float* labels, float* losses) {
  int b = threadIdx.x;
  float* s = scores + b * kOut;
  float top = s[0], sum = 0;
  for (int c = 1; c < kOut; c++) top = fmaxf(top, s[c]);
  for (int c = 0; c < kOut; c++) sum += s[c] = expf(s[c] - top);
  int label = static_cast<int>(labels[b]);
  losses[b] = -logf(fmaxf(s[label] / sum, 1e-30f));
  for (int c = 0; c < kOut; c++) s[c] = s[c] / sum - (c == label ? 1.0f : 0.0f);
}

__global__ void relu_back(float* delta, const float* activation, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && activation[i] <= 0) delta[i] = 0;
}

__global__ void update(float* weights, float* velocity, const float* gradient, int ranks, const float* losses,
                       const float* schedule, float* history, int step) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0) {
    steps_on_the_device++;
    float sum = 0;
    for (int b = 0; b < kBatch; b++) sum += losses[b];
    history[step] = sum / kBatch;
  }
  if (i >= kParameters) return;
  float v = decay * velocity[i] - schedule[step % 16] / (kBatch * ranks) * gradient[i];
  velocity[i] = v;
  weights[i] += v;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  ncclComm_t comm = communicator(MPI_COMM_WORLD);
  std::vector<ncclComm_t> more;
  for (int i = 1; i + 1 < argc; i++)
    if (!strcmp(argv[i], "--communicators")) more.resize(static_cast<size_t>(atoi(argv[i + 1])));
  for (size_t i = 0; i < more.size(); i++)
    if (i % 2)
      NCCL(ncclCommSplit(more[i - 1], 0, rank, &more[i], nullptr));
    else
      more[i] = communicator(MPI_COMM_WORLD);
  cudaStream_t compute, copy;
  int least, greatest;
  CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CALL(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithPriority(&copy, cudaStreamNonBlocking, greatest));
  cudaEvent_t copied[2], used[2];
  for (int i = 0; i < 2; i++) {
    CALL(cudaEventCreateWithFlags(&copied[i], cudaEventDisableTiming));
    CALL(cudaEventCreateWithFlags(&used[i], cudaEventDisableTiming));
  }
  cublasHandle_t blas;
  CUBLAS(cublasCreate(&blas));
  CUBLAS(cublasSetStream(blas, compute));
  CUBLAS(cublasSetMathMode(blas, CUBLAS_PEDANTIC_MATH));
  {
    DeviceNonce nonce;
    constexpr size_t kSample = kIn + 1;  // plus the label
    float *batches, *history, *schedule;
    volatile unsigned* words;
    CALL(cudaMallocHost(&batches, kBatches * kBatch * kSample * sizeof(float)));
    CALL(cudaHostAlloc(const_cast<unsigned**>(&words), 4096, cudaHostAllocMapped));
    CALL(cudaMallocManaged(&schedule, 16 * sizeof(float)));
    CALL(cudaMallocManaged(&history, static_cast<size_t>(steplog_steps) * sizeof(float)));
    words[0] = words[1] = kNothing;
    char where[64];
    snprintf(where, sizeof where, "device-words-%lx", reinterpret_cast<unsigned long>(words));
    steplog_at(where);
    uint64_t data = 77 + static_cast<uint64_t>(rank), start = 5;
    auto number = [](uint64_t* state) {
      return static_cast<float>(steplog_random(state) >> 40) / 8388608.0f - 1;
    };
    for (int b = 0; b < kBatches; b++) {
      float* x = batches + b * kBatch * kSample;
      float* labels = x + kBatch * kIn;
      for (int s = 0; s < kBatch; s++) {
        labels[s] = static_cast<float>(steplog_random(&data) % kOut);
        for (int i = 0; i < kIn; i++)
          x[s * kIn + i] = 0.3f * number(&data) + (i % kOut == static_cast<int>(labels[s]) ? 0.5f : 0);
      }
    }
    for (int i = 0; i < 16; i++) schedule[i] = 0.02f;
    std::vector<float> initial(kParameters);
    for (float& w : initial) w = 0.2f * number(&start);
    Buffer<float> weights(initial), velocity(std::vector<float>(kParameters, 0)), gradient(kParameters);
    Buffer<float> slots(2 * kBatch * kSample), hidden(kBatch * kHidden), delta(kBatch * kHidden),
        scores(kBatch * kOut), losses(kBatch);
    const float one = 1, zero = 0;
    unsigned* device_words;
    CALL(cudaHostGetDevicePointer(reinterpret_cast<void**>(&device_words), const_cast<unsigned*>(words), 0));
    auto fetch = [&](long step) {
      int slot = static_cast<int>(step % 2);
      CALL(cudaStreamWaitEvent(copy, used[slot], 0));
      mark<<<1, 1, 0, copy>>>(device_words + 1, 1);
      CALL(cudaMemcpyAsync(slots + slot * kBatch * kSample, batches + step % kBatches * kBatch * kSample,
                           kBatch * kSample * sizeof(float), cudaMemcpyHostToDevice, copy));
      mark<<<1, 1, 0, copy>>>(device_words + 1, kNothing);
      CALL(cudaEventRecord(copied[slot], copy));
    };
    fetch(0);
    while (steplog_done < steplog_steps) {
      const long step = steplog_done;
      const int slot = static_cast<int>(step % 2);
      const float *x = slots + slot * kBatch * kSample, *labels = x + kBatch * kIn;
      steplog_at("launch");
      CALL(cudaStreamWaitEvent(compute, copied[slot], 0));
      mark<<<1, 1, 0, compute>>>(device_words, kKernel);
      // cuBLAS is column-major: an array [samples][features] here is a (features x samples) matrix there.
      CUBLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kHidden, kBatch, kIn, &one, weights + kFirst,
                         kHidden, x, kIn, &zero, hidden, kHidden));
      relu<<<(kBatch * kHidden + 127) / 128, 128, 0, compute>>>(hidden, kBatch * kHidden);
      CUBLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kOut, kBatch, kHidden, &one, weights + kSecond, kOut,
                         hidden, kHidden, &zero, scores, kOut));
      softmax_error<<<1, kBatch, 0, compute>>>(scores, labels, losses);
      CUBLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kOut, kHidden, kBatch, &one, scores, kOut, hidden,
                         kHidden, &zero, gradient + kSecond, kOut));
      CUBLAS(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, kHidden, kBatch, kOut, &one, weights + kSecond, kOut,
                         scores, kOut, &zero, delta, kHidden));
      relu_back<<<(kBatch * kHidden + 127) / 128, 128, 0, compute>>>(delta, hidden, kBatch * kHidden);
      CUBLAS(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kHidden, kIn, kBatch, &one, delta, kHidden, x, kIn,
                         &zero, gradient + kFirst, kHidden));
      CALL(cudaEventRecord(used[slot], compute));
      mark<<<1, 1, 0, compute>>>(device_words, kCollective);
      if (step % ranks == rank) {  // the other ranks wait for this one inside the all-reduce
        CALL(cudaStreamSynchronize(compute));
        steplog_spin(steplog_pace / 2);
      }
      NCCL(ncclAllReduce(gradient, gradient, kParameters, ncclFloat32, ncclSum, comm, compute));
      if (!more.empty())
        NCCL(ncclAllReduce(losses, losses, kBatch, ncclFloat32, ncclSum, more[steplog_done % more.size()],
                           compute));
      mark<<<1, 1, 0, compute>>>(device_words, kKernel);
      update<<<(kParameters + 127) / 128, 128, 0, compute>>>(weights, velocity, gradient, ranks, losses,
                                                             schedule, history, static_cast<int>(step));
      mark<<<1, 1, 0, compute>>>(device_words, kNothing);
      LAUNCHED();
      if (step + 1 < steplog_steps) fetch(step + 1);
      steplog_at("wait");
      CALL(cudaStreamSynchronize(compute));
      unsigned counted;
      CALL(cudaMemcpyFromSymbol(&counted, steps_on_the_device, sizeof counted));
      EXPECT(counted == step + 1);
      EXPECT(std::isfinite(history[step]) && history[step] > 0);
      schedule[step % 16] *= 0.99f;  // written by the host; the kernel reads it 16 steps later
      if (step % 8 == 7) {           // MPI in between: all ranks have the same weights
        uint64_t hash = 0, low, high;
        for (float w : weights.host()) {
          uint32_t bits;
          memcpy(&bits, &w, sizeof bits);
          hash = (hash ^ bits) * 0x100000001b3u;
        }
        MPI_Allreduce(&hash, &low, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(&hash, &high, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
        EXPECT(low == high);
      }
      steplog_mix_bytes(&history[step], sizeof(float));
      steplog_step();
    }
    mix(weights.host());
    mix(velocity.host());
    nonce.back();
    CALL(cudaFree(history));
    CALL(cudaFree(schedule));
    CALL(cudaFreeHost(batches));
    CALL(cudaFreeHost(const_cast<unsigned*>(words)));
  }
  CUBLAS(cublasDestroy(blas));
  for (int i = 0; i < 2; i++) {
    CALL(cudaEventDestroy(copied[i]));
    CALL(cudaEventDestroy(used[i]));
  }
  CALL(cudaStreamDestroy(copy));
  CALL(cudaStreamDestroy(compute));
  for (ncclComm_t one : more) NCCL(ncclCommDestroy(one));
  NCCL(ncclCommDestroy(comm));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
