// Times NCCL calls on a communicator of two devices of this process. While launches are timed, the streams
// wait for a word in pinned memory, so that no collective runs.
#include <cuda.h>
#include <nccl.h>

#include "timed_calls.h"

namespace {

constexpr int kMembers = 2, kWords = 64;

struct Member {
  ncclComm_t comm;
  cudaStream_t stream;
  float* values;
  void reduce() const { CHECK(ncclAllReduce(values, values, kWords, ncclFloat32, ncclSum, comm, stream)); }
};
Member members[kMembers];

void reduce_on_all() {
  CHECK(ncclGroupStart());
  for (const Member& m : members) m.reduce();
  CHECK(ncclGroupEnd());
}

void await_all() {
  for (const Member& m : members) CHECK(cudaStreamSynchronize(m.stream));
}

}  // namespace

int main() {
  constexpr int kMany = 200000, kSome = 2000, kFew = 500;
  ncclComm_t comms[kMembers];
  CHECK(ncclCommInitAll(comms, kMembers, nullptr));
  for (int i = 0; i < kMembers; i++) {
    Member& m = members[i];
    m.comm = comms[i];
    CHECK(cudaSetDevice(i));
    CHECK(cudaStreamCreate(&m.stream));
    CHECK(cudaMalloc(&m.values, kWords * sizeof *m.values));
    CHECK(cudaMemset(m.values, 0, kWords * sizeof *m.values));
    CHECK(cudaDeviceSynchronize());
  }
  unsigned batch = 0;
  volatile unsigned* allowed;
  CHECK(cudaHostAlloc(const_cast<unsigned**>(&allowed), sizeof *allowed, cudaHostAllocPortable));
  *allowed = 0;
  const auto block = [&] {
    batch++;
    const auto word = reinterpret_cast<CUdeviceptr>(allowed);
    for (const Member& m : members)
      CHECK(cuStreamWaitValue32(m.stream, word, batch, CU_STREAM_WAIT_VALUE_GEQ));
  };
  const auto let_go = [&] {
    *allowed = batch;
    await_all();
  };

  time_calls("ncclCommCount", kMany, [&] {
    int count;
    CHECK(ncclCommCount(comms[0], &count));
  });
  int next = 0;
  time_calls(
      "ncclAllReduce", kSome, [&] { members[next++ % kMembers].reduce(); }, block, let_go);
  time_calls("ncclAllReduce_group_of_two", kSome, reduce_on_all, block, let_go);
  time_calls("ncclAllReduce_group_awaited", kFew, [] {
    reduce_on_all();
    await_all();
  });
  for (const Member& m : members) CHECK(ncclCommDestroy(m.comm));
  return 0;
}
