// nvcc: -std=c++17 -lnccl -Xcompiler -Wno-cast-function-type
// run: ranks=2,4 ways=static
// A grid of ranks. Its communicators are split from a split whose parent is destroyed, with keys that reverse
// the ranks; some ranks are in no communicator. Sums go along rows, maxima along columns. One unique id is
// drawn at the start and used after half of the steps, one is drawn in every sixth step and used in a later
// one, one is never used. Every step queries the communicators' properties.
#include "nccl_calls.h"

constexpr int kValues = 300;

__host__ __device__ uint64_t changed(uint64_t v, uint64_t step) {
  v = (v + step) * 0x9e3779b97f4a7c15u;
  return v ^ v >> 29;
}
__global__ void change(uint64_t* v, uint64_t step) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) v[i] = changed(v[i], step);
}
__global__ void join(uint64_t* v, const uint64_t* of_row, const uint64_t* of_column) {
  for (int i = threadIdx.x; i < kValues; i += blockDim.x) v[i] = of_row[i] ^ of_column[i] >> 3;
}

static void check(ncclComm_t comm, int count, int rank, int device) {
  int n = -1, r = -1, d = -1;
  ncclResult_t state = ncclInternalError;
  NCCL(ncclCommCount(comm, &n));
  NCCL(ncclCommUserRank(comm, &r));
  NCCL(ncclCommCuDevice(comm, &d));
  NCCL(ncclCommGetAsyncError(comm, &state));
  if (n != count || r != rank || d != device || state != ncclSuccess)
    steplog_fail("rank %d of %d on %d, state %d; was rank %d of %d on %d", r, n, d, state, rank, count,
                 device);
}
static ncclUniqueId drawn_by_first(int rank) {
  ncclUniqueId id;
  memset(&id, 0, sizeof id);
  if (rank == 0) NCCL(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  return id;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, device;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  steplog_open(argc, argv, rank);
  choose_device();
  CALL(cudaGetDevice(&device));
  const ncclUniqueId for_later = drawn_by_first(rank), never = drawn_by_first(rank), kept = never;
  ncclComm_t world = communicator(MPI_COMM_WORLD), reversed, row, column, some, late = nullptr,
             brief = nullptr, of_brief = nullptr;
  NCCL(ncclCommSplit(world, 7, -rank, &reversed, nullptr));
  NCCL(ncclCommDestroy(world));
  // Two rows; in `reversed`, rank r is ranks - 1 - r.
  const int my_row = rank % 2, my_column = rank / 2, columns = ranks / 2;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = 1;
  NCCL(ncclCommSplit(reversed, my_row, 0, &row, nullptr));  // equal keys keep the parent's order
  NCCL(ncclCommSplit(reversed, my_column, rank, &column, &config));
  NCCL(ncclCommSplit(reversed, rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, 100 - rank, &some, nullptr));
  EXPECT((some == nullptr) == (rank == 0));
  cudaStream_t s, t;
  CALL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  CALL(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
  {
    DeviceNonce nonce;
    std::vector<std::vector<uint64_t>> all(ranks, std::vector<uint64_t>(kValues));
    for (int r = 0; r < ranks; r++)
      for (int i = 0; i < kValues; i++) all[r][i] = static_cast<uint64_t>(r) << 40 | static_cast<uint64_t>(i);
    Buffer<uint64_t> v(all[rank]), of_row(kValues), of_column(kValues), extra(all[rank]);
    ncclUniqueId coming = for_later;
    int brief_rank = -1;
    while (steplog_done < steplog_steps) {
      const long step = steplog_done;
      if (reversed) check(reversed, ranks, ranks - 1 - rank, device);
      check(row, columns, columns - 1 - my_column, device);
      check(column, 2, my_row, device);
      if (some) check(some, ranks - 1, ranks - 1 - rank, device);
      EXPECT(!memcmp(&never, &kept, sizeof never));
      change<<<1, 64, 0, s>>>(v, static_cast<uint64_t>(step));
      CALL(cudaStreamSynchronize(s));
      if (step % 2) NCCL(ncclAllReduce(v, of_row, kValues, ncclUint64, ncclSum, row, s));
      NCCL(ncclAllReduce(v, of_column, kValues, ncclUint64, ncclMax, column, t));
      if (step % 2 == 0) NCCL(ncclAllReduce(v, of_row, kValues, ncclUint64, ncclSum, row, s));
      if (some)
        NCCL(ncclBroadcast(extra, extra, kValues, ncclUint64, static_cast<int>(step % (ranks - 1)), some, s));
      CALL(cudaStreamSynchronize(t));
      join<<<1, 64, 0, s>>>(v, of_row, of_column);
      LAUNCHED();
      std::vector<std::vector<uint64_t>> before = all;
      for (auto& values : before)
        for (auto& x : values) x = changed(x, static_cast<uint64_t>(step));
      for (int r = 0; r < ranks; r++)
        for (int i = 0; i < kValues; i++) {
          uint64_t sum = 0, most = 0;
          for (int q = 0; q < ranks; q++) {
            if (q % 2 == r % 2) sum += before[q][i];
            if (q / 2 == r / 2) most = before[q][i] > most ? before[q][i] : most;
          }
          all[r][i] = sum ^ most >> 3;
        }
      if (step == 8) {  // the grandparent is destroyed, its descendants stay
        NCCL(ncclCommDestroy(reversed));
        reversed = nullptr;
      }
      if (step == steplog_steps / 2) {
        NCCL(ncclCommInitRank(&late, ranks, for_later, ranks - 1 - rank));
        NCCL(ncclAllReduce(extra, extra, kValues, ncclUint64, ncclMin, late, s));
      }
      if (late) {
        check(late, ranks, ranks - 1 - rank, device);
        NCCL(ncclBroadcast(extra, extra, 1, ncclUint64, 0, late, s));  // the last rank's value
      }
      if (step % 6 == 1) coming = drawn_by_first(rank);
      if (step % 6 == 3) {
        brief_rank = (rank + static_cast<int>(step)) % ranks;
        NCCL(ncclCommInitRank(&brief, ranks, coming, brief_rank));
        NCCL(ncclCommSplit(brief, rank % 2 ? 3 : NCCL_SPLIT_NOCOLOR, -rank, &of_brief, nullptr));
        EXPECT((of_brief != nullptr) == (rank % 2 == 1));
      }
      if (brief) check(brief, ranks, brief_rank, device);
      if (of_brief) check(of_brief, ranks / 2, ranks / 2 - 1 - rank / 2, device);
      if (step % 6 == 5 && brief) {
        if (of_brief) NCCL(ncclAllReduce(extra, extra, 7, ncclUint64, ncclSum, of_brief, s));
        NCCL(ncclCommDestroy(brief));  // the parent is destroyed before its child
        if (of_brief) NCCL(ncclCommDestroy(of_brief));
        brief = of_brief = nullptr;
      }
      CALL(cudaStreamSynchronize(s));
      CALL(cudaStreamSynchronize(t));
      if (step % 3 != 1) EXPECT(v.host() == all[rank]);
      mix(extra.host());
      mix(v.host());
      steplog_step();
    }
    if (of_brief) NCCL(ncclCommDestroy(of_brief));
    if (brief) NCCL(ncclCommDestroy(brief));
    nonce.back();
  }
  for (ncclComm_t one : {row, reversed, late, some, column})
    if (one) NCCL(ncclCommDestroy(one));
  steplog_ok();
  MPI_Finalize();
  return 0;
}
