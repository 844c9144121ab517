// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: build=long ways=static,shared
// One process, two devices, no MPI: ncclCommInitAll, groups of one thread over both devices, kernels that
// follow pointers into the other device's memory, peer copies, events of one device that streams of the other
// wait for, a device's default stream together with others. A communicator of the second device, made while
// the first is current, survives a reset of the first.
#include <nccl.h>

#include "saved.h"

#define NCCL(what)                                                                       \
  do {                                                                                   \
    ncclResult_t nccl_result = (what);                                                   \
    if (nccl_result != ncclSuccess)                                                      \
      steplog_fail("line %d: %s: %s", __LINE__, #what, ncclGetErrorString(nccl_result)); \
  } while (0)

constexpr int kValues = 700;
struct Link {
  Link* next;
  uint32_t value;
};
__device__ uint32_t steps_here;

__global__ void follow(Link* first, int n, uint32_t add, uint32_t* sum) {
  uint32_t total = 0;
  Link* at = first;
  for (int i = 0; i < n; i++, at = at->next) total = total * 31 + (at->value += add);
  *sum = total;
  steps_here++;
}
__global__ void stir(uint32_t* v, uint32_t with) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) v[i] = (v[i] + with) * 2654435761u ^ i;
}

int main(int argc, char** argv) {
  steplog_open(argc, argv, -1);
  int count, can01, can10;
  CALL(cudaGetDeviceCount(&count));
  EXPECT(count >= 2);
  CALL(cudaDeviceCanAccessPeer(&can01, 0, 1));
  CALL(cudaDeviceCanAccessPeer(&can10, 1, 0));
  EXPECT(can01 && can10);
  ncclComm_t comms[2], alone;
  const int second = 1;
  NCCL(ncclCommInitAll(&alone, 1, &second));
  CALL(cudaSetDevice(0));
  CALL(cudaDeviceReset());
  NCCL(ncclCommInitAll(comms, 2, nullptr));
  Link* links[2];
  uint32_t *values[2], *sums[2], *gathered[2];
  cudaStream_t streams[2];
  cudaEvent_t events[2];
  DeviceNonce nonce;
  for (int d = 0; d < 2; d++) {
    CALL(cudaSetDevice(d));
    CALL(cudaDeviceEnablePeerAccess(1 - d, 0));
    CALL(cudaMalloc(&links[d], 64 * sizeof(Link)));
    CALL(cudaMalloc(&values[d], kValues * 4));
    CALL(cudaMalloc(&gathered[d], 2 * kValues * 4));
    CALL(cudaMemset(values[d], d, kValues * 4));
    CALL(cudaMalloc(&sums[d], 4));
    CALL(cudaStreamCreateWithFlags(&streams[d], d ? cudaStreamNonBlocking : cudaStreamDefault));
    CALL(cudaEventCreateWithFlags(&events[d], d ? cudaEventDisableTiming : cudaEventBlockingSync));
    CALL(cudaDeviceSynchronize());
  }
  Link host[2][64];
  for (int d = 0; d < 2; d++)
    for (int i = 0; i < 64; i++)
      host[d][i] = {(i % 2 ? links[d] : links[1 - d]) + (i + 1) % 64, static_cast<uint32_t>(d * 100 + i)};
  for (int d = 0; d < 2; d++) CALL(cudaMemcpy(links[d], host[d], sizeof host[d], cudaMemcpyHostToDevice));
  CALL(cudaDeviceSynchronize());
  uint32_t model[2][kValues];
  for (int d = 0; d < 2; d++) memset(model[d], d, sizeof model[d]);
  while (steplog_done < steplog_steps) {
    const uint32_t step = static_cast<uint32_t>(steplog_done);
    for (int d = 0; d < 2; d++) {
      CALL(cudaSetDevice(d));
      follow<<<1, 1, 0, streams[d]>>>(links[d], 64, step + d, sums[d]);
      CALL(cudaEventRecord(events[d], streams[d]));
      CALL(cudaStreamWaitEvent(streams[1 - d], events[d], 0));
    }
    for (int d = 0; d < 2; d++) {  // the host model runs the devices one after the other
      CALL(cudaSetDevice(d));
      stir<<<1, 128, 0, streams[d]>>>(values[d], step);
      for (int i = 0; i < kValues; i++) model[d][i] = (model[d][i] + step) * 2654435761u ^ i;
    }
    NCCL(ncclGroupStart());
    for (int d = 0; d < 2; d++)
      NCCL(ncclAllGather(values[d], gathered[d], kValues, ncclUint32, comms[d], streams[d]));
    NCCL(ncclGroupEnd());
    NCCL(ncclGroupStart());
    for (int d = 1; d >= 0; d--) {
      NCCL(ncclSend(values[d], 100, ncclUint32, 1 - d, comms[d], streams[d]));
      NCCL(ncclRecv(values[d] + 500, 100, ncclUint32, 1 - d, comms[d], streams[d]));
    }
    NCCL(ncclGroupEnd());
    std::vector<uint32_t> both(2 * kValues);
    memcpy(both.data(), model[0], sizeof model[0]);
    memcpy(both.data() + kValues, model[1], sizeof model[1]);
    memcpy(model[0] + 500, both.data() + kValues, 400);
    memcpy(model[1] + 500, both.data(), 400);
    CALL(cudaMemcpyPeerAsync(values[1] + 200, 1, values[0] + 300, 0, 100 * 4, streams[0]));
    memcpy(model[1] + 200, model[0] + 300, 400);
    CALL(cudaSetDevice(static_cast<int>(step % 2)));  // either device may be current at the end of a step
    for (int d = 1; d >= 0; d--) CALL(cudaStreamSynchronize(streams[d]));
    for (int d = 0; d < 2; d++) {
      int at, there;
      std::vector<uint32_t> got(2 * kValues), now(kValues);
      CALL(cudaGetDevice(&at));
      EXPECT(at == static_cast<int>(step % 2));
      CALL(cudaMemcpy(got.data(), gathered[d], got.size() * 4, cudaMemcpyDefault));
      EXPECT(got == both);
      CALL(cudaMemcpy(now.data(), values[d], now.size() * 4, cudaMemcpyDefault));
      EXPECT(!memcmp(now.data(), model[d], sizeof model[d]));
      NCCL(ncclCommCuDevice(comms[d], &there));
      EXPECT(there == d);
      NCCL(ncclCommCuDevice(alone, &there));
      EXPECT(there == 1);
      uint32_t sum;
      CALL(cudaMemcpy(&sum, sums[d], 4, cudaMemcpyDeviceToHost));
      if (d == 0) steplog_mix(both[17]);
      cudaPointerAttributes of;
      CALL(cudaPointerGetAttributes(&of, links[d] + 3));
      EXPECT(of.type == cudaMemoryTypeDevice && of.device == d);
    }
    // Both chains used both devices' links; the sum of all added numbers is known.
    uint64_t all = 0;
    for (int d = 0; d < 2; d++) {
      std::vector<Link> l(64);
      CALL(cudaMemcpy(l.data(), links[d], 64 * sizeof(Link), cudaMemcpyDeviceToHost));
      for (int i = 0; i < 64; i++) {
        EXPECT(l[i].next == host[d][i].next);
        all += l[i].value;
      }
    }
    steplog_mix(all);
    for (int d = 0; d < 2; d++) {
      CALL(cudaSetDevice(d));
      uint32_t counted;
      CALL(cudaMemcpyFromSymbol(&counted, steps_here, 4));
      EXPECT(counted == step + 1);
      EXPECT(cudaDeviceEnablePeerAccess(1 - d, 0) == cudaErrorPeerAccessAlreadyEnabled);
      EXPECT(cudaGetLastError() == cudaErrorPeerAccessAlreadyEnabled);
    }
    CALL(cudaSetDevice(static_cast<int>(step / 2 % 2)));
    steplog_step();
  }
  CALL(cudaSetDevice(0));
  nonce.back();
  for (int d = 0; d < 2; d++) NCCL(ncclCommDestroy(comms[d]));
  NCCL(ncclCommDestroy(alone));
  steplog_ok();
  return 0;
}
