// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: ranks=2,4 ways=static
// Collectives in every order in which ranks may wait for one another. All ranks draw the same kind for each
// step: bursts far ahead of the device, with a different waiting point per rank; two communicators on two
// streams, in opposite order on half of the ranks; alternating MPI and NCCL collectives; MPI messages between
// launches and the wait for them; a communicator of some ranks only. In a few steps one rank is late by
// seconds, while the others block in cudaStreamSynchronize.
// --until FILE: before the first step the last rank launches a collective only when FILE exists.
#include <unistd.h>

#include <algorithm>

#include "nccl_calls.h"

constexpr int kValues = 500;

__global__ void turn(uint32_t* values, uint32_t by) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x)
    values[i] = (values[i] << 7 | values[i] >> 25) * 2654435761u + by;
}

struct Line {  // a communicator, its stream and its data
  ncclComm_t comm;
  cudaStream_t stream;
  Buffer<uint32_t> values;
  Line(ncclComm_t its, int rank)
      : comm(its), values(std::vector<uint32_t>(kValues, 7u * static_cast<uint32_t>(rank))) {
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  ~Line() {
    CALL(cudaStreamDestroy(stream));
    NCCL(ncclCommDestroy(comm));
  }
  void reduce(uint32_t by) {
    turn<<<1, 64, 0, stream>>>(values, by);
    NCCL(ncclAllReduce(values, values, kValues, ncclUint32, ncclSum, comm, stream));
  }
  void wait() { CALL(cudaStreamSynchronize(stream)); }
};

static void reduce_when_there(Line* line, const char* file, bool is_last) {
  if (is_last) {
    steplog_at("waits");
    while (access(file, F_OK) != 0) steplog_pass(1000);
  }
  line->reduce(1);
  if (!is_last) steplog_at("begun");
  line->wait();
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  {
    DeviceNonce nonce;
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    Line a(communicator(MPI_COMM_WORLD), rank), b(communicator(MPI_COMM_WORLD), rank),
        some(communicator(half), rank);
    for (int i = 1; i + 1 < argc; i++)
      if (!strcmp(argv[i], "--until")) reduce_when_there(&a, argv[i + 1], rank == ranks - 1);
    // Within a step: long enough for a cut to fall into it.
    const auto pass = [rank] { steplog_pass(rank % 2 ? 2 * steplog_pace : steplog_pace); };
    uint64_t draws = 11;
    while (steplog_done < steplog_steps) {
      const uint32_t step = static_cast<uint32_t>(steplog_done);
      const int drawn = static_cast<int>(steplog_random(&draws) % 5);
      const int kind = step % 24 == 7 ? 5 : drawn;
      const int late = static_cast<int>(steplog_random(&draws) % ranks);
      switch (kind) {
        case 0:
          steplog_at("burst");
          for (int i = 0; i < 120; i++) {
            (i % 3 ? a : b).reduce(i);
            if (i % (20 + 10 * rank) == 9) a.wait();
            if (i % 50 == 25) pass();
          }
          break;
        case 1: {
          steplog_at("crossed");
          Line &first = rank % 2 ? a : b, &last = rank % 2 ? b : a;
          for (int i = 0; i < 5; i++) first.reduce(i);
          pass();
          for (int i = 0; i < 5; i++) last.reduce(i);
          last.wait();
          pass();
          break;
        }
        case 2:
          steplog_at("by-turns");
          for (int i = 0; i < 8; i++) {
            uint64_t mine = step + static_cast<uint64_t>(rank), all;
            a.reduce(i);
            MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
            b.reduce(static_cast<uint32_t>(all));
            if (i % 4 == 2) pass();
          }
          break;
        case 3: {
          steplog_at("messages");
          const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
          uint32_t sent = step, got = 0;
          MPI_Request request;
          MPI_Irecv(&got, 1, MPI_UINT32_T, from, 5, MPI_COMM_WORLD, &request);
          if (rank != late) a.reduce(step);
          pass();
          MPI_Send(&sent, 1, MPI_UINT32_T, to, 5, MPI_COMM_WORLD);
          if (rank == late) {  // launches only after a message from a rank that has launched
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            pass();
            a.reduce(step);
          }
          a.wait();
          MPI_Wait(&request, MPI_STATUS_IGNORE);
          EXPECT(got == step);
          break;
        }
        case 4:
          steplog_at("some");
          if (rank % 2 == late % 2) {
            for (int i = 0; i < 10; i++) some.reduce(i);
            pass();
            some.wait();
          }
          a.reduce(step);
          pass();
          break;
        case 5:
          steplog_at("late");
          if (rank == late) steplog_pass(std::min(100 * steplog_pace, 2000000L));
          a.reduce(step);
          a.wait();
          pass();  // the cut waits for the late rank
          break;
      }
      for (Line* line : {&a, &b, &some}) {
        line->wait();
        mix(line->values.host());
      }
      steplog_step();
    }
    MPI_Comm_free(&half);
    nonce.back();
  }
  steplog_ok();
  MPI_Finalize();
  return 0;
}
