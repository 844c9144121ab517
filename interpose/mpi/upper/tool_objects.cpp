// The objects to which variables of the tool interface (MPI_T) are bound. A tool passes the address of a
// handle, and the variable says of which kind; the lower half gets the vid in place of the address. UH, any
// thread.
#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {
namespace {

template <Kind K, class H>
Vid vid_at(const void* handle) {
  return handle_in<K>(*static_cast<const H*>(handle));
}

// 0: of a kind that the lower half has no objects of.
Vid bound_object(int binding, const void* handle) {
  switch (binding) {
    case MPI_T_BIND_MPI_COMM:
      return vid_at<Kind::kComm, MPI_Comm>(handle);
    case MPI_T_BIND_MPI_DATATYPE:
      return vid_at<Kind::kDatatype, MPI_Datatype>(handle);
    case MPI_T_BIND_MPI_FILE:
      return vid_at<Kind::kFile, MPI_File>(handle);
    case MPI_T_BIND_MPI_GROUP:
      return vid_at<Kind::kGroup, MPI_Group>(handle);
    case MPI_T_BIND_MPI_OP:
      return vid_at<Kind::kOp, MPI_Op>(handle);
    case MPI_T_BIND_MPI_REQUEST:
      return vid_at<Kind::kRequest, MPI_Request>(handle);
    case MPI_T_BIND_MPI_WIN:
      return vid_at<Kind::kWin, MPI_Win>(handle);
    case MPI_T_BIND_MPI_MESSAGE:
      return vid_at<Kind::kMessage, MPI_Message>(handle);
    default:
      return 0;
  }
}

void* for_lower_half(int error, int binding, const void* handle) {
  if (error != MPI_SUCCESS || binding == MPI_T_BIND_NO_OBJECT || !handle) return nullptr;
  return reinterpret_cast<void*>(static_cast<uintptr_t>(bound_object(binding, handle)));
}

}  // namespace

void* object_of_cvar(int index, const void* handle) {
  int verbosity, binding = 0, scope;
  MPI_T_enum choices;
  const int error = PMPI_T_cvar_get_info(index, nullptr, nullptr, &verbosity, nullptr, &choices, nullptr,
                                         nullptr, &binding, &scope);
  return for_lower_half(error, binding, handle);
}

void* object_of_pvar(int index, const void* handle) {
  int verbosity, kind, binding = 0, readonly, continuous, atomic;
  MPI_T_enum choices;
  const int error = PMPI_T_pvar_get_info(index, nullptr, nullptr, &verbosity, &kind, nullptr, &choices,
                                         nullptr, nullptr, &binding, &readonly, &continuous, &atomic);
  return for_lower_half(error, binding, handle);
}

}  // namespace cropdl::shim
