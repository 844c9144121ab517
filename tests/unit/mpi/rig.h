// The environment of the MPI runtime without a lower half: the heap, the control page, a thread record, and
// "program" memory at a fixed address that can be saved and loaded. Both halves use the process's FS base.
// All ranks run the same tests in the same order; `cut` does the agreement's work by native calls between
// ranks.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "interpose/libraries/libraries.h"
#include "interpose/mpi/lower/runtime.h"
#include "interpose/seam/state.h"
#include "interpose/seam/thread.h"
#include "lower_functions.h"
#include "mpi_predefined.h"

namespace rig {

using namespace cropdl::seam;
using cropdl::seam::Status;  // not the one of base/result.h

inline constexpr Vid kWorld = kVid_MPI_COMM_WORLD;
inline constexpr Vid kInt = kVid_MPI_INT;
inline constexpr Vid kByte = kVid_MPI_BYTE;
inline constexpr size_t kHeapSize = kHeapEnd - kHeapBegin;
inline constexpr size_t kProgramSize = 64 << 20;

inline cropdl::libraries::Library* const runtime = cropdl::libraries::mpi_library();
inline const cropdl::libraries::Libraries libraries({runtime});
inline int rank, size;
inline MPI_Comm aside = MPI_COMM_NULL;  // the test's own communicator, unknown to the runtime
inline ThreadRecord& thread_record = state()->threads[0];  // of the test's main thread

inline void map(uintptr_t at, size_t bytes) {
  void* got = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  if (got != reinterpret_cast<void*>(at)) {
    perror("mmap of the window");
    _exit(2);
  }
}

inline void start() {
  map(kControlPage, kControlPageSize);
  map(kState, kStateSize);
  map(kHeapBegin, kHeapSize);
  map(kMapBegin, kProgramSize);
  thread_record.self = &thread_record;
  thread_record.lower_fs = thread_record.upper_fs = by_kernel::fs_base();
  by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&thread_record));
}

inline void know_world() {
  MPI_Comm_dup(MPI_COMM_WORLD, &aside);
  MPI_Comm_rank(aside, &rank);
  MPI_Comm_size(aside, &size);
}

// Program memory: its addresses survive a restart.
template <class T>
T* program(size_t offset) {
  return reinterpret_cast<T*>(kMapBegin + offset);
}

inline void everyone() { MPI_Barrier(aside); }

inline std::vector<cropdl::coord::PeerCount> exchange_counts() {
  std::vector<uint64_t> sent(static_cast<size_t>(size)), expected(sent.size());
  for (const auto& p : runtime->sent()) sent[p.world_rank] = p.messages;
  MPI_Alltoall(sent.data(), 1, MPI_UINT64_T, expected.data(), 1, MPI_UINT64_T, aside);
  std::vector<cropdl::coord::PeerCount> all;
  for (uint32_t r = 0; r < expected.size(); ++r) all.push_back({r, expected[r]});
  return all;
}

inline void drain() {
  runtime->begin_drain(exchange_counts());
  while (!runtime->drain_step()) {
    ASSERT_EQ(runtime->drain_trouble(), "");
  }
  everyone();
}

// A whole cut, after which this process continues.
inline void cut() {
  drain();
  ASSERT_EQ(runtime->refusal(), "");
  const auto quiet = runtime->quiesce();
  ASSERT_TRUE(quiet) << quiet.error().message;
  everyone();
  runtime->resume();
}

inline void want(bool on) { control()->attention = on ? kAttentionStop : 0; }

// --- Saving and loading: nonzero pages, preceded by the thread's pending calls.
inline void save_range(FILE* f, uintptr_t begin, size_t bytes) {
  std::vector<unsigned char> resident(bytes / 4096);
  if (mincore(reinterpret_cast<void*>(begin), bytes, resident.data()) != 0) _exit(2);
  for (size_t i = 0; i < resident.size(); ++i) {
    if (!(resident[i] & 1)) continue;
    const uint64_t at = begin + i * 4096;
    fwrite(&at, 8, 1, f);
    fwrite(reinterpret_cast<void*>(at), 4096, 1, f);
  }
}

inline void save(const std::string& path) {
  FILE* f = fopen((path + "." + std::to_string(rank)).c_str(), "wb");
  ASSERT_NE(f, nullptr);
  fwrite(thread_record.pending, sizeof thread_record.pending, 1, f);
  save_range(f, kHeapBegin, size_t{8} << 30);  // tables reserve addresses; no test touches more than this
  save_range(f, kMapBegin, kProgramSize);
  ASSERT_EQ(fclose(f), 0);
}

inline void load(const std::string& path, int of_rank) {
  FILE* f = fopen((path + "." + std::to_string(of_rank)).c_str(), "rb");
  if (!f || fread(thread_record.pending, sizeof thread_record.pending, 1, f) != 1) {
    perror(path.c_str());
    _exit(2);
  }
  uint64_t at = 0;
  while (fread(&at, 8, 1, f) == 1) {
    if (fread(reinterpret_cast<void*>(at), 4096, 1, f) != 1) _exit(2);
  }
  fclose(f);
}

// MPI_Finalize, the last call. Open MPI's waits 2 s for mpirun to take note (PMIx_Finalize, seen in
// PMIx 4.2). On a busy machine mpirun may then see the end of the process first, and says that it ended
// "improperly".
inline void finalize() {
  const auto begin = std::chrono::steady_clock::now();
  lower_MPI_Finalize();
  if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(1500))
    std::this_thread::sleep_for(std::chrono::seconds(10));
}

// main() of a test program that needs exactly `ranks` processes.
inline int run(int argc, char** argv, int ranks) {
  testing::InitGoogleTest(&argc, argv);
  start();
  if (!libraries.format()) return 2;
  int provided = 0;
  if (lower_MPI_Init_thread(kThreadSingle, &provided) != kSuccess) return 2;
  know_world();
  if (size != ranks) {
    fprintf(stderr, "run with %d ranks\n", ranks);
    return 2;
  }
  const int failed = RUN_ALL_TESTS();
  MPI_Comm_free(&aside);
  finalize();
  return failed;
}

}  // namespace rig
