// The lower half's NCCL code on the software GPU, without a split process. Two ranks, one process each, call
// the table's functions as a shim would. Then new processes have only the persistent heap and what the ranks
// exchanged; the program's memory is not part of the test. ranks FOLDER_OF_THE_SHIMS
#include <cuda_runtime_api.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "interpose/counting/agreement.h"
#include "interpose/cuda/lower/nccl/state.h"
#include "interpose/cuda/lower/real.h"
#include "interpose/handles/heap.h"
#include "interpose/host/loaded_objects.h"
#include "interpose/libraries/libraries.h"
#include "interpose/seam/state.h"
#include "interpose/seam/thread.h"

extern "C" {
extern void* const cropdl_cudart_lower_table[];
ncclResult_t lower_ncclGetUniqueId(ncclUniqueId*);
ncclResult_t lower_ncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int);
ncclResult_t lower_ncclCommInitRankConfig(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*);
ncclResult_t lower_ncclCommSplit(ncclComm_t, int, int, ncclComm_t*, ncclConfig_t*);
ncclResult_t lower_ncclCommFinalize(ncclComm_t);
ncclResult_t lower_ncclCommDestroy(ncclComm_t);
ncclResult_t lower_ncclCommAbort(ncclComm_t);
ncclResult_t lower_ncclCommGetAsyncError(ncclComm_t, ncclResult_t*);
ncclResult_t lower_ncclCommCount(const ncclComm_t, int*);
ncclResult_t lower_ncclGroupStart();
ncclResult_t lower_ncclGroupEnd();
ncclResult_t lower_ncclAllReduce(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                                 cudaStream_t);
ncclResult_t lower_ncclSend(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t lower_ncclRecv(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t lower_ncclRedOpCreatePreMulSum(ncclRedOp_t*, void*, ncclDataType_t, ncclScalarResidence_t,
                                            ncclComm_t);
ncclResult_t lower_ncclRedOpDestroy(ncclRedOp_t, ncclComm_t);
ncclResult_t lower_ncclCommRegister(ncclComm_t, void*, size_t, void**);
ncclResult_t lower_ncclCommDeregister(ncclComm_t, void*);
ncclResult_t lower_ncclCommWindowRegister(ncclComm_t, void*, size_t, ncclWindow_t*, int);
}

// No program exists in another half.
uint64_t cropdl::host::program_symbol(const char*) { return 0; }

namespace {

using namespace cropdl;
using cuda::nccl::kAgain;

constexpr int kRanks = 2;
int rank;

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "not so: rank %d, line %d: %s\n", rank, __LINE__, #condition); \
      _exit(1);                                                                      \
    }                                                                                \
  } while (0)
#define FINE(call) EXPECT((call) == ncclSuccess)

// Shared by the ranks: the test's own synchronisation.
struct Shared {
  std::atomic<int> came[2], turn;
  ncclUniqueId ids[8];
  uint64_t words[kRanks][64];
  char texts[kRanks][1 << 16];
};
Shared* shared;

void everyone() {
  const int turn = shared->turn;
  if (++shared->came[turn % 2] == kRanks) {
    shared->came[turn % 2] = 0;
    ++shared->turn;
  }
  while (shared->turn == turn) usleep(100);
}

libraries::Library& library() { return *libraries::cuda_library(); }
libraries::Libraries libraries() { return libraries::Libraries({&library()}); }

void map(uintptr_t at, size_t bytes) {
  if (mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    _exit(2);
}

// The program's data, in memory that is saved.
struct Kept {
  ncclComm_t world, turned, finalized;
  ncclRedOp_t twice;
  void* registered;
  ncclUniqueId later;
  float* values;
  ncclComm_t planned;
};
constexpr uintptr_t kProgram = seam::kMapBegin;
Kept& kept() { return *reinterpret_cast<Kept*>(kProgram); }
// of the heap; tables reserve more addresses but do not touch them
constexpr size_t kSaved = size_t{2} << 30;

std::string folder;

void begin(const char* shims) {
  map(seam::kControlPage, seam::kControlPageSize);
  map(seam::kState, seam::kStateSize);
  map(seam::kHeapBegin, seam::kHeapEnd - seam::kHeapBegin);
  map(kProgram, 1 << 20);
  auto& record = seam::state()->threads[0];
  record.self = &record;
  seam::by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&record));
  launching::Boot boot;
  boot.installation = shims;
  boot.software_gpu = true;
  boot.software_gpus = kRanks;
  launching::set_software_devices(&boot);
  library().prepare(boot);
}

