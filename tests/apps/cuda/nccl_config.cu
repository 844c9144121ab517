// nvcc: -lnccl
// run: ways=static devices=2
// One process with a rank on each of two devices: nonblocking communicators, splits, user-defined operations,
// small types, the collectives that nccl_all omits, errors and how to continue after them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>

#include "check.h"
#include "child.h"

constexpr int kRanks = 2;

void expect(ncclResult_t result, ncclResult_t expected, const char* what, int line) {
  if (result != expected)
    fail("line %d: %s: %s instead of %s", line, what, ncclGetErrorString(result),
         ncclGetErrorString(expected));
}
#define NCCL(what) expect((what), ncclSuccess, #what, __LINE__)
#define ANSWERS(what, expected) expect((what), (expected), #what, __LINE__)

struct Pair {  // the two ranks of a communicator
  ncclComm_t of[kRanks] = {};
};

ncclResult_t state(ncclComm_t comm) {
  ncclResult_t said;
  NCCL(ncclCommGetAsyncError(comm, &said));
  return said;
}

void wait_for(ncclComm_t comm, ncclResult_t expected = ncclSuccess) {
  while (state(comm) == ncclInProgress) usleep(1000);
  ANSWERS(state(comm), expected);
}

ncclConfig_t not_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// As in NCCL's documentation: one thread, a group, and the current device decides the rank's device.
Pair made(ncclConfig_t* config = nullptr) {
  ncclUniqueId id;
  Pair pair;
  NCCL(ncclGetUniqueId(&id));
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; rank++) {
    CALL(cudaSetDevice(rank));
    ncclResult_t result = ncclCommInitRankConfig(&pair.of[rank], kRanks, id, rank, config);
    EXPECT(result == ncclSuccess || (config && result == ncclInProgress));
  }
  ncclResult_t result = ncclGroupEnd();
  EXPECT(result == ncclSuccess || (config && result == ncclInProgress));
  for (int rank = 0; rank < kRanks; rank++) {
    wait_for(pair.of[rank]);
    int count, said, device;
    NCCL(ncclCommCount(pair.of[rank], &count));
    NCCL(ncclCommUserRank(pair.of[rank], &said));
    NCCL(ncclCommCuDevice(pair.of[rank], &device));
    EXPECT(count == kRanks && said == rank && device == rank);
  }
  return pair;
}

void destroy(const Pair& pair) {
  for (ncclComm_t comm : pair.of) NCCL(ncclCommDestroy(comm));
}

cudaStream_t streams[kRanks];

// Fills each rank's input with fill(rank, i), calls call(rank, in, out) in a group, and compares the results.
template <class T, class Fill, class Call, class Expected>
void run(size_t in_count, size_t out_count, Fill fill, Call call, Expected expected, const char* what) {
  T *in[kRanks], *out[kRanks];
  for (int rank = 0; rank < kRanks; rank++) {
    CALL(cudaSetDevice(rank));
    std::vector<T> values(in_count);
    for (size_t i = 0; i < in_count; i++) values[i] = T(fill(rank, i));
    CALL(cudaMalloc(&in[rank], in_count * sizeof(T)));
    CALL(cudaMalloc(&out[rank], out_count * sizeof(T)));
    CALL(cudaMemset(out[rank], 0, out_count * sizeof(T)));
    CALL(cudaMemcpy(in[rank], values.data(), in_count * sizeof(T), cudaMemcpyHostToDevice));
    CALL(cudaDeviceSynchronize());
  }
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; rank++) call(rank, in[rank], out[rank]);
  NCCL(ncclGroupEnd());
  for (int rank = 0; rank < kRanks; rank++) {
    CALL(cudaSetDevice(rank));
    CALL(cudaStreamSynchronize(streams[rank]));
    std::vector<T> got(out_count);
    CALL(cudaMemcpy(got.data(), out[rank], out_count * sizeof(T), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < out_count; i++)
      if (float(got[i]) != expected(rank, i))
        fail("%s: rank %d, [%zu]: %g instead of %g", what, rank, i, float(got[i]), float(expected(rank, i)));
    digest(got);
    CALL(cudaFree(in[rank]));
    CALL(cudaFree(out[rank]));
  }
}

