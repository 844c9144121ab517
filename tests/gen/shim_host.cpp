// Runs an MPI program (built as a shared object with a `main`) on a shim and the lower half's MPI runtime,
// without a split process: the program, the shim and their libc are in a second linker namespace, and both
// halves have the same FS base. `shim_host PROGRAM.so [ARGUMENT...]`
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "interpose/libraries/libraries.h"
#include "interpose/seam/thread.h"

using namespace cropdl;

namespace {

void map(uintptr_t at, size_t bytes) {
  void* got = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  if (got != reinterpret_cast<void*>(at)) {
    perror("mmap of the window");
    exit(2);
  }
}

void park() {}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  map(seam::kControlPage, seam::kControlPageSize);
  map(seam::kState, seam::kStateSize);
  map(seam::kHeapBegin, seam::kHeapEnd - seam::kHeapBegin);
  static seam::ThreadRecord thread;
  thread.self = &thread;
  thread.lower_fs = thread.upper_fs = seam::by_kernel::fs_base();
  seam::by_kernel::set_gs_base(reinterpret_cast<uint64_t>(&thread));
  const libraries::Libraries libraries({libraries::mpi_library()});
  if (!libraries.format()) return 2;
  libraries.publish();
  seam::control()->park = park;

  void* program = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
  if (!program) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  auto* main = reinterpret_cast<int (*)(int, char**)>(dlsym(program, "main"));
  auto* flush = reinterpret_cast<int (*)(FILE*)>(dlsym(program, "fflush"));
  const int status = main(argc - 1, argv + 1);
  flush(nullptr);
  _exit(status);  // destructors in the namespace use a libc that is not the process's
}
