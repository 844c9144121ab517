// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: ranks=2,4 ways=static,shared
// Several NCCL communicators at once: one of all ranks, one per row of two (by ncclCommSplit), a nonblocking
// one, and one that lives for three steps. In each step the ranks pass values around a ring, in a group with
// a sum over the row by a user-defined operation; at some steps, a group contains both directions and both
// communicators. All numbers are integers, and each rank computes the expected values of every rank.
#include "nccl_calls.h"

constexpr int kValues = 1000;
constexpr uint32_t kFactor = 3;

using Values = std::vector<uint32_t>;

__host__ __device__ uint32_t changed(uint32_t value, uint32_t step) {
  value = (value ^ step) * 2654435761u;
  return value ^ value >> 15;
}
__global__ void change(uint32_t* values, uint32_t step) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kValues) values[i] = changed(values[i], step);
}
__global__ void take_in(uint32_t* values, const uint32_t* arrived, const uint32_t* sum) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kValues) values[i] = (values[i] ^ arrived[i]) + sum[i];
}

// The expected values of all ranks.
struct Expected {
  std::vector<Values> of;
  explicit Expected(int ranks) : of(static_cast<size_t>(ranks), Values(kValues)) {
    for (size_t r = 0; r < of.size(); r++)
      for (size_t i = 0; i < kValues; i++) of[r][i] = static_cast<uint32_t>(r * 7919 + i);
  }
  void step(uint32_t number, bool back) {
    const size_t ranks = of.size();
    for (Values& values : of)
      for (uint32_t& v : values) v = changed(v, number);
    const std::vector<Values> before = of;
    for (size_t r = 0; r < ranks; r++) {
      const size_t from = (back ? r + 1 : r + ranks - 1) % ranks, row = r / 2 * 2;
      for (size_t i = 0; i < kValues; i++)
        of[r][i] = (before[r][i] ^ before[from][i]) + kFactor * (before[row][i] + before[row + 1][i]);
    }
  }
};

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();

  ncclComm_t world = communicator(MPI_COMM_WORLD), row, all = nullptr, brief = nullptr;
  NCCL(ncclCommSplit(world, rank / 2, -rank, &row, nullptr));  // in reverse order
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t state = ncclCommSplit(world, 0, rank, &all, &config);
  while (state == ncclInProgress) NCCL(ncclCommGetAsyncError(world, &state));
  do NCCL(ncclCommGetAsyncError(all, &state));
  while (state == ncclInProgress);
  EXPECT(state == ncclSuccess);

  cudaStream_t compute, travel;
  cudaEvent_t ready, arrived;
  CALL(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&travel, cudaStreamNonBlocking));
  CALL(cudaEventCreateWithFlags(&ready, cudaEventDisableTiming));
  CALL(cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming));
  Expected expected(ranks);
  const Buffer<uint32_t> values(expected.of[static_cast<size_t>(rank)]), from(kValues), sum(kValues),
      other(kValues);
  const Buffer<uint32_t> factor(Values{kFactor});
  ncclRedOp_t on_host, on_device;
  uint32_t by = kFactor;
  NCCL(ncclRedOpCreatePreMulSum(&on_host, &by, ncclUint32, ncclScalarHostImmediate, row));
  NCCL(ncclRedOpCreatePreMulSum(&on_device, factor, ncclUint32, ncclScalarDevice, row));
  DeviceNonce nonce;

  constexpr unsigned kBlocks = (kValues + 127) / 128;
  for (uint32_t step = 1; step <= static_cast<uint32_t>(steplog_steps); step++) {
    const bool back = step % 3 == 0;
    const int to = (back ? rank + ranks - 1 : rank + 1) % ranks,
              source = (back ? rank + 1 : rank + ranks - 1) % ranks;
    change<<<kBlocks, 128, 0, compute>>>(values, step);
    LAUNCHED();
    CALL(cudaEventRecord(ready, compute));
    CALL(cudaStreamWaitEvent(travel, ready, 0));
    NCCL(ncclGroupStart());
    NCCL(ncclSend(values, kValues, ncclUint32, to, world, travel));
    NCCL(ncclRecv(from, kValues, ncclUint32, source, world, travel));
    if (step % 5 == 0) {  // the other direction too
      NCCL(ncclSend(values, kValues / 2, ncclUint32, source, world, travel));
      NCCL(ncclRecv(other, kValues / 2, ncclUint32, to, world, travel));
    }
    steplog_at("group");
    NCCL(ncclAllReduce(values, sum, kValues, ncclUint32, step % 2 ? on_host : on_device, row, travel));
    NCCL(ncclGroupEnd());
    CALL(cudaEventRecord(arrived, travel));
    CALL(cudaStreamWaitEvent(compute, arrived, 0));
    take_in<<<kBlocks, 128, 0, compute>>>(values, from, sum);
    LAUNCHED();
    if (step % 3 == 1) NCCL(ncclCommSplit(world, rank % 2, rank, &brief, nullptr));
    if (step % 3 == 2) NCCL(ncclAllReduce(values, other, kValues, ncclUint32, ncclMax, brief, compute));
    if (step % 3 == 0) NCCL(ncclCommDestroy(brief));
    ncclResult_t result = ncclAllReduce(values, other, 1, ncclUint32, ncclMin, all, compute);
    while (result == ncclInProgress) NCCL(ncclCommGetAsyncError(all, &result));
    EXPECT(result == ncclSuccess);
    expected.step(step, back);
    if (step % 4 == 0) {  // at other steps the host runs ahead
      CALL(cudaStreamSynchronize(compute));
      EXPECT(values.host() == expected.of[static_cast<size_t>(rank)]);
    }
    steplog_step();
  }
  CALL(cudaStreamSynchronize(compute));
  EXPECT(values.host() == expected.of[static_cast<size_t>(rank)]);
  int found = -1;
  NCCL(ncclCommUserRank(row, &found));
  EXPECT(found == 1 - rank % 2);
  NCCL(ncclCommCount(all, &found));
  EXPECT(found == ranks);
  mix(values.host());
  nonce.back();
  if (steplog_steps % 3 != 0) NCCL(ncclCommDestroy(brief));
  NCCL(ncclRedOpDestroy(on_host, row));
  NCCL(ncclRedOpDestroy(on_device, row));
  ncclCommFinalize(all);
  do NCCL(ncclCommGetAsyncError(all, &state));
  while (state == ncclInProgress);
  NCCL(ncclCommDestroy(all));
  NCCL(ncclCommDestroy(row));
  NCCL(ncclCommDestroy(world));
  steplog_ok();
  MPI_Finalize();
}
