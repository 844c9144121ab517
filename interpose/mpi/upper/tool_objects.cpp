// The objects to which the tool interface's variables (MPI_T) are bound. A tool passes a handle's address,
// the variable says of which kind; the lower half gets the vid in its place. UH, any thread.
#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {
namespace {

template <Kind K>
Vid vid_at(const void* handle) {
  return handle_in<K>(*static_cast<const typename HandleOf<K>::type*>(handle));
}
// The kinds that the lower half has objects of.
constexpr struct {
  int binding;
  Vid (*vid_at)(const void* handle);
} kKinds[] = {{MPI_T_BIND_MPI_COMM, vid_at<Kind::kComm>}, {MPI_T_BIND_MPI_DATATYPE, vid_at<Kind::kDatatype>},
              {MPI_T_BIND_MPI_FILE, vid_at<Kind::kFile>}, {MPI_T_BIND_MPI_GROUP, vid_at<Kind::kGroup>},
              {MPI_T_BIND_MPI_OP, vid_at<Kind::kOp>},     {MPI_T_BIND_MPI_REQUEST, vid_at<Kind::kRequest>},
              {MPI_T_BIND_MPI_WIN, vid_at<Kind::kWin>},   {MPI_T_BIND_MPI_MESSAGE, vid_at<Kind::kMessage>}};

void* for_lower_half(int error, int binding, const void* handle) {
  for (const auto& kind : kKinds)
    if (error == MPI_SUCCESS && handle && kind.binding == binding)
      return reinterpret_cast<void*>(uintptr_t{kind.vid_at(handle)});
  return nullptr;
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
