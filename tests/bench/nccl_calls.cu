// Times NCCL calls on a communicator with one member, so that no peer is waited for.
#include <nccl.h>

#include "timed_calls.h"

int main() {
  constexpr int kMany = 200000, kSome = 20000, kFew = 500, kWords = 64;
  float* values;
  CHECK(cudaMalloc(&values, kWords * sizeof *values));
  CHECK(cudaMemset(values, 0, kWords * sizeof *values));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  ncclComm_t comm;
  const int device = 0;
  CHECK(ncclCommInitAll(&comm, 1, &device));

  time_calls("ncclCommCount", kMany, [&] {
    int count;
    CHECK(ncclCommCount(comm, &count));
  });
  time_calls("ncclAllReduce", kSome,
             [&] { CHECK(ncclAllReduce(values, values, kWords, ncclFloat32, ncclSum, comm, stream)); });
  time_calls("ncclAllReduce_in_group", kSome, [&] {
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(values, values, kWords, ncclFloat32, ncclSum, comm, stream));
    CHECK(ncclGroupEnd());
  });
  time_calls("ncclAllReduce_awaited", kFew, [&] {
    CHECK(ncclAllReduce(values, values, kWords, ncclFloat32, ncclSum, comm, stream));
    CHECK(cudaStreamSynchronize(stream));
  });
  CHECK(ncclCommDestroy(comm));
  return 0;
}
