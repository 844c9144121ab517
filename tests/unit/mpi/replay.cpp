// Saves the objects of the lower half's MPI and makes them again, across processes and MPIs:
//   mpirun -n 3 lower_replay_openmpi save FILE      makes objects, leaves operations pending, saves heap and
//   memory mpirun -n 3 lower_replay_mpich resume FILE      loads them into new processes and continues
// With a second file, `resume` saves again, so that restarts can be chained. TAGS=N in the environment: as if
// the program had been given N as MPI_TAG_UB.
#include "tests/unit/mpi/rig.h"

#include "interpose/handles/heap.h"
#include "interpose/mpi/lower/state.h"
#include "mpi_constants.h"

using namespace rig;

namespace {

// The program's memory, at a fixed address.
struct Program {
  Vid dup, odd_even, reversed, leaders, group, column, pairs, structure, sum, pending[2], sent, matched,
      started;
  Vid cell, hints;
  int64_t cell_extent;
  int values[8];
  int matrix[16];
  double wtime;
  uint64_t generation;
};
// Each rank is saved this many seconds after the previous one, by its clock.
constexpr double kApart = 10;
Program& program_memory() { return *program<Program>(0); }

// A user-defined operation, called through the shim's function. Both are addresses of the program; since this
// test program is relocated, they are put at fixed addresses.
using Call = void (*)(void*, void*, void*, int, Vid);
void add_twice(void* in, void* inout, int n, Vid type) {
  EXPECT_EQ(type, kInt);
  for (int i = 0; i < n; ++i) static_cast<int*>(inout)[i] += 2 * static_cast<int*>(in)[i];
}
void upper_call(void* function, void* in, void* inout, int n, Vid type) {
  EXPECT_EQ(function, reinterpret_cast<void*>(0x1234));
  add_twice(in, inout, n, type);
}

// mov rax, [rip+2]; jmp rax; the address follows: code of "the program" at a fixed address.
void* fixed_code() { return program<void>(1 << 20); }
void place_code() {
  unsigned char code[] = {0x48, 0x8b, 0x05, 0x02, 0, 0, 0, 0xff, 0xe0};
  memcpy(fixed_code(), code, sizeof code);
  const Call target = upper_call;
  memcpy(static_cast<char*>(fixed_code()) + 9, &target, sizeof target);
  mprotect(fixed_code(), 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
}

// The program's environment: this process's, but for what the program has set and unset.
void place_environment() {
  static std::vector<char*> all;
  static char set[] = "MPIR_CVAR_OF_THE_PROGRAM=a=b", other[] = "PMI_OF_THE_PROGRAM=1",
              own[] = "OMPI_MCA_ess_of_the_program=1";
  for (char** one = environ; *one; ++one)
    if (strncmp(*one, "FI_OF_THE_SHELL=", 16) != 0) all.push_back(*one);
  for (char* one : {set, other, own, static_cast<char*>(nullptr)}) all.push_back(one);
  static char** programs_environ = all.data();
  state()->environ_variable = reinterpret_cast<uint64_t>(&programs_environ);
}

// The MPI got what the program has set and unset of its settings, and nothing else.
void see_environment() {
  EXPECT_STREQ(getenv("MPIR_CVAR_OF_THE_PROGRAM"), "a=b");
  EXPECT_EQ(getenv("FI_OF_THE_SHELL"), nullptr);
  EXPECT_EQ(getenv("PMI_OF_THE_PROGRAM"), nullptr);
  EXPECT_EQ(getenv("OMPI_MCA_ess_of_the_program"), nullptr);
  EXPECT_STREQ(getenv("OMPI_MCA_of_the_run"), getenv("GENERATION"));
#if !defined(OPEN_MPI)
  EXPECT_STREQ(getenv("MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD"), "0");  // so MPICH's count does not matter
#endif
}

int sum_on(Vid comm, int value) {
  int sum = -1;
  EXPECT_EQ(lower_MPI_Allreduce(&value, &sum, 1, kInt, kVid_MPI_SUM, comm), kSuccess);
  return sum;
}

void make() {
  Program& p = program_memory();
  p.wtime = lower_MPI_Wtime();
  EXPECT_EQ(lower_MPI_Comm_dup(kWorld, &p.dup), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_set_name(p.dup, "a duplicate"), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_set_name(kWorld, "all of us"), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_split(p.dup, rank % 2, 0, &p.odd_even), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_split(kWorld, 0, -rank, &p.reversed), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_group(p.reversed, &p.group), kSuccess);
  Vid pair = 0;
  const int two[2] = {0, 1};
  EXPECT_EQ(lower_MPI_Group_incl(p.group, 2, two, &pair), kSuccess);
  EXPECT_EQ(lower_MPI_Comm_create(p.dup, pair, &p.leaders), kSuccess);
  if (p.leaders != make_vid(Kind::kComm, 0)) {
    Vid again = 0;
    EXPECT_EQ(lower_MPI_Comm_create_group(kWorld, pair, 3, &again), kSuccess);
    EXPECT_EQ(lower_MPI_Comm_free(&again), kSuccess);
  }
  EXPECT_EQ(lower_MPI_Group_free(&pair), kSuccess);

  EXPECT_EQ(lower_MPI_Type_vector(4, 1, 4, kInt, &p.column), kSuccess);
  EXPECT_EQ(lower_MPI_Type_commit(&p.column), kSuccess);
  Vid base = 0, resized = 0;
  EXPECT_EQ(lower_MPI_Type_contiguous(2, kInt, &base), kSuccess);
  EXPECT_EQ(lower_MPI_Type_create_resized(base, 0, 16, &resized), kSuccess);
  EXPECT_EQ(lower_MPI_Type_contiguous(2, resized, &p.pairs), kSuccess);
  EXPECT_EQ(lower_MPI_Type_commit(&p.pairs), kSuccess);
  const int lengths[2] = {1, 2};
  const int64_t displacements[2] = {0, 8};
  const Vid types[2] = {kInt, base};
  EXPECT_EQ(lower_MPI_Type_create_struct(2, lengths, displacements, types, &p.structure), kSuccess);
  const Vid resized_inside[2] = {kVid_MPI_DOUBLE, resized};  // the MPIs give it different bounds
  EXPECT_EQ(lower_MPI_Type_create_struct(2, lengths, displacements, resized_inside, &p.cell), kSuccess);
  int64_t lower_bound = 0;
  EXPECT_EQ(lower_MPI_Type_get_extent(p.cell, &lower_bound, &p.cell_extent), kSuccess);
  EXPECT_EQ(lower_MPI_Type_free(&base), kSuccess);
  EXPECT_EQ(lower_MPI_Type_free(&resized), kSuccess);
  // As during a call that takes an Info.
  EXPECT_EQ(lower_MPI_Info_create(&p.hints), kSuccess);
  EXPECT_EQ(lower_MPI_Info_set(p.hints, "first", "a value"), kSuccess);
  EXPECT_EQ(lower_MPI_Info_set(p.hints, "second", "b"), kSuccess);
  EXPECT_EQ(lower_MPI_Info_set(p.hints, "second", "another value"), kSuccess);
  EXPECT_EQ(lower_MPI_Op_create(reinterpret_cast<void*>(0x1234), 1, &p.sum, fixed_code()), kSuccess);
}

// State at the cut: an unreceived message, a matched one, two pending receives, a completed send, a blocking
// receive that was interrupted.
void begin() {
  Program& p = program_memory();
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  for (int i = 0; i < 8; ++i) p.values[i] = -1;
  const int unreceived = 1000 + rank, matched = 2000 + rank;
  p.values[7] = 3000 + rank;
  EXPECT_EQ(lower_MPI_Send(&unreceived, 1, kInt, next, 10, p.dup), kSuccess);
  EXPECT_EQ(lower_MPI_Send(&matched, 1, kInt, next, 11, kWorld), kSuccess);
  EXPECT_EQ(lower_MPI_Isend(&p.values[7], 1, kInt, next, 12, kWorld, &p.sent), kSuccess);
  EXPECT_EQ(lower_MPI_Mprobe(previous, 11, kWorld, &p.matched, nullptr), kSuccess);
  EXPECT_EQ(lower_MPI_Irecv(&p.values[0], 1, kInt, kAnySource, 20, p.dup, &p.pending[0]), kSuccess);
  EXPECT_EQ(lower_MPI_Irecv(p.matrix, 1, p.column, previous, 21, kWorld, &p.pending[1]), kSuccess);
  want(true);
  EXPECT_EQ(lower_MPI_Recv(&p.values[5], 1, kInt, previous, 30, kWorld, nullptr), kAgain);
  want(false);
}

void finish() {
  Program& p = program_memory();
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const int a = 4000 + rank, b[4] = {1, 2, 3, 4 + rank}, c = 5000 + rank;
  EXPECT_EQ(lower_MPI_Send(&c, 1, kInt, next, 30, kWorld), kSuccess);
  EXPECT_EQ(lower_MPI_Send(&a, 1, kInt, next, 20, p.dup), kSuccess);
  EXPECT_EQ(lower_MPI_Send(b, 4, kInt, next, 21, kWorld), kSuccess);
  // The interrupted receive is called again before any other, as the shim does.
  EXPECT_EQ(lower_MPI_Recv(&p.values[5], 1, kInt, previous, 30, kWorld, nullptr), kSuccess);
  EXPECT_EQ(p.values[5], 5000 + previous);
  Status s{};
  EXPECT_EQ(lower_MPI_Recv(&p.values[1], 1, kInt, kAnySource, 10, p.dup, &s), kSuccess);
  EXPECT_EQ(p.values[1], 1000 + previous);
  EXPECT_EQ(s.source, previous);
  EXPECT_EQ(lower_MPI_Recv(&p.values[2], 1, kInt, previous, 12, kWorld, &s), kSuccess);
  EXPECT_EQ(p.values[2], 3000 + previous);
  EXPECT_EQ(lower_MPI_Wait(&p.sent, &s), kSuccess);
  EXPECT_EQ(lower_MPI_Mrecv(&p.values[3], 1, kInt, &p.matched, nullptr), kSuccess);
  EXPECT_EQ(p.values[3], 2000 + previous);
  EXPECT_EQ(lower_MPI_Waitall(2, p.pending, nullptr), kSuccess);
  EXPECT_EQ(p.values[0], 4000 + previous);
  EXPECT_EQ(p.matrix[12], 4 + previous);
}

void use() {
  Program& p = program_memory();
  char name[256] = {};
  int length = 0, r = -1, n = -1;
  EXPECT_EQ(lower_MPI_Comm_get_name(p.dup, name, &length), kSuccess);
  EXPECT_STREQ(name, "a duplicate");
  EXPECT_EQ(lower_MPI_Comm_get_name(kWorld, name, &length), kSuccess);
  EXPECT_STREQ(name, "all of us");
  EXPECT_EQ(sum_on(p.dup, 1), size);
  int odd_even = 0;
  for (int i = rank % 2; i < size; i += 2) odd_even += i;
  EXPECT_EQ(sum_on(p.odd_even, rank), odd_even);
  EXPECT_EQ(lower_MPI_Comm_rank(p.reversed, &r), kSuccess);
  EXPECT_EQ(r, size - 1 - rank);
  EXPECT_EQ(lower_MPI_Comm_size(p.reversed, &n), kSuccess);
  EXPECT_EQ(n, size);
  EXPECT_EQ(lower_MPI_Group_rank(p.group, &r), kSuccess);
  EXPECT_EQ(r, size - 1 - rank);
  const bool leader = rank >= size - 2;
  EXPECT_EQ(p.leaders != make_vid(Kind::kComm, 0), leader);
  if (leader) {
    EXPECT_EQ(sum_on(p.leaders, 10), 20);
  }

  int64_t lower_bound = 0, extent = 0;
  int bytes = 0;
  EXPECT_EQ(lower_MPI_Type_get_extent(p.pairs, &lower_bound, &extent), kSuccess);
  EXPECT_EQ(extent, 32);
  EXPECT_EQ(lower_MPI_Type_get_extent(p.cell, &lower_bound, &extent), kSuccess);
  EXPECT_EQ(extent, p.cell_extent);
  int integers = 0, addresses = 0, types = 0, combiner = 0;
  EXPECT_EQ(lower_MPI_Type_get_envelope(p.cell, &integers, &addresses, &types, &combiner), kSuccess);
  EXPECT_EQ(combiner, cropdl::seam::combiner::k_MPI_COMBINER_STRUCT);
  EXPECT_EQ(lower_MPI_Type_size(p.structure, &bytes), kSuccess);
  EXPECT_EQ(bytes, 20);
  int keys = 0, there = 0;
  EXPECT_EQ(lower_MPI_Info_get_nkeys(p.hints, &keys), kSuccess);
  EXPECT_EQ(keys, 2);
  EXPECT_EQ(lower_MPI_Info_get(p.hints, "second", sizeof name - 1, name, &there), kSuccess);
  EXPECT_EQ(there, 1);
  EXPECT_STREQ(name, "another value");
  int value = 1, result = -1;
  EXPECT_EQ(lower_MPI_Allreduce(&value, &result, 1, kInt, p.sum, kWorld), kSuccess);
  EXPECT_GT(result, size);  // 1 + 2 + 2 ..., however the MPI associates it
  // A new communicator gets an identity that no old one has.
  Vid fresh = 0;
  EXPECT_EQ(lower_MPI_Comm_dup(p.dup, &fresh), kSuccess);
  EXPECT_EQ(sum_on(fresh, 1), size);
  cropdl::coord::RankStatus status;
  libraries.fill_status(status);
  for (size_t i = 0; i < status.counts.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(status.counts[i].comm, status.counts[j].comm);
  }
  EXPECT_EQ(lower_MPI_Comm_free(&fresh), kSuccess);
  double now = lower_MPI_Wtime();
  EXPECT_GE(now, p.wtime);
  EXPECT_LT(now, p.wtime + 60);
  int64_t told = 0;
  int known = 0;
  EXPECT_EQ(lower_MPI_Comm_get_attr(kWorld, comm_attribute::k_MPI_WTIME_IS_GLOBAL, &told, &known), kSuccess);
  if (known && told) {
    double least = 0, most = 0;
    now = lower_MPI_Wtime();
    MPI_Allreduce(&now, &least, 1, MPI_DOUBLE, MPI_MIN, aside);
    MPI_Allreduce(&now, &most, 1, MPI_DOUBLE, MPI_MAX, aside);
    EXPECT_LT(most - least, kApart / 2);
  }
  if (const char* tags = getenv("TAGS")) {
    EXPECT_EQ(lower_MPI_Comm_get_attr(kWorld, comm_attribute::k_MPI_TAG_UB, &told, &known), kSuccess);
    EXPECT_EQ(known, 1);
    EXPECT_EQ(told, atoi(tags));
  }
}

class Replay : public ::testing::Test {};
std::string from, to;

TEST_F(Replay, Whole) {
  Program& p = program_memory();
  see_environment();
  if (from.empty()) {
    make();
    begin();
    use();
  } else {
    EXPECT_EQ(p.generation, static_cast<uint64_t>(atoi(getenv("GENERATION"))));
    if (p.generation % 2) use();  // before or after the operations pending at the cut
    finish();
    use();
    if (to.empty()) return;
    begin();
  }
  everyone();
  ++p.generation;
  p.wtime = lower_MPI_Wtime();
  drain();
  ASSERT_EQ(runtime->refusal(), "");
  ASSERT_EQ(runtime->drain_trouble(), "");
  ASSERT_TRUE(runtime->quiesce());
  everyone();
  save(to);
  everyone();
  runtime->resume();  // this process continues as well
  finish();
  use();
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool resume = argc > 2 && std::string(argv[1]) == "resume";
  if (argc < 3 || (!resume && std::string(argv[1]) != "save")) {
    fprintf(stderr, "usage: save FILE | resume FILE [FILE2]\n");
    return 2;
  }
  start();
  place_code();
  if (!resume) {
    to = argv[2];
    if (!libraries.format()) return 2;
    int provided = 0;
    place_environment();
    if (lower_MPI_Init_thread(kThreadSingle, &provided) != kSuccess) return 2;
  } else {
    from = argv[2];
    if (argc > 3) to = argv[3];
    const char* r = getenv("OMPI_COMM_WORLD_RANK");
    if (!r) r = getenv("PMI_RANK");
    load(from, atoi(r));
    place_code();
    auto* saved = reinterpret_cast<cropdl::mpi::State*>(
        cropdl::handles::heap_root(kLibraryMpi, cropdl::handles::kRootState));
    saved->wtime_at_save += kApart * saved->rank;
    if (const char* tags = getenv("TAGS")) saved->largest_tag_told = static_cast<uint32_t>(atoi(tags));
    const cropdl::Status s = libraries.restart();
    if (!s) {
      fprintf(stderr, "%s\n", s.error().message.c_str());
      return 3;
    }
  }
  know_world();
  const int failed = RUN_ALL_TESTS();
  MPI_Comm_free(&aside);
  finalize();
  return failed;
}
