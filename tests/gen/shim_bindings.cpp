// The MPIs' C++ bindings (libmpi_cxx, libmpichcxx) run unmodified on the shim. Includes only mpi.h; built
// with plain mpicxx. Returns the number of failed expectations. Run with 2 ranks.
#include <mpi.h>

#include <cstdio>

static int broken;
#define EXPECT(what)                                                  \
  do {                                                                \
    if (!(what)) {                                                    \
      ++broken;                                                       \
      std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
    }                                                                 \
  } while (0)

static void add(const void* in, void* inout, int n, const MPI::Datatype& type) {
  EXPECT(type == MPI::INT);
  for (int i = 0; i < n; ++i) static_cast<int*>(inout)[i] += static_cast<const int*>(in)[i];
}

static int handled;
static void handler(MPI::Comm& comm, int* code, ...) {
  EXPECT(comm != MPI::COMM_NULL && *code != MPI::SUCCESS);
  ++handled;
}

static int copied, deleted;
static int copy(const MPI::Comm&, int, void*, void* in, void* out, bool& flag) {
  ++copied;
  *static_cast<void**>(out) = in;
  flag = true;
  return MPI::SUCCESS;
}
static int forget(MPI::Comm&, int, void*, void*) {
  ++deleted;
  return MPI::SUCCESS;
}

extern "C" int main(int argc, char** argv) {
  MPI::Init(argc, argv);
  const int rank = MPI::COMM_WORLD.Get_rank(), size = MPI::COMM_WORLD.Get_size();
  EXPECT(size == 2);
  int out = rank, in = -1;
  MPI::Status status;
  MPI::COMM_WORLD.Sendrecv(&out, 1, MPI::INT, 1 - rank, 3, &in, 1, MPI::INT, MPI::ANY_SOURCE, MPI::ANY_TAG,
                           status);
  EXPECT(in == 1 - rank && status.Get_source() == 1 - rank && status.Get_count(MPI::INT) == 1);
  MPI::Op op;
  op.Init(add, true);
  int mine[2] = {rank, 2}, sum[2] = {0, 0};
  MPI::COMM_WORLD.Allreduce(mine, sum, 2, MPI::INT, op);
  EXPECT(sum[0] == 1 && sum[1] == 4);
  op.Free();

  MPI::Errhandler errhandler = MPI::Comm::Create_errhandler(handler);
  MPI::Intracomm dup = MPI::COMM_WORLD.Dup();
  dup.Set_errhandler(errhandler);
  errhandler.Free();
  dup.Send(&out, 1, MPI::INT, 99, 0);
  EXPECT(handled == 1);

  int keyval = MPI::Comm::Create_keyval(copy, forget, nullptr);
  dup.Set_attr(keyval, &copied);
  MPI::Intracomm second = dup.Dup();
  void* value = nullptr;
  EXPECT(second.Get_attr(keyval, &value) && value == &copied && copied == 1);
  second.Free();
  dup.Free();
  EXPECT(deleted == 2);
  MPI::Comm::Free_keyval(keyval);
  MPI::Datatype pair = MPI::INT.Create_contiguous(2);
  pair.Commit();
  int both[2] = {rank, rank + 10};
  MPI::COMM_WORLD.Bcast(both, 1, pair, 1);
  EXPECT(both[0] == 1 && both[1] == 11);
  pair.Free();
  MPI::Finalize();
  if (broken == 0 && rank == 0) std::printf("all expectations hold\n");
  return broken;
}