void sums(const Pair& pair) {
  run<float>(
      300, 300, [](int rank, size_t i) { return float(rank + i); },
      [&](int rank, float* in, float* out) {
        NCCL(ncclAllReduce(in, out, 300, ncclFloat, ncclSum, pair.of[rank], streams[rank]));
      },
      [](int, size_t i) { return float(2 * i + 1); }, "sum");
}

template <class T>
void small_type(const Pair& pair, ncclDataType_t type, const char* what) {
  run<T>(
      4, 4, [](int rank, size_t i) { return float(rank + i); },
      [&](int rank, T* in, T* out) {
        NCCL(ncclAllReduce(in, out, 4, type, ncclSum, pair.of[rank], streams[rank]));
      },
      [](int, size_t i) { return float(2 * i + 1); }, what);
}

void does_not_block() {
  ncclConfig_t config = not_blocking();
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm[kRanks];
  CALL(cudaSetDevice(0));
  // Cannot complete before the other rank calls.
  ANSWERS(ncclCommInitRankConfig(&comm[0], kRanks, id, 0, &config), ncclInProgress);
  EXPECT(comm[0] && state(comm[0]) == ncclInProgress);
  ANSWERS(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm[0], streams[0]), ncclInvalidArgument);
  ANSWERS(ncclCommDestroy(comm[0]), ncclInvalidArgument);
  CALL(cudaSetDevice(1));
  ANSWERS(ncclCommInitRankConfig(&comm[1], kRanks, id, 1, &config), ncclInProgress);
  for (ncclComm_t one : comm) wait_for(one);

  ncclComm_t alone, none = comm[0], refused;
  ANSWERS(ncclCommSplit(comm[0], 7, 0, &alone, nullptr), ncclInProgress);
  EXPECT(state(comm[0]) == ncclInProgress);
  ANSWERS(ncclCommSplit(comm[0], 7, 0, &refused, nullptr), ncclInvalidArgument);
  ANSWERS(ncclCommSplit(comm[1], NCCL_SPLIT_NOCOLOR, 0, &none, nullptr), ncclInProgress);
  for (ncclComm_t one : comm) wait_for(one);
  EXPECT(none == nullptr);
  wait_for(alone);
  int count;
  NCCL(ncclCommCount(alone, &count));
  EXPECT(count == 1);
  NCCL(ncclCommDestroy(alone));

  // Several communicators in one group; the first one has the ranks in reverse order.
  Pair turned;
  ncclComm_t own[kRanks];
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; rank++) {
    ncclCommSplit(comm[rank], 0, -rank, &turned.of[rank], nullptr);
    ncclCommSplit(comm[rank], rank, 0, &own[rank], nullptr);
  }
  ANSWERS(ncclGroupEnd(), ncclInProgress);
  for (int rank = 0; rank < kRanks; rank++) {
    wait_for(comm[rank]);
    int other, ranks;
    NCCL(ncclCommUserRank(turned.of[rank], &other));
    NCCL(ncclCommCount(own[rank], &ranks));
    EXPECT(other == 1 - rank && ranks == 1);
  }
  sums(turned);
  destroy(turned);
  for (int rank = 0; rank < kRanks; rank++) {
    NCCL(ncclCommDestroy(own[rank]));
    NCCL(ncclCommDestroy(comm[rank]));
  }

  // The ranks that this one waits for never come.
  NCCL(ncclGetUniqueId(&id));
  ANSWERS(ncclCommInitRankConfig(&comm[0], kRanks, id, 0, &config), ncclInProgress);
  NCCL(ncclCommAbort(comm[0]));
  destroy(made(&config));
}

