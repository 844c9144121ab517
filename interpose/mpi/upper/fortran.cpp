// MPI's functions that convert handles to Fortran integers and back, and statuses. UH, any thread.
#include "interpose/mpi/upper/fortran_handles.h"
#include "interpose/mpi/upper/objects.h"

namespace cropdl::shim {

#if defined(CROPDL_ABI_OPENMPI)
// The object behind a request's handle, where the Fortran library reads a persistent request's number
// (ompi/request/request.h: req_f_to_c_index). A number's object never changes.
struct alignas(16) RequestObject {
  Vid vid;
  char reserved[100];
  MPI_Fint number;
};
static_assert(__builtin_offsetof(RequestObject, number) == 0x68);

constexpr uint32_t kInBlock = 1024;
static RequestObject* blocks[(kUnknownIndex + 1) / kInBlock];
bool requests_are_read;

void* request_object(Vid vid) {
  const uint32_t index = vid_index(vid);
  if (seam::vid_kind(vid) != Kind::kRequest || index > kUnknownIndex) return nullptr;
  RequestObject** block = &blocks[index / kInBlock];
  RequestObject* objects = __atomic_load_n(block, __ATOMIC_ACQUIRE);
  if (!objects) {
    auto* made = allocate<RequestObject>(kInBlock);
    for (uint32_t i = 0; i < kInBlock; ++i) {
      made[i].vid = make_vid(Kind::kRequest, index / kInBlock * kInBlock + i);
      made[i].number = static_cast<MPI_Fint>(made[i].vid);
    }
    if (__atomic_compare_exchange_n(block, &objects, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      objects = made;
    } else {
      free(made);  // another thread was first
    }
  }
  return &objects[index % kInBlock];
}

// Stores once; later calls only load, so the cache line stays shared between threads.
static void note_fortran() {
  if (!__atomic_load_n(&requests_are_read, __ATOMIC_RELAXED))
    __atomic_store_n(&requests_are_read, true, __ATOMIC_RELAXED);
}

// The Fortran library's MPI_Alltoallw and MPI_Ialltoallw read the number of datatypes in the object: the size
// of the local or remote group. It stays 0 for an invalid communicator.
static MPI_Comm with_sizes(MPI_Comm comm) {
  char* object = reinterpret_cast<char*>(comm);
  char *local = object + kGroupsOffset, *remote = local + kGroupSpace;
  int* local_size = reinterpret_cast<int*>(local + kGroupSizeOffset);
  if (__builtin_expect(__atomic_load_n(local_size, __ATOMIC_ACQUIRE) > 0, 1)) return comm;
  const Vid vid = handle_in<Kind::kComm>(comm);
  int size = 0, inter = 0, remote_size = 0;
  // Without the error handler: the call itself reports an invalid communicator.
  if (vid_index(vid) != 0 && ompi_mpi_state == 2 &&
      call_library<int>(seam::kFn_MPI_Comm_size, vid, &size) == seam::kSuccess &&
      call_library<int>(seam::kFn_MPI_Comm_test_inter, vid, &inter) == seam::kSuccess && inter)
    call_library<int>(seam::kFn_MPI_Comm_remote_size, vid, &remote_size);
  const uint32_t flags = 1;
  if (inter) __builtin_memcpy(object + kFlagsOffset, &flags, sizeof flags);
  __builtin_memcpy(object + kLocalGroupOffset, &local, sizeof local);
  __builtin_memcpy(object + kRemoteGroupOffset, &remote, sizeof remote);
  __builtin_memcpy(remote + kGroupSizeOffset, &remote_size, sizeof remote_size);
  __atomic_store_n(local_size, size, __ATOMIC_RELEASE);  // stored last, after all other fields
  return comm;
}
#endif

// MPICH defines all of these but the file's as macros that cast.
#define TO_FORTRAN(Name, Handle, kind)                            \
  MPI_FUNCTION(MPI_Fint, Name##_c2f, Handle handle) {             \
    return to_fortran<Kind::kind>(handle_in<Kind::kind>(handle)); \
  }
#define FORTRAN(Name, Handle, kind) \
  TO_FORTRAN(Name, Handle, kind)    \
  MPI_FUNCTION(Handle, Name##_f2c, MPI_Fint number) { return from_fortran<Kind::kind>(number); }
FORTRAN(File, MPI_File, kFile)
#if defined(CROPDL_ABI_OPENMPI)
TO_FORTRAN(Comm, MPI_Comm, kComm)
// The Fortran library calls this before it makes a request, so a request's handle never changes form.
MPI_FUNCTION(MPI_Comm, Comm_f2c, MPI_Fint number) {
  note_fortran();
  return with_sizes(from_fortran<Kind::kComm>(number));
}
FORTRAN(Type, MPI_Datatype, kDatatype)
FORTRAN(Group, MPI_Group, kGroup)
FORTRAN(Op, MPI_Op, kOp)
TO_FORTRAN(Request, MPI_Request, kRequest)
MPI_FUNCTION(MPI_Request, Request_f2c, MPI_Fint number) {
  note_fortran();
  return from_fortran<Kind::kRequest>(number);
}
FORTRAN(Message, MPI_Message, kMessage)
FORTRAN(Win, MPI_Win, kWin)
FORTRAN(Info, MPI_Info, kInfo)
FORTRAN(Errhandler, MPI_Errhandler, kErrhandler)
#endif

// A Fortran status has the words of the C status (mpif.h of both).
MPI_FUNCTION(int, Status_c2f, const MPI_Status* from, MPI_Fint* to) {
  if (!status_wanted(from)) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Status_c2f);
  __builtin_memcpy(to, from, sizeof *from);
  return MPI_SUCCESS;
}
MPI_FUNCTION(int, Status_f2c, const MPI_Fint* from, MPI_Status* to) {
  if (!from) return fail_mpi_call(kNoObject, seam::kErrArg, seam::kFn_MPI_Status_f2c);
  __builtin_memcpy(to, from, sizeof *to);
  return MPI_SUCCESS;
}

}  // namespace cropdl::shim
