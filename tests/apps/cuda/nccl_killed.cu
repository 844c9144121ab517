// nvcc: -lnccl
// run: ways=static
// Two processes; one is killed while the other waits for it. The survivor gets an error, ends the
// communicator, and continues alone.
#include <nccl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define NCCL(what)                                                                                   \
  do {                                                                                               \
    ncclResult_t result = (what);                                                                    \
    if (result != ncclSuccess) fail("line %d: %s: %s", __LINE__, #what, ncclGetErrorString(result)); \
  } while (0)

constexpr int kCount = 1000;

ncclComm_t joined(const ncclUniqueId& id, int ranks, int rank) {
  ncclComm_t comm;
  NCCL(ncclCommInitRank(&comm, ranks, id, rank));
  return comm;
}

std::vector<float> sum(ncclComm_t comm, float value) {
  Buffer<float> data(std::vector<float>(kCount, value));
  NCCL(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, 0));
  CALL(cudaStreamSynchronize(0));
  return data.host();
}

int main() {
  int ids[2];
  EXPECT(pipe(ids) == 0);
  pid_t child = fork();  // before either process uses the device
  ncclUniqueId id;
  if (child == 0) {
    EXPECT(read(ids[0], &id, sizeof id) == sizeof id);
    ncclComm_t comm = joined(id, 2, 1);
    expect_same(sum(comm, 2), std::vector<float>(kCount, 3));
    for (;;) pause();
  }
  NCCL(ncclGetUniqueId(&id));
  EXPECT(write(ids[1], &id, sizeof id) == sizeof id);
  ncclComm_t comm = joined(id, 2, 0);
  std::vector<float> both = sum(comm, 1);
  expect_same(both, std::vector<float>(kCount, 3));
  digest(both);

  cudaStream_t stream;
  CALL(cudaStreamCreate(&stream));
  Buffer<float> data(kCount);
  for (int i = 0; i < 2; i++) NCCL(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, stream));
  ncclResult_t state;
  NCCL(ncclCommGetAsyncError(comm, &state));
  EXPECT(state == ncclSuccess);
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, nullptr, 0) == child);
  do {
    usleep(1000);
    NCCL(ncclCommGetAsyncError(comm, &state));
  } while (state == ncclSuccess);
  EXPECT(state == ncclRemoteError);
  EXPECT(cudaStreamQuery(stream) == cudaErrorNotReady);
  NCCL(ncclCommAbort(comm));
  CALL(cudaStreamSynchronize(stream));

  NCCL(ncclGetUniqueId(&id));
  comm = joined(id, 1, 0);
  std::vector<float> alone = sum(comm, 5);
  expect_same(alone, std::vector<float>(kCount, 5));
  digest(alone);
  NCCL(ncclCommDestroy(comm));
  CALL(cudaStreamDestroy(stream));
  return finish();
}
