// Calls the program's copy and delete functions in their language. UH, any thread.
#include "interpose/mpi/upper/attribute_callbacks.h"

#include <cstring>

#include "interpose/mpi/upper/fortran_handles.h"

namespace cropdl::shim {
namespace {

// libmpi_cxx reads these flags in the object to choose the C++ class of a callback's communicator.
void refresh_flags(Vid vid) {
#if defined(CROPDL_ABI_OPENMPI)
  MPI_Comm comm = handle_out<Kind::kComm>(vid);
  int inter = 0, topology = MPI_UNDEFINED;
  PMPI_Comm_test_inter(comm, &inter);
  if (!inter) PMPI_Topo_test(comm, &topology);
  const uint32_t flags = (inter ? 1 : 0) | (topology == MPI_CART ? 0x100 : topology == MPI_GRAPH ? 0x200 : 0);
  memcpy(reinterpret_cast<char*>(comm) + kFlagsOffset, &flags, sizeof flags);
#else
  (void)vid;
#endif
}

template <class F>
int with_handle(Vid vid, F run) {
  if (seam::vid_kind(vid) == Kind::kComm && vid_index(vid) >= seam::kFirstDynamic) refresh_flags(vid);
  switch (seam::vid_kind(vid)) {
    case Kind::kDatatype:
      return run(handle_out<Kind::kDatatype>(vid));
    case Kind::kWin:
      return run(handle_out<Kind::kWin>(vid));
    default:
      return run(handle_out<Kind::kComm>(vid));
  }
}

// MPICH's codes for how an attribute was set (mpir_attr_generic.h of MPICH 4.0).
int attribute_type(Language language) {
  return language == Language::kFortranInt ? 3 : language == Language::kFortranAddress ? 1 : 0;
}

}  // namespace

int run_copy(const Keyval& k, int keyval, Vid from, const Attribute& a, int64_t* out, int* flag) {
  *flag = 0;
  if (!k.copy) return MPI_SUCCESS;  // MPICH's MPI_NULL_COPY_FN
  return with_handle(from, [&](auto handle) -> int {
    using H = decltype(handle);
    if (k.copy_proxy) {
      void* copied = nullptr;
      const int r = reinterpret_cast<int (*)(void (*)(), int, int, void*, int, void*, void**, int*)>(
          k.copy_proxy)(k.copy, handle_to_fortran(from), keyval, k.extra, attribute_type(a.language),
                        reinterpret_cast<void*>(a.value), &copied, flag);
      *out = reinterpret_cast<int64_t>(copied);
      return r;
    }
    if (k.language == Language::kFortranInt) {
      MPI_Fint object = handle_to_fortran(from),
               extra = static_cast<MPI_Fint>(reinterpret_cast<intptr_t>(k.extra));
      MPI_Fint in = static_cast<MPI_Fint>(a.value), value = 0, wanted = 0, error = 0;
      using Copy = void (*)(MPI_Fint*, int*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*);
      reinterpret_cast<Copy>(k.copy)(&object, &keyval, &extra, &in, &value, &wanted, &error);
      *out = value;
      *flag = wanted != 0;
      return error;
    }
    if (k.language == Language::kFortranAddress) {
      MPI_Fint object = handle_to_fortran(from), wanted = 0, error = 0;
      MPI_Aint extra = reinterpret_cast<MPI_Aint>(k.extra), in = a.value, value = 0;
      using Copy = void (*)(MPI_Fint*, int*, MPI_Aint*, MPI_Aint*, MPI_Aint*, MPI_Fint*, MPI_Fint*);
      reinterpret_cast<Copy>(k.copy)(&object, &keyval, &extra, &in, &value, &wanted, &error);
      *out = value;
      *flag = wanted != 0;
      return error;
    }
    void* value = nullptr;
    using Copy = int (*)(H, int, void*, void*, void*, int*);
    const int r = reinterpret_cast<Copy>(k.copy)(handle, keyval, k.extra, reinterpret_cast<void*>(a.value),
                                                 &value, flag);
    *out = reinterpret_cast<int64_t>(value);
    return r;
  });
}

int run_remove(const Keyval& k, int keyval, Vid from, const Attribute& a) {
  if (!k.remove) return MPI_SUCCESS;
  return with_handle(from, [&](auto handle) -> int {
    using H = decltype(handle);
    if (k.remove_proxy) {
      return reinterpret_cast<int (*)(void (*)(), int, int, int, void*, void*)>(k.remove_proxy)(
          k.remove, handle_to_fortran(from), keyval, attribute_type(a.language),
          reinterpret_cast<void*>(a.value), k.extra);
    }
    if (k.language == Language::kFortranInt) {
      MPI_Fint object = handle_to_fortran(from),
               extra = static_cast<MPI_Fint>(reinterpret_cast<intptr_t>(k.extra));
      MPI_Fint value = static_cast<MPI_Fint>(a.value), error = 0;
      using Remove = void (*)(MPI_Fint*, int*, MPI_Fint*, MPI_Fint*, MPI_Fint*);
      reinterpret_cast<Remove>(k.remove)(&object, &keyval, &value, &extra, &error);
      return error;
    }
    if (k.language == Language::kFortranAddress) {
      MPI_Fint object = handle_to_fortran(from), error = 0;
      MPI_Aint extra = reinterpret_cast<MPI_Aint>(k.extra), value = a.value;
      using Remove = void (*)(MPI_Fint*, int*, MPI_Aint*, MPI_Aint*, MPI_Fint*);
      reinterpret_cast<Remove>(k.remove)(&object, &keyval, &value, &extra, &error);
      return error;
    }
    using Remove = int (*)(H, int, void*, void*);
    return reinterpret_cast<Remove>(k.remove)(handle, keyval, reinterpret_cast<void*>(a.value), k.extra);
  });
}

}  // namespace cropdl::shim