// The thread of both ranks continues while one rank is being finalized, which waits for the other's
// collective.
void finalizes_without_blocking() {
  ncclConfig_t config = not_blocking();
  Pair pair = made(&config);
  CALL(cudaSetDevice(0));
  Buffer<float> first(10);
  NCCL(ncclAllReduce(first, first, 10, ncclFloat, ncclSum, pair.of[0], streams[0]));
  ANSWERS(ncclCommFinalize(pair.of[0]), ncclInProgress);
  ANSWERS(state(pair.of[0]), ncclInProgress);
  ANSWERS(ncclCommDestroy(pair.of[0]), ncclInvalidArgument);
  CALL(cudaSetDevice(1));
  Buffer<float> second(10);
  NCCL(ncclAllReduce(second, second, 10, ncclFloat, ncclSum, pair.of[1], streams[1]));
  ANSWERS(ncclCommFinalize(pair.of[1]), ncclInProgress);
  for (ncclComm_t comm : pair.of) wait_for(comm);
  for (cudaStream_t stream : streams) EXPECT(cudaStreamQuery(stream) == cudaSuccess);
  destroy(pair);
}

// Buffers are registered and deregistered; symmetric memory is not available. One communicator from several
// ids.
void registrations(const Pair& pair) {
  CALL(cudaSetDevice(0));
  Buffer<float> data(10);
  void* handle;
  NCCL(ncclCommRegister(pair.of[0], data, 40, &handle));
  NCCL(ncclCommDeregister(pair.of[0], handle));
  ANSWERS(ncclCommDeregister(pair.of[0], handle), ncclInvalidArgument);
  ncclWindow_t window;
  NCCL(ncclCommWindowRegister(pair.of[0], data, 40, &window, NCCL_WIN_DEFAULT));
  EXPECT(window == nullptr);
  NCCL(ncclCommWindowDeregister(pair.of[0], window));
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) NCCL(ncclGetUniqueId(&id));
  ncclComm_t alone;
  int count;
  NCCL(ncclCommInitRankScalable(&alone, 1, 0, 2, ids, nullptr));
  NCCL(ncclCommCount(alone, &count));
  EXPECT(count == 1);
  NCCL(ncclCommDestroy(alone));
  ANSWERS(ncclCommInitRankScalable(&alone, 1, 0, 0, ids, nullptr), ncclInvalidArgument);
}

// Each rank multiplies its contribution by its own scalar: one scalar is in host memory, one in device
// memory.
void operations(const Pair& pair) {
  ncclRedOp_t scaled[kRanks], unused;
  float one = 1, *three;
  CALL(cudaSetDevice(1));
  CALL(cudaMalloc(&three, sizeof(float)));
  NCCL(ncclRedOpCreatePreMulSum(&unused, &one, ncclFloat, ncclScalarHostImmediate, pair.of[0]));
  NCCL(ncclRedOpCreatePreMulSum(&scaled[0], &one, ncclFloat, ncclScalarHostImmediate, pair.of[0]));
  NCCL(ncclRedOpCreatePreMulSum(&scaled[1], three, ncclFloat, ncclScalarDevice, pair.of[1]));
  float value = 3;
  CALL(cudaMemcpy(three, &value, sizeof value, cudaMemcpyHostToDevice));
  one = 100;  // the scalar was read already
  run<float>(
      64, 64, [](int rank, size_t i) { return float(10 * rank + i); },
      [&](int rank, float* in, float* out) {
        NCCL(ncclAllReduce(in, out, 64, ncclFloat, scaled[rank], pair.of[rank], streams[rank]));
      },
      [](int, size_t i) { return float(i + 3 * (10 + i)); }, "operation");
  run<float>(
      64, 32, [](int rank, size_t i) { return float(10 * rank + i); },
      [&](int rank, float* in, float* out) {
        NCCL(ncclReduceScatter(in, out, 32, ncclFloat, scaled[rank], pair.of[rank], streams[rank]));
      },
      [](int rank, size_t i) { return float((32 * rank + i) + 3 * (10 + 32 * rank + i)); },
      "operation, scattered");
  for (int rank = 0; rank < kRanks; rank++) NCCL(ncclRedOpDestroy(scaled[rank], pair.of[rank]));
  CALL(cudaSetDevice(0));
  ANSWERS(ncclAllReduce(three, three, 1, ncclFloat, scaled[0], pair.of[0], streams[0]), ncclInvalidArgument);
  CALL(cudaFree(three));
}

