// nvcc: -lnccl -std=c++20 -Xcompiler -pthread
// run: ways=per-thread devices=2
// Collectives of one communicator run in the order of the calls, on any streams, in captures, in graphs next
// to each other and next to eager ones. One rank delays the first collective, the other the second, so that
// without this order the ranks would mix them up.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <thread>

#include "check.h"
#include "child.h"

#define NCCL(what)                                                                                   \
  do {                                                                                               \
    ncclResult_t result = (what);                                                                    \
    if (result != ncclSuccess) fail("line %d: %s: %s", __LINE__, #what, ncclGetErrorString(result)); \
  } while (0)

constexpr int kRanks = 2, kCount = 200;

__global__ void set(float* data, int n, float value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = value + i;
}

struct Gate {  // a host function waits until it is opened
  std::atomic<bool> open{false};
};
void hold(cudaStream_t stream, Gate* gate) {
  CALL(cudaLaunchHostFunc(
      stream,
      [](void* gate) {
        while (!static_cast<Gate*>(gate)->open) usleep(1000);
      },
      gate));
}
// Sleeps first, so that a wrong overtaking could happen.
void release(Gate* gate) {
  usleep(30000);
  gate->open = true;
}

std::barrier both(kRanks);

struct Rank {
  explicit Rank(int rank, const ncclUniqueId& id) : rank(rank), first(kCount), second(kCount) {
    NCCL(ncclCommInitRank(&comm, kRanks, id, rank));
    for (cudaStream_t* stream : {&a, &b}) CALL(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
  }
  ~Rank() {
    NCCL(ncclCommDestroy(comm));
    for (cudaStream_t stream : {a, b}) CALL(cudaStreamDestroy(stream));
  }
  void fill(float* data, float value, cudaStream_t stream) {
    set<<<(kCount + 127) / 128, 128, 0, stream>>>(data, kCount, value);
    LAUNCHED();
  }
  void sum(float* data, cudaStream_t stream) {
    NCCL(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, stream));
  }
  // The sums of (1 + i) and (2 + i), and of (10 + i) and (20 + i).
  void check(const char* what) {
    CALL(cudaDeviceSynchronize());
    std::vector<float> expected(kCount), more(kCount);
    for (int i = 0; i < kCount; i++) expected[i] = 3 + 2 * i, more[i] = 30 + 2 * i;
    expect_same(first.host(), expected, what);
    expect_same(second.host(), more, what);
    both.arrive_and_wait();
  }
  const int rank;
  ncclComm_t comm;
  cudaStream_t a, b;
  Buffer<float> first, second;
};

// The first collective is on one forked stream, the second on the other; a gate delays one of them.
cudaGraphExec_t captured(Rank& r, Gate* gate) {
  cudaEvent_t forked, joined;
  CALL(cudaEventCreate(&forked));
  CALL(cudaEventCreate(&joined));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CALL(cudaStreamBeginCapture(r.a, cudaStreamCaptureModeThreadLocal));
  CALL(cudaEventRecord(forked, r.a));
  CALL(cudaStreamWaitEvent(r.b, forked));
  cudaStream_t one = r.rank ? r.b : r.a, other = r.rank ? r.a : r.b;
  r.fill(r.first, r.rank + 1, one);
  r.fill(r.second, 10 * (r.rank + 1), other);
  hold(r.rank ? other : one, gate);
  r.sum(r.first, one);
  r.sum(r.second, other);
  CALL(cudaEventRecord(joined, r.b));
  CALL(cudaStreamWaitEvent(r.a, joined));
  CALL(cudaStreamEndCapture(r.a, &graph));
  CALL(cudaGraphInstantiate(&exec, graph, 0));
  CALL(cudaGraphDestroy(graph));
  CALL(cudaEventDestroy(forked));
  CALL(cudaEventDestroy(joined));
  return exec;
}

// A graph with one collective.
cudaGraphExec_t simple(Rank& r, float* data, float value, Gate* gate) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CALL(cudaStreamBeginCapture(r.a, cudaStreamCaptureModeThreadLocal));
  r.fill(data, value * (r.rank + 1), r.a);
  if (gate) hold(r.a, gate);
  r.sum(data, r.a);
  CALL(cudaStreamEndCapture(r.a, &graph));
  CALL(cudaGraphInstantiate(&exec, graph, 0));
  CALL(cudaGraphDestroy(graph));
  return exec;
}

