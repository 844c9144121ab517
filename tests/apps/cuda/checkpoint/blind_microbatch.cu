// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: build=long ranks=2,4 ways=static
// A pipeline that is never empty: each rank is a stage; at each tick it receives a microbatch from the
// previous stage and a gradient from the next one, by groups of sends and receives over two streams, and
// keeps activations in a ring until their gradient arrives. Later steps wait for, query and measure against
// an event of the first step.
#include "nccl_calls.h"

constexpr int kValues = 200, kTicks = 5, kMostRanks = 4, kRing = 2 * kMostRanks;
using Values = std::vector<uint32_t>;

__host__ __device__ uint32_t drawn(uint32_t batch, uint32_t i) {
  uint32_t v = batch * 977u + i * 31u + 5u;
  return (v ^ v >> 13) * 2246822519u;
}
__host__ __device__ uint32_t onward(uint32_t a, uint32_t w) { return (a ^ a >> 16) * (2 * w + 1) + 77u; }
__host__ __device__ uint32_t backward(uint32_t g, uint32_t stash, uint32_t w) { return g * 5u + (stash ^ w); }

__global__ void draw(uint32_t* to, uint32_t batch) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) to[i] = drawn(batch, static_cast<uint32_t>(i));
}
__global__ void forward(const uint32_t* in, uint32_t* stash, uint32_t* out, const uint32_t* w) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) stash[i] = in[i], out[i] = onward(in[i], w[i]);
}
__global__ void back(const uint32_t* in, const uint32_t* stash, uint32_t* out, const uint32_t* w,
                     uint32_t* sum) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x)
    sum[i] += in[i] * stash[i], out[i] = backward(in[i], stash[i], w[i]);
}
__global__ void update(uint32_t* w, uint32_t* sum) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) w[i] ^= sum[i] >> 3, sum[i] = 0;
}