void other_collectives(const Pair& pair) {
  auto value = [](int rank, size_t i) { return float(100 * rank + i); };
  run<float>(
      20, 20, value,
      [&](int rank, float* in, float* out) {
        NCCL(ncclAlltoAll(in, out, 10, ncclFloat, pair.of[rank], streams[rank]));
      },
      [&](int rank, size_t i) { return value(int(i / 10), 10 * rank + i % 10); }, "all to all");
  run<float>(
      10, 20, value,
      [&](int rank, float* in, float* out) {
        NCCL(ncclGather(in, out, 10, ncclFloat, 1, pair.of[rank], streams[rank]));
      },
      [&](int rank, size_t i) { return rank == 1 ? value(int(i / 10), i % 10) : 0; }, "gather");
  run<float>(
      20, 10, value,
      [&](int rank, float* in, float* out) {
        NCCL(ncclScatter(in, out, 10, ncclFloat, 1, pair.of[rank], streams[rank]));
      },
      [&](int rank, size_t i) { return value(1, 10 * rank + i); }, "scatter");
}

void streams_of_a_group(const Pair& pair) {
  cudaStream_t more[kRanks];
  for (int rank = 0; rank < kRanks; rank++) {
    CALL(cudaSetDevice(rank));
    CALL(cudaStreamCreateWithFlags(&more[rank], cudaStreamNonBlocking));
  }
  run<float>(
      20, 20, [](int rank, size_t i) { return float(rank + i); },
      [&](int rank, float* in, float* out) {
        for (int half : {0, 1})
          NCCL(ncclAllReduce(in + 10 * half, out + 10 * half, 10, ncclFloat, ncclSum, pair.of[rank],
                             half ? streams[rank] : more[rank]));
      },
      [](int, size_t i) { return float(2 * i + 1); }, "two streams in a group");
  // A stream of another device: refused, without starting anything that would need the other rank.
  CALL(cudaSetDevice(1));
  Buffer<float> data(10);
  ANSWERS(ncclAllReduce(data, data, 10, ncclFloat, ncclSum, pair.of[1], more[0]), ncclUnhandledCudaError);
  sums(pair);
  for (cudaStream_t stream : more) CALL(cudaStreamDestroy(stream));
}

// One rank has two collectives in its stream that the other rank never calls.
void aborts() {
  Pair pair = made();
  CALL(cudaSetDevice(0));
  Buffer<float> data(10);
  for (int i = 0; i < 2; i++) NCCL(ncclAllReduce(data, data, 10, ncclFloat, ncclSum, pair.of[0], streams[0]));
  NCCL(ncclCommAbort(pair.of[1]));
  while (state(pair.of[0]) == ncclSuccess) usleep(1000);
  ANSWERS(state(pair.of[0]), ncclRemoteError);
  ANSWERS(ncclAllReduce(data, data, 10, ncclFloat, ncclSum, pair.of[0], streams[0]), ncclRemoteError);
  ANSWERS(ncclCommDestroy(pair.of[0]), ncclRemoteError);
  NCCL(ncclCommAbort(pair.of[0]));
  CALL(cudaStreamSynchronize(streams[0]));
  ANSWERS(ncclAllReduce(data, data, 10, ncclFloat, ncclSum, pair.of[0], streams[0]), ncclInvalidArgument);
  Pair next = made();
  sums(next);
  destroy(next);
}

