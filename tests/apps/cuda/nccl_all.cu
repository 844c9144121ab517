// nvcc: -lnccl
// run: devices=4
// One process with four devices: ncclCommInitAll, groups, all collectives, send and receive.
#include <nccl.h>

#include "check.h"

#define NCCL(what)                                                                                   \
  do {                                                                                               \
    ncclResult_t result = (what);                                                                    \
    if (result != ncclSuccess) fail("line %d: %s: %s", __LINE__, #what, ncclGetErrorString(result)); \
  } while (0)

constexpr int kDevices = 4, kCount = 1000;

struct Rank {
  float *in, *out;
  cudaStream_t stream;
};

int main() {
  ncclComm_t comms[kDevices];
  Rank ranks[kDevices];
  NCCL(ncclCommInitAll(comms, kDevices, nullptr));
  for (int d = 0; d < kDevices; d++) {
    int count, rank, device;
    NCCL(ncclCommCount(comms[d], &count));
    NCCL(ncclCommUserRank(comms[d], &rank));
    NCCL(ncclCommCuDevice(comms[d], &device));
    EXPECT(count == kDevices && rank == d && device == d);
    CALL(cudaSetDevice(d));
    CALL(cudaMalloc(&ranks[d].in, kDevices * kCount * sizeof(float)));
    CALL(cudaMalloc(&ranks[d].out, kDevices * kCount * sizeof(float)));
    CALL(cudaStreamCreate(&ranks[d].stream));
  }
  // Runs one collective: fills buffers, calls it for every rank in a group, reads the results.
  auto run = [&](auto call, auto expected, const char* what) {
    for (int d = 0; d < kDevices; d++) {
      std::vector<float> values(kDevices * kCount);
      for (size_t i = 0; i < values.size(); i++) values[i] = float(d * 100 + i % 50);
      CALL(cudaSetDevice(d));
      CALL(cudaMemcpy(ranks[d].in, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
      CALL(cudaMemset(ranks[d].out, 0, values.size() * sizeof(float)));
      CALL(cudaDeviceSynchronize());
    }
    NCCL(ncclGroupStart());
    for (int d = 0; d < kDevices; d++) call(d, ranks[d], comms[d]);
    NCCL(ncclGroupEnd());
    for (int d = 0; d < kDevices; d++) {
      std::vector<float> got(kDevices * kCount), want(kDevices * kCount);
      CALL(cudaSetDevice(d));
      CALL(cudaStreamSynchronize(ranks[d].stream));
      CALL(cudaMemcpy(got.data(), ranks[d].out, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
      for (size_t i = 0; i < got.size(); i++) want[i] = expected(d, i);
      expect_same(got, want, what);
      digest(got);
    }
  };
  auto value = [](int rank, size_t i) { return float(rank * 100 + i % 50); };
  auto all = [&](size_t i) { return value(0, i) + value(1, i) + value(2, i) + value(3, i); };
  run([](int, Rank& r,
         ncclComm_t c) { NCCL(ncclAllReduce(r.in, r.out, kCount, ncclFloat, ncclSum, c, r.stream)); },
      [&](int, size_t i) { return i < kCount ? all(i) : 0; }, "allreduce");
  run([](int, Rank& r,
         ncclComm_t c) { NCCL(ncclAllReduce(r.in, r.out, kCount, ncclFloat, ncclMax, c, r.stream)); },
      [&](int, size_t i) { return i < kCount ? value(3, i) : 0; }, "maximum");
  run([](int, Rank& r,
         ncclComm_t c) { NCCL(ncclAllReduce(r.in, r.out, kCount, ncclFloat, ncclAvg, c, r.stream)); },
      [&](int, size_t i) { return i < kCount ? all(i) / 4 : 0; }, "average");
  run([](int, Rank& r,
         ncclComm_t c) { NCCL(ncclReduce(r.in, r.out, kCount, ncclFloat, ncclSum, 2, c, r.stream)); },
      [&](int d, size_t i) { return d == 2 && i < kCount ? all(i) : 0; }, "reduce");
  run([](int, Rank& r, ncclComm_t c) { NCCL(ncclBroadcast(r.in, r.out, kCount, ncclFloat, 1, c, r.stream)); },
      [&](int, size_t i) { return i < kCount ? value(1, i) : 0; }, "broadcast");
  run([](int, Rank& r, ncclComm_t c) { NCCL(ncclAllGather(r.in, r.out, kCount, ncclFloat, c, r.stream)); },
      [&](int, size_t i) { return value(i / kCount, i % kCount); }, "allgather");
  run([](int, Rank& r,
         ncclComm_t c) { NCCL(ncclReduceScatter(r.in, r.out, kCount, ncclFloat, ncclSum, c, r.stream)); },
      [&](int d, size_t i) { return i < kCount ? all(d * kCount + i) : 0; }, "reducescatter");
  run(
      [](int d, Rank& r, ncclComm_t c) {  // alltoall: every rank sends to every other
        for (int p = 0; p < kDevices; p++) {
          NCCL(ncclSend(r.in + p * kCount, kCount, ncclFloat, p, c, r.stream));
          NCCL(ncclRecv(r.out + p * kCount, kCount, ncclFloat, p, c, r.stream));
        }
        (void)d;
      },
      [&](int d, size_t i) { return value(i / kCount, d * kCount + i % kCount); }, "send and receive");
  for (int d = 0; d < kDevices; d++) {
    CALL(cudaSetDevice(d));
    CALL(cudaFree(ranks[d].in));
    CALL(cudaFree(ranks[d].out));
    CALL(cudaStreamDestroy(ranks[d].stream));
    NCCL(ncclCommDestroy(comms[d]));
  }
  return finish();
}