void save_range(FILE* f, uintptr_t begin, size_t bytes) {
  std::vector<unsigned char> resident(bytes / 4096);
  EXPECT(mincore(reinterpret_cast<void*>(begin), bytes, resident.data()) == 0);
  for (size_t i = 0; i < resident.size(); ++i) {
    if (!(resident[i] & 1)) continue;
    const uint64_t at = begin + i * 4096;
    fwrite(&at, 8, 1, f);
    fwrite(reinterpret_cast<void*>(at), 4096, 1, f);
  }
}

std::string image_of(int r) { return folder + "/image." + std::to_string(r); }

void save() {
  FILE* f = fopen(image_of(rank).c_str(), "wb");
  EXPECT(f != nullptr);
  fwrite(&seam::state()->threads[0].nccl_group, 8, 1, f);
  save_range(f, seam::kHeapBegin, kSaved);
  save_range(f, kProgram, 1 << 20);
  EXPECT(fclose(f) == 0);
}

void load() {
  FILE* f = fopen(image_of(rank).c_str(), "rb");
  EXPECT(f != nullptr && fread(&seam::state()->threads[0].nccl_group, 8, 1, f) == 1);
  uint64_t at = 0;
  while (fread(&at, 8, 1, f) == 1) EXPECT(fread(reinterpret_cast<void*>(at), 4096, 1, f) == 1);
  fclose(f);
}

// --- Device memory: not from the lower half in this test.
float* memory(int n) {
  void* p = nullptr;
  EXPECT((one_abi::function_of<cudaError_t(void**, size_t)>(cuda::kCudart, seam::cudart::kFn_cudaMalloc))(
             &p, static_cast<size_t>(n) * sizeof(float)) == cudaSuccess);
  return static_cast<float*>(p);
}
void set(float* to, float value) {
  EXPECT(CROPDL_CUDART(cudaMemcpy)(to, &value, sizeof value, cudaMemcpyHostToDevice) == cudaSuccess);
}
float get(const float* from) {
  float value = 0;
  EXPECT(CROPDL_CUDART(cudaMemcpy)(&value, from, sizeof value, cudaMemcpyDeviceToHost) == cudaSuccess);
  return value;
}

float reduced(ncclComm_t comm, float value, ncclRedOp_t op = ncclSum) {
  set(kept().values, value);
  FINE(lower_ncclAllReduce(kept().values, kept().values + 1, 1, ncclFloat32, op, comm, nullptr));
  return get(kept().values + 1);
}

coord::RankStatus status() {
  coord::RankStatus s;
  libraries().fill_status(s);
  return s;
}

// Whether both ranks have the same counts for the same communicators.
bool counts_are_equal() {
  const auto mine = status().counts;
  shared->words[rank][0] = mine.size();
  for (size_t i = 0; i < mine.size(); ++i) {
    shared->words[rank][1 + 2 * i] = mine[i].comm;
    shared->words[rank][2 + 2 * i] = mine[i].begun;
  }
  everyone();
  const bool equal =
      memcmp(shared->words[0], shared->words[1], (1 + 2 * mine.size()) * sizeof(uint64_t)) == 0;
  everyone();
  return equal;
}

ncclComm_t communicator(int number) {
  if (rank == 0) FINE(lower_ncclGetUniqueId(&shared->ids[number]));
  everyone();
  ncclComm_t comm = nullptr;
  FINE(lower_ncclCommInitRank(&comm, kRanks, shared->ids[number], rank));
  return comm;
}

int rank_in(ncclComm_t comm) {
  int r = -1;
  FINE(CROPDL_NCCL(ncclCommUserRank)(one_abi::real(comm, one_abi::kind::ncclComm), &r));
  return r;
}

void want(bool on) { seam::control()->attention = on ? seam::kAttentionStop : 0; }

// One group: send to the next rank, receive from the previous one, and a sum.
ncclResult_t exchange_in_a_group(ncclComm_t comm) {
  float* const v = kept().values;
  FINE(lower_ncclGroupStart());
  FINE(lower_ncclSend(v, 1, ncclFloat32, 1 - rank_in(comm), comm, nullptr));
  FINE(lower_ncclGroupStart());
  FINE(lower_ncclRecv(v + 2, 1, ncclFloat32, 1 - rank_in(comm), comm, nullptr));
  FINE(lower_ncclGroupEnd());
  FINE(lower_ncclAllReduce(v, v + 1, 1, ncclFloat32, ncclSum, comm, nullptr));
  return lower_ncclGroupEnd();
}

