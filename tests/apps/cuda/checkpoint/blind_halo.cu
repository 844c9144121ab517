// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: build=long ranks=2,4 ways=static
// A stencil. Its halos travel by grouped sends and receives on their own stream while another stream computes
// the inner rows; events order the two. Several time steps are launched ahead of the host, and the ranks take
// turns at being late.
#include "nccl_calls.h"

constexpr int kWidth = 96, kRows = 24, kAhead = 6;  // rows per rank, without its two halos

__global__ void rows(const uint32_t* from, uint32_t* to, int first, int last, int stride, uint32_t step) {
  for (int r = first + static_cast<int>(blockIdx.x) * stride; r <= last;
       r += stride * static_cast<int>(gridDim.x))
    for (int c = threadIdx.x; c < kWidth; c += blockDim.x) {
      const int left = (c + kWidth - 1) % kWidth, right = (c + 1) % kWidth;
      uint32_t v = from[(r - 1) * kWidth + c] + 3 * from[(r + 1) * kWidth + c] + 5 * from[r * kWidth + left] +
                   7 * from[r * kWidth + right];
      to[r * kWidth + c] = (v ^ step) * 2654435761u ^ from[r * kWidth + c] >> 7;
    }
}

static void host_step(std::vector<uint32_t>* all, int total, uint32_t step) {
  std::vector<uint32_t> next(all->size());
  for (int r = 0; r < total; r++)
    for (int c = 0; c < kWidth; c++) {
      const int up = (r + total - 1) % total, down = (r + 1) % total;
      auto& f = *all;
      uint32_t v = f[up * kWidth + c] + 3 * f[down * kWidth + c] +
                   5 * f[r * kWidth + (c + kWidth - 1) % kWidth] + 7 * f[r * kWidth + (c + 1) % kWidth];
      next[r * kWidth + c] = (v ^ step) * 2654435761u ^ f[r * kWidth + c] >> 7;
    }
  all->swap(next);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  ncclComm_t comm = communicator(MPI_COMM_WORLD);
  cudaStream_t inside, border;
  CALL(cudaStreamCreateWithFlags(&inside, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&border, cudaStreamNonBlocking));
  cudaEvent_t computed, exchanged;
  CALL(cudaEventCreateWithFlags(&computed, cudaEventDisableTiming));
  CALL(cudaEventCreateWithFlags(&exchanged, cudaEventDisableTiming));
  {
    DeviceNonce nonce;
    const int total = ranks * kRows;
    std::vector<uint32_t> all(total * kWidth);  // the expected values of all ranks
    uint64_t state = 11;
    for (auto& v : all) v = static_cast<uint32_t>(steplog_random(&state));
    std::vector<uint32_t> mine((kRows + 2) * kWidth);
    for (int r = -1; r <= kRows; r++)
      memcpy(&mine[(r + 1) * kWidth], &all[(rank * kRows + r + total) % total * kWidth], kWidth * 4);
    Buffer<uint32_t> a(mine), b(mine);
    uint32_t *now = a, *next = b;
    const int up = (rank + ranks - 1) % ranks, down = (rank + 1) % ranks;
    uint32_t time = 0;
    CALL(cudaEventRecord(computed, inside));
    CALL(cudaEventRecord(exchanged, border));
    while (steplog_done < steplog_steps) {
      if (steplog_done % ranks == rank) steplog_spin(steplog_pace);
      for (int i = 0; i < kAhead; i++, time++) {
        CALL(cudaStreamWaitEvent(border, computed, 0));
        CALL(cudaStreamWaitEvent(inside, exchanged, 0));
        rows<<<2, 64, 0, border>>>(now, next, 1, kRows, kRows - 1, time);  // the first row and the last
        rows<<<3, 32, 0, inside>>>(now, next, 2, kRows - 1, 1, time);
        CALL(cudaEventRecord(computed, inside));
        NCCL(ncclGroupStart());
        // With two ranks, both messages go to the same neighbour: send in the order in which it receives.
        NCCL(ncclSend(next + kWidth, kWidth, ncclUint32, up, comm, border));
        NCCL(ncclRecv(next + (kRows + 1) * kWidth, kWidth, ncclUint32, down, comm, border));
        NCCL(ncclSend(next + kRows * kWidth, kWidth, ncclUint32, down, comm, border));
        NCCL(ncclRecv(next, kWidth, ncclUint32, up, comm, border));
        NCCL(ncclGroupEnd());
        CALL(cudaEventRecord(exchanged, border));
        std::swap(now, next);
        host_step(&all, total, time);
      }
      LAUNCHED();
      if (steplog_done % 3 == 2) {
        CALL(cudaStreamSynchronize(border));
        CALL(cudaStreamSynchronize(inside));
        std::vector<uint32_t> got(mine.size());
        CALL(cudaMemcpy(got.data(), now, got.size() * 4, cudaMemcpyDeviceToHost));
        for (int r = -1; r <= kRows; r++)
          EXPECT(
              !memcmp(&got[(r + 1) * kWidth], &all[(rank * kRows + r + total) % total * kWidth], kWidth * 4));
        mix(got);
        if (steplog_done % 2) {
          uint64_t low, high, sum = 0;
          for (int i = kWidth; i < (kRows + 1) * kWidth; i++) sum += got[i];
          MPI_Allreduce(&sum, &low, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
          high = 0;
          for (auto v : all) high += v;
          EXPECT(low == high);
        }
      }
      steplog_step();
    }
    CALL(cudaDeviceSynchronize());
    nonce.back();
  }
  CALL(cudaEventDestroy(computed));
  CALL(cudaEventDestroy(exchanged));
  CALL(cudaStreamDestroy(inside));
  CALL(cudaStreamDestroy(border));
  NCCL(ncclCommDestroy(comm));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