void work(int rank, const ncclUniqueId& id) {
  CALL(cudaSetDevice(rank));
  Gate gates[5];
  {
    Rank r(rank, id);
    float one = rank + 1, ten = 10 * (rank + 1);

    cudaGraphExec_t forked = captured(r, &gates[0]);
    CALL(cudaGraphLaunch(forked, r.a));
    release(&gates[0]);
    r.check("in one capture");

    // A graph, then an eager collective on another stream.
    cudaGraphExec_t first = simple(r, r.first, 1, rank == 0 ? &gates[1] : nullptr);
    CALL(cudaGraphLaunch(first, r.a));
    r.fill(r.second, ten, r.b);
    if (rank == 1) hold(r.b, &gates[1]);
    r.sum(r.second, r.b);
    release(&gates[1]);
    r.check("a graph, then eager");

    // The reverse order; the graph's gate is open now.
    cudaGraphExec_t second = simple(r, r.second, 10, nullptr);
    r.fill(r.first, one, r.b);
    if (rank == 0) hold(r.b, &gates[2]);
    r.sum(r.first, r.b);
    if (rank == 1) hold(r.a, &gates[2]);
    CALL(cudaGraphLaunch(second, r.a));
    release(&gates[2]);
    r.check("eager, then a graph");

    // Two graphs on two streams.
    hold(rank == 0 ? r.a : r.b, &gates[3]);
    CALL(cudaGraphLaunch(first, r.a));
    CALL(cudaGraphLaunch(second, r.b));
    release(&gates[3]);
    r.check("two graphs");

    // The per-thread default streams of two threads have the same handle.
    std::thread([&] {
      CALL(cudaSetDevice(rank));
      r.fill(r.first, one, cudaStreamPerThread);
      if (rank == 0) hold(cudaStreamPerThread, &gates[4]);
      r.sum(r.first, cudaStreamPerThread);
    }).join();
    r.fill(r.second, ten, cudaStreamPerThread);
    if (rank == 1) hold(cudaStreamPerThread, &gates[4]);
    r.sum(r.second, cudaStreamPerThread);
    release(&gates[4]);
    r.check("streams of threads");

    for (int i = 0; i < 3; i++) {
      CALL(cudaGraphLaunch(forked, i % 2 ? r.a : r.b));
      r.sum(r.first, i % 2 ? r.b : r.a);
    }
    CALL(cudaDeviceSynchronize());
    std::vector<float> expected(kCount);
    for (int i = 0; i < kCount; i++) expected[i] = 2 * (3 + 2 * i);
    expect_same(r.first.host(), expected, "replayed beside eager ones");
    if (rank == 0) digest(r.first.host());
    both.arrive_and_wait();
    for (cudaGraphExec_t exec : {forked, first, second}) CALL(cudaGraphExecDestroy(exec));
  }
}

ncclResult_t state(ncclComm_t comm) {
  ncclResult_t said;
  NCCL(ncclCommGetAsyncError(comm, &said));
  return said;
}

// Every way of ending a communicator waits for graphs that contain its work, and prints that.
void ends_wait_for_graphs() {
  ncclComm_t destroyed, aborted, finalized;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  for (ncclComm_t* comm : {&destroyed, &aborted, &finalized}) {
    ncclUniqueId id;
    NCCL(ncclGetUniqueId(&id));
    ncclCommInitRankConfig(comm, 1, id, 0, comm == &finalized ? &config : nullptr);
    while (state(*comm) == ncclInProgress) usleep(1000);
  }
  Buffer<float> data(kCount);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CALL(cudaStreamCreate(&stream));
  CALL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (ncclComm_t comm : {destroyed, aborted, finalized})
    NCCL(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, stream));
  CALL(cudaStreamEndCapture(stream, &graph));
  CALL(cudaGraphInstantiate(&exec, graph, 0));
  CALL(cudaGraphLaunch(exec, stream));

  int said[2], errors = dup(2);
  EXPECT(pipe(said) == 0 && dup2(said[1], 2) == 2);
  EXPECT(ncclCommFinalize(finalized) == ncclInProgress);
  std::atomic<int> ended{0};
  std::thread one([&] {
    NCCL(ncclCommDestroy(destroyed));
    ended++;
  });
  std::thread two([&] {
    NCCL(ncclCommAbort(aborted));
    ended++;
  });
  auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  std::string text;
  char buffer[1000];
  for (ssize_t got; lines(text) < 3 && (got = read(said[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, got);
  dup2(errors, 2);
  auto nobody_has_ended = [&] { return ended == 0 && state(finalized) == ncclInProgress; };
  EXPECT(text.find("graphs") != text.npos && nobody_has_ended());
  CALL(cudaGraphDestroy(graph));
  EXPECT(nobody_has_ended());
  CALL(cudaGraphExecDestroy(exec));
  one.join();
  two.join();
  while (state(finalized) == ncclInProgress) usleep(1000);
  NCCL(ncclCommDestroy(finalized));
  CALL(cudaStreamSynchronize(stream));
}

int main(int argc, char** argv) {
  if (has_children(argc, argv))
    expect_child(in_child(ends_wait_for_graphs), "graphs that outlive a communicator");
  ncclUniqueId id;
  NCCL(ncclGetUniqueId(&id));
  std::thread one(work, 0, id), two(work, 1, id);
  one.join();
  two.join();
  return finish();
}