void a_held_call_leaves_and_comes_again(ncclComm_t comm) {
  const auto before = status().counts;
  const libraries::Libraries all = libraries();
  all.hold();
  counting::set_targets(before);
  want(true);
  set(kept().values, 5);
  EXPECT(lower_ncclAllReduce(kept().values, kept().values + 1, 1, ncclFloat32, ncclSum, comm, nullptr) ==
         kAgain);
  EXPECT(lower_ncclCommDestroy(comm) == kAgain);
  EXPECT(lower_ncclCommAbort(comm) == kAgain);
  EXPECT(exchange_in_a_group(comm) == kAgain);
  EXPECT(lower_ncclGroupEnd() == kAgain);
  EXPECT(status().counts == before);
  EXPECT(status().inside.empty() && status().held.empty());
  want(false);
  counting::release();
  FINE(lower_ncclGroupEnd());
  EXPECT(get(kept().values + 1) == 10 && get(kept().values + 2) == 5);
}

// Calls that NCCL refuses make nothing, count nothing, and wait for no rank.
void what_is_wrong_is_refused() {
  const auto before = status().counts;
  ncclUniqueId id{};
  FINE(lower_ncclGetUniqueId(&id));
  EXPECT(lower_ncclCommInitRank(nullptr, 1, id, 0) == ncclInvalidArgument);
  EXPECT(lower_ncclCommSplit(kept().world, 0, 0, nullptr, nullptr) == ncclInvalidArgument);
  ncclConfig_t garbage;
  memset(static_cast<void*>(&garbage), 0x41, sizeof garbage);
  ncclComm_t none = nullptr;
  EXPECT(lower_ncclCommInitRankConfig(&none, 1, id, 0, &garbage) == ncclInvalidArgument);
  EXPECT(lower_ncclCommSplit(kept().world, 0, 0, &none, &garbage) == ncclInvalidArgument);
  EXPECT(status().counts == before && status().inside.empty());
}

// In a group, the handle exists after the call; the communicator exists at the group's end.
ncclComm_t in_a_group(int number) {
  if (rank == 0) FINE(lower_ncclGetUniqueId(&shared->ids[number]));
  everyone();
  FINE(lower_ncclGroupStart());
  {
    ncclComm_t mine = nullptr;  // destroyed before the group's end
    FINE(lower_ncclCommInitRank(&mine, kRanks, shared->ids[number], rank));
    EXPECT(mine != nullptr && status().inside.empty());
    return mine;
  }
}

// Destroying also finalizes; either counts as the end, once.
void ends_are_counted_once() {
  const ncclComm_t comm = communicator(5);
  everyone();
  if (rank == 0) FINE(lower_ncclCommDestroy(comm));
  everyone();
  EXPECT(!counts_are_equal());
  if (rank == 1) EXPECT(cuda::nccl::went_on(lower_ncclCommFinalize(comm)));
  EXPECT(counts_are_equal());
  if (rank == 1) FINE(lower_ncclCommDestroy(comm));
  EXPECT(counts_are_equal());
  const ncclComm_t other = in_a_group(6);
  FINE(lower_ncclGroupEnd());
  EXPECT(reduced(other, 1) == 2);
  if (rank == 0) FINE(lower_ncclGroupStart());
  EXPECT(cuda::nccl::went_on(lower_ncclCommFinalize(other)));
  FINE(lower_ncclCommDestroy(other));
  if (rank == 0) FINE(lower_ncclGroupEnd());
  EXPECT(counts_are_equal());
}