struct Stage {  // the expected values, computed on the host
  Values w, sum, act, grad, stash[kRing], act_before, grad_before;
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  EXPECT(ranks <= kMostRanks);
  choose_device();
  ncclComm_t comm = communicator(MPI_COMM_WORLD), other = communicator(MPI_COMM_WORLD);
  cudaStream_t f, b;
  cudaEvent_t first, second, now, f_done, b_done;
  CALL(cudaStreamCreateWithFlags(&f, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  for (cudaEvent_t* e : {&first, &second, &now}) CALL(cudaEventCreate(e));
  for (cudaEvent_t* e : {&f_done, &b_done}) CALL(cudaEventCreateWithFlags(e, cudaEventDisableTiming));
  {
    DeviceNonce nonce;
    std::vector<Stage> all(ranks);
    for (int r = 0; r < ranks; r++) {
      Stage& s = all[r];
      s.w.resize(kValues);
      for (int i = 0; i < kValues; i++) s.w[i] = static_cast<uint32_t>(r * 100 + i);
      s.sum = s.act = s.grad = Values(kValues, 0);
      for (Values& one : s.stash) one = s.sum;
    }
    const Values zero(kValues, 0);
    Buffer<uint32_t> w(all[rank].w), sum(zero), act(zero), grad(zero), act_in(zero), grad_in(zero),
        ring(Values(kValues * kRing, 0));
    float between = -1, elapsed = 0;
    uint32_t tick = 0;
    while (steplog_done < steplog_steps) {
      if (steplog_done == 0) {
        CALL(cudaEventRecord(first, f));
        draw<<<1, 64, 0, f>>>(act_in, 0);
        CALL(cudaEventRecord(second, f));
        CALL(cudaEventSynchronize(second));
        CALL(cudaEventElapsedTime(&between, first, second));
      }
      for (int k = 0; k < kTicks; k++, tick++) {
        const int mine = static_cast<int>(tick) - rank;                        // goes forward
        const int returned = static_cast<int>(tick) - (2 * ranks - 1 - rank);  // its gradient comes back
        CALL(cudaStreamWaitEvent(b, first, 0));
        CALL(cudaStreamWaitEvent(f, b_done, 0));  // it reads what the next tick overwrites
        CALL(cudaStreamWaitEvent(b, f_done, 0));
        ncclComm_t of_f = tick % 2 ? other : comm;
        NCCL(ncclGroupStart());
        if (rank > 0) NCCL(ncclRecv(act_in, kValues, ncclUint32, rank - 1, of_f, f));
        if (rank < ranks - 1) NCCL(ncclSend(act, kValues, ncclUint32, rank + 1, of_f, f));
        if (tick % 2) {  // else one group over both streams
          NCCL(ncclGroupEnd());
          NCCL(ncclGroupStart());
        }
        if (rank < ranks - 1) NCCL(ncclRecv(grad_in, kValues, ncclUint32, rank + 1, comm, b));
        if (rank > 0) NCCL(ncclSend(grad, kValues, ncclUint32, rank - 1, comm, b));
        NCCL(ncclGroupEnd());
        if (rank == 0) draw<<<1, 64, 0, f>>>(act_in, static_cast<uint32_t>(mine));
        if (rank == ranks - 1)
          CALL(
              cudaMemcpyAsync(grad_in, act, kValues * 4, cudaMemcpyDeviceToDevice, b));  // last tick's
        CALL(cudaEventRecord(b_done, b));
        CALL(cudaStreamWaitEvent(f, b_done, 0));
        if (mine >= 0) forward<<<1, 64, 0, f>>>(act_in, ring + mine % kRing * kValues, act, w);
        CALL(cudaEventRecord(f_done, f));
        if (returned >= 0) back<<<1, 64, 0, b>>>(grad_in, ring + returned % kRing * kValues, grad, w, sum);
        if (k == kTicks - 1) {
          CALL(cudaStreamWaitEvent(b, f_done, 0));
          update<<<1, 64, 0, b>>>(w, sum);
        }
        CALL(cudaEventRecord(b_done, b));
        for (Stage& s : all) s.act_before = s.act, s.grad_before = s.grad;
        for (int r = 0; r < ranks; r++) {
          Stage& s = all[r];
          const int m = static_cast<int>(tick) - r, n = static_cast<int>(tick) - (2 * ranks - 1 - r);
          for (int i = 0; i < kValues; i++) {
            const uint32_t in = r ? all[r - 1].act_before[i] : drawn(static_cast<uint32_t>(m), i);
            const uint32_t g = r < ranks - 1 ? all[r + 1].grad_before[i] : s.act_before[i];
            if (m >= 0) s.stash[m % kRing][i] = in, s.act[i] = onward(in, s.w[i]);
            if (n >= 0) {
              const uint32_t kept = s.stash[n % kRing][i];
              s.sum[i] += g * kept, s.grad[i] = backward(g, kept, s.w[i]);
            }
            if (k == kTicks - 1) s.w[i] ^= s.sum[i] >> 3, s.sum[i] = 0;
          }
        }
      }
      LAUNCHED();
      float again = -2, later = -2;
      CALL(cudaEventQuery(first));
      CALL(cudaEventElapsedTime(&again, first, second));
      EXPECT(again == between);     // neither was recorded again
      if (steplog_done % 3 == 2) {  // at other steps the host runs ahead
        CALL(cudaEventRecord(now, b));
        CALL(cudaEventSynchronize(now));
        CALL(cudaEventElapsedTime(&later, first, now));
        if (!(later >= elapsed)) steplog_fail("%f ms since the first step, were %f", later, elapsed);
        elapsed = later;
        CALL(cudaStreamSynchronize(f));
        const Stage& s = all[rank];
        EXPECT(w.host() == s.w && act.host() == s.act && grad.host() == s.grad);
        Values stashed = ring.host();
        for (int k = 0; k < kRing; k++)
          EXPECT(!memcmp(&stashed[k * kValues], s.stash[k].data(), kValues * 4));
        mix(stashed);
      }
      steplog_step();
    }
    CALL(cudaDeviceSynchronize());
    EXPECT(w.host() == all[rank].w);
    mix(w.host());
    nonce.back();
  }
  NCCL(ncclCommDestroy(other));
  NCCL(ncclCommDestroy(comm));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