void revokes() {
  Pair pair = made(), smaller;
  CALL(cudaSetDevice(0));
  Buffer<float> data(10);
  NCCL(ncclAllReduce(data, data, 10, ncclFloat, ncclSum, pair.of[0], streams[0]));
  for (ncclComm_t comm : pair.of) NCCL(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  CALL(cudaStreamSynchronize(streams[0]));
  ANSWERS(ncclAllReduce(data, data, 10, ncclFloat, ncclSum, pair.of[0], streams[0]), ncclInvalidUsage);
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; rank++)
    NCCL(ncclCommSplit(pair.of[rank], 0, 0, &smaller.of[rank], nullptr));
  NCCL(ncclGroupEnd());
  sums(smaller);
  destroy(pair);
  int gone = 1, count;
  ncclComm_t rest;
  NCCL(ncclCommShrink(smaller.of[0], &gone, 1, &rest, nullptr, NCCL_SHRINK_ABORT));
  NCCL(ncclCommCount(rest, &count));
  EXPECT(count == 1);
  NCCL(ncclCommDestroy(rest));
  for (ncclComm_t comm : smaller.of) NCCL(ncclCommAbort(comm));
}

void ends(const Pair& pair) {
  CALL(cudaSetDevice(0));
  Buffer<float> data(10);
  for (ncclComm_t comm : pair.of) NCCL(ncclCommFinalize(comm));
  ANSWERS(ncclAllReduce(data, data, 10, ncclFloat, ncclSum, pair.of[0], streams[0]), ncclInvalidArgument);
  ANSWERS(ncclCommFinalize(pair.of[0]), ncclInvalidArgument);
  destroy(pair);
  int count;
  ANSWERS(ncclCommCount(pair.of[0], &count), ncclInvalidArgument);
}

void create_streams() {
  for (int rank = 0; rank < kRanks; rank++) {
    CALL(cudaSetDevice(rank));
    CALL(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking));
  }
}

// Ranks that call different collectives get an error; the context is unusable afterwards.
void mismatched() {
  create_streams();
  Pair pair = made();
  float* data[kRanks];
  static std::atomic<bool> called{false};  // the calls themselves succeed
  NCCL(ncclGroupStart());
  for (int rank = 0; rank < kRanks; rank++) {
    CALL(cudaSetDevice(rank));
    CALL(cudaMalloc(&data[rank], 40));
    CALL(cudaLaunchHostFunc(
        streams[rank],
        [](void*) {
          while (!called) usleep(1000);
        },
        nullptr));
    NCCL(ncclAllReduce(data[rank], data[rank], 9 + rank, ncclFloat, ncclSum, pair.of[rank], streams[rank]));
  }
  NCCL(ncclGroupEnd());
  called = true;
  for (int rank = 0; rank < kRanks; rank++) {
    CALL(cudaSetDevice(rank));
    FAILS(cudaStreamSynchronize(streams[rank]), cudaErrorLaunchFailure);
    ANSWERS(state(pair.of[rank]), ncclInvalidUsage);
  }
}

int main(int argc, char** argv) {
  if (has_children(argc, argv)) {
    Ended ended = in_child(mismatched);
    expect_child(ended, "a mismatched call");
    EXPECT(ended.errors.find("9 elements") != std::string::npos);
  }
  create_streams();
  does_not_block();
  finalizes_without_blocking();
  Pair pair = made();
  registrations(pair);
  operations(pair);
  small_type<__half>(pair, ncclFloat16, "half");
  small_type<__nv_bfloat16>(pair, ncclBfloat16, "bfloat16");
  small_type<__nv_fp8_e4m3>(pair, ncclFloat8e4m3, "e4m3");
  small_type<__nv_fp8_e5m2>(pair, ncclFloat8e5m2, "e5m2");
  other_collectives(pair);
  streams_of_a_group(pair);
  aborts();
  revokes();
  ends(pair);
  return finish();
}