void first_run() {
  kept().values = memory(16);
  kept().world = communicator(0);
  EXPECT(reduced(kept().world, static_cast<float>(rank + 1)) == 3);
  EXPECT(counts_are_equal());
  EXPECT(status().counts.size() == 1 && status().counts[0].begun == 1);
  EXPECT(status().counts[0].comm >> 56 == seam::kLibraryNccl);

  FINE(lower_ncclCommSplit(kept().world, 7, -rank, &kept().turned, nullptr));
  EXPECT(rank_in(kept().turned) == 1 - rank);
  ncclComm_t none = kept().world;
  FINE(lower_ncclCommSplit(kept().world, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr));
  EXPECT(none == nullptr);
  EXPECT(counts_are_equal() && status().counts.size() == 2);

  set(kept().values, static_cast<float>(10 + rank));
  FINE(exchange_in_a_group(kept().turned));
  EXPECT(get(kept().values + 1) == 21 && get(kept().values + 2) == static_cast<float>(11 - rank));
  EXPECT(counts_are_equal() && status().counts.size() == 4);

  a_held_call_leaves_and_comes_again(kept().turned);
  EXPECT(counts_are_equal());

  float two = 2;
  FINE(lower_ncclRedOpCreatePreMulSum(&kept().twice, &two, ncclFloat32, ncclScalarHostImmediate,
                                      kept().world));
  two = 0;
  EXPECT(reduced(kept().world, 4, kept().twice) == 16);
  FINE(lower_ncclCommRegister(kept().world, kept().values, 64, &kept().registered));

  // An error of this call only: the other rank need not make it.
  EXPECT(lower_ncclAllReduce(kept().values, kept().values, 1, ncclNumTypes, ncclSum, kept().world, nullptr) ==
         ncclInvalidArgument);
  FINE(lower_ncclGroupStart());
  EXPECT(lower_ncclAllReduce(kept().values, kept().values, 1, ncclNumTypes, ncclSum, kept().world, nullptr) ==
         ncclInvalidArgument);
  EXPECT(lower_ncclGroupEnd() == ncclInvalidArgument);
  EXPECT(counts_are_equal());

  // One rank ended it: the other counts as missing until it ends its own.
  const ncclComm_t short_lived = communicator(1);
  everyone();
  if (rank == 0) FINE(lower_ncclCommDestroy(short_lived));
  everyone();
  EXPECT(!counts_are_equal());
  if (rank == 1) FINE(lower_ncclCommDestroy(short_lived));
  EXPECT(counts_are_equal());
  // For an aborted communicator no count suffices, and a rank that has ended it is not missing.
  const ncclComm_t aborted = communicator(2);
  const auto listed = status().counts.size();
  everyone();
  if (rank == 0) FINE(lower_ncclCommAbort(aborted));
  everyone();
  EXPECT(!counts_are_equal());
  if (rank == 1) FINE(lower_ncclCommDestroy(aborted));
  EXPECT(status().counts.size() == listed);

  what_is_wrong_is_refused();
  EXPECT(library().quiesce());
  ends_are_counted_once();
  EXPECT(library().quiesce());

  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (rank == 0) FINE(lower_ncclGetUniqueId(&shared->ids[3]));
  everyone();
  const auto begin = [&] {
    return lower_ncclCommInitRankConfig(&kept().finalized, kRanks, shared->ids[3], rank, &config);
  };
  if (rank == 0) {  // only this rank, so that it cannot be completed yet
    EXPECT(begin() == ncclInProgress);
    EXPECT(status().inside.size() == 1);
  }
  everyone();
  if (rank == 1) EXPECT(cuda::nccl::went_on(begin()));
  ncclResult_t now = ncclInProgress;
  while (now == ncclInProgress) FINE(lower_ncclCommGetAsyncError(kept().finalized, &now));
  EXPECT(status().inside.empty());
  // A split in progress counts from the start, whether or not NCCL has returned a handle.
  ncclComm_t half = nullptr;
  EXPECT(cuda::nccl::went_on(lower_ncclCommSplit(kept().finalized, 0, rank, &half, nullptr)) && half);
  for (now = ncclInProgress; now == ncclInProgress;) FINE(lower_ncclCommGetAsyncError(half, &now));
  EXPECT(now == ncclSuccess);
  EXPECT(status().inside.empty());
  FINE(lower_ncclCommDestroy(half));
  EXPECT(library().quiesce());
  everyone();
  EXPECT(cuda::nccl::went_on(lower_ncclCommFinalize(kept().finalized)));

  // The cut: inside a group, with an unused id.
  if (rank == 0) FINE(lower_ncclGetUniqueId(&shared->ids[4]));
  everyone();
  kept().later = shared->ids[4];
  set(kept().values, 1);
  kept().planned = in_a_group(7);
  FINE(
      lower_ncclAllReduce(kept().values, kept().values + 1, 1, ncclFloat32, ncclSum, kept().turned, nullptr));
  everyone();
  want(true);  // only a stop waits for devices
  library().begin_drain({});
  while (!library().drain_step()) {
  }
  want(false);
  EXPECT(library().drain_trouble().empty());
  EXPECT(library().refusal().empty());
  EXPECT(library().quiesce());
  // two communicators, the two directions of a pair, and the finalized one
  EXPECT(counts_are_equal() && status().counts.size() == 5);
  save();
}

void second_run() {
  load();
  EXPECT(handles::heap_check() == nullptr);
  EXPECT(library().restart());
  snprintf(shared->texts[rank], sizeof shared->texts[rank], "%s", library().told_at_restart().c_str());
  everyone();
  const std::vector<std::string> told{shared->texts[0], shared->texts[1]};
  const std::vector<std::string> without_the_second{told[0], ""};
  const Status refused = library().finish_restart(without_the_second);
  EXPECT(!refused &&
         refused.error().message.find("of the 2 members of an NCCL communicator 1") != std::string::npos);
  EXPECT(library().finish_restart(told));
  EXPECT(counts_are_equal() && status().counts.size() == 5);

  {
    one_abi::Call begins;  // as the thread does in its first call: makes its device current again
  }
  kept().values = memory(16);
  // The open group is restored. Its buffers would be at their addresses, but not in this test.
  EXPECT(seam::state()->threads[0].nccl_group != 0);
  seam::state()->threads[0].nccl_group = 0;

  EXPECT(lower_ncclAllReduce(kept().values, kept().values, 1, ncclFloat32, ncclSum, kept().planned,
                             nullptr) == ncclInvalidArgument);  // it was about to be made
  EXPECT(rank_in(kept().world) == rank && rank_in(kept().turned) == 1 - rank);
  EXPECT(reduced(kept().world, static_cast<float>(rank + 1)) == 3);
  EXPECT(reduced(kept().world, 4, kept().twice) == 16);
  set(kept().values, static_cast<float>(10 + rank));
  FINE(exchange_in_a_group(kept().turned));
  EXPECT(get(kept().values + 1) == 21 && get(kept().values + 2) == static_cast<float>(11 - rank));
  FINE(lower_ncclCommDeregister(kept().world, kept().registered));
  FINE(lower_ncclRedOpDestroy(kept().twice, kept().world));

  ncclComm_t later = nullptr;
  FINE(lower_ncclCommInitRank(&later, kRanks, kept().later, rank));
  EXPECT(reduced(later, 3) == 6);
  EXPECT(counts_are_equal());
  // A collective call, and so are the other calls of its group: the software GPU returns no window.
  ncclWindow_t window = reinterpret_cast<ncclWindow_t>(1);
  FINE(lower_ncclGroupStart());
  FINE(lower_ncclCommWindowRegister(later, kept().values, 64, &window, 0));
  EXPECT(window != nullptr);
  FINE(lower_ncclGroupEnd());
  EXPECT(window == nullptr && counts_are_equal());
  EXPECT(library().refusal().empty());  // so nothing would be lost
  int size = 0;
  ncclResult_t now = ncclInProgress;
  FINE(lower_ncclCommCount(kept().finalized, &size));
  FINE(lower_ncclCommGetAsyncError(kept().finalized, &now));
  EXPECT(size == kRanks && now == ncclSuccess);
  for (ncclComm_t comm : {later, kept().finalized, kept().turned, kept().world})
    FINE(lower_ncclCommDestroy(comm));
  EXPECT(counts_are_equal());
  EXPECT(status().counts.size() == 4);
  EXPECT(library().quiesce());
  EXPECT(status().counts.empty());
}

bool run(const char* shims, void (*what)()) {
  pid_t children[kRanks];
  for (rank = 0; rank < kRanks; ++rank)
    if (children[rank] = fork(); children[rank] == 0) {
      begin(shims);
      if (what == first_run) {
        handles::heap_format();
        EXPECT(library().format());
        EXPECT(reinterpret_cast<cudaError_t (*)(int)>(
                   cropdl_cudart_lower_table[seam::cudart::kFn_cudaSetDevice])(rank) == cudaSuccess);
      }
      what();
      _exit(0);
    }
  bool good = true;
  for (pid_t child : children) {
    int status = 0;
    if (!good) kill(child, SIGKILL);  // it waits for the other rank
    waitpid(child, &status, 0);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  char name[] = "/tmp/nccl_ranks_XXXXXX";
  folder = mkdtemp(name);
  const bool good = run(argv[1], first_run) && run(argv[1], second_run);
  for (int r = 0; r < kRanks; ++r) unlink(image_of(r).c_str());
  rmdir(name);
  puts(good ? "all expectations hold" : "failed");
  return good ? 0 : 1;
}
