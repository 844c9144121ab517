// Calls the program's copy and delete functions in their language. UH, any thread.
#include "interpose/mpi/upper/attributes.h"
#include "interpose/mpi/upper/fortran_handles.h"

namespace cropdl::shim {
namespace {

// libmpi_cxx reads these flags in the object to choose the C++ class of a callback's communicator.
void refresh_flags([[maybe_unused]] Vid vid) {
#if defined(CROPDL_ABI_OPENMPI)
  if (seam::vid_kind(vid) != Kind::kComm || vid_index(vid) < seam::kFirstDynamic) return;
  MPI_Comm comm = handle_out<Kind::kComm>(vid);
  int inter = 0, topology = MPI_UNDEFINED;
  PMPI_Comm_test_inter(comm, &inter);
  if (!inter) PMPI_Topo_test(comm, &topology);
  const uint32_t flags = (inter ? 1 : 0) | (topology == MPI_CART ? 0x100 : topology == MPI_GRAPH ? 0x200 : 0);
  memcpy(reinterpret_cast<char*>(comm) + kFlagsOffset, &flags, sizeof flags);
#endif
}

// MPICH's codes for how an attribute was set (mpir_attr_generic.h of MPICH 4.0).
int attribute_type(Language language) {
  return language == Language::kFortranInt ? 3 : language == Language::kFortranAddress ? 1 : 0;
}

template <class Integer>
int run_fortran_copy(const Keyval& k, int keyval, Vid from, const Attribute& a, int64_t* out, int* flag) {
  MPI_Fint object = handle_to_fortran(from), wanted = 0, error = 0;
  Integer extra = static_cast<Integer>(reinterpret_cast<intptr_t>(k.extra));
  Integer in = static_cast<Integer>(a.value), value = 0;
  using Copy = void (*)(MPI_Fint*, int*, Integer*, Integer*, Integer*, MPI_Fint*, MPI_Fint*);
  reinterpret_cast<Copy>(k.copy)(&object, &keyval, &extra, &in, &value, &wanted, &error);
  *out = value;
  *flag = wanted != 0;
  return error;
}

template <class Integer>
int run_fortran_remove(const Keyval& k, int keyval, Vid from, const Attribute& a) {
  MPI_Fint object = handle_to_fortran(from), error = 0;
  Integer extra = static_cast<Integer>(reinterpret_cast<intptr_t>(k.extra));
  Integer value = static_cast<Integer>(a.value);
  using Remove = void (*)(MPI_Fint*, int*, Integer*, Integer*, MPI_Fint*);
  reinterpret_cast<Remove>(k.remove)(&object, &keyval, &value, &extra, &error);
  return error;
}

}  // namespace

int run_copy(const Keyval& k, int keyval, Vid from, const Attribute& a, int64_t* out, int* flag) {
  *out = 0;
  *flag = 0;
  if (!k.copy) return MPI_SUCCESS;  // MPICH's MPI_NULL_COPY_FN
  refresh_flags(from);
  if (!k.copy_proxy && k.language == Language::kFortranInt)
    return run_fortran_copy<MPI_Fint>(k, keyval, from, a, out, flag);
  if (!k.copy_proxy && k.language == Language::kFortranAddress)
    return run_fortran_copy<MPI_Aint>(k, keyval, from, a, out, flag);
  void *in = reinterpret_cast<void*>(a.value), *copied = nullptr;
  int r;
  if (k.copy_proxy) {
    using Copy = int (*)(void (*)(), int, int, void*, int, void*, void**, int*);
    r = reinterpret_cast<Copy>(k.copy_proxy)(k.copy, handle_to_fortran(from), keyval, k.extra,
                                             attribute_type(a.language), in, &copied, flag);
  } else {
    r = with_kind(from, [&]<Kind K>() {
      using Copy = int (*)(typename HandleOf<K>::type, int, void*, void*, void*, int*);
      return reinterpret_cast<Copy>(k.copy)(handle_out<K>(from), keyval, k.extra, in, &copied, flag);
    });
  }
  *out = reinterpret_cast<int64_t>(copied);
  return r;
}

int run_remove(const Keyval& k, int keyval, Vid from, const Attribute& a) {
  if (!k.remove) return MPI_SUCCESS;
  refresh_flags(from);
  void* value = reinterpret_cast<void*>(a.value);
  if (k.remove_proxy) {
    return reinterpret_cast<int (*)(void (*)(), int, int, int, void*, void*)>(k.remove_proxy)(
        k.remove, handle_to_fortran(from), keyval, attribute_type(a.language), value, k.extra);
  }
  if (k.language == Language::kFortranInt) return run_fortran_remove<MPI_Fint>(k, keyval, from, a);
  if (k.language == Language::kFortranAddress) return run_fortran_remove<MPI_Aint>(k, keyval, from, a);
  return with_kind(from, [&]<Kind K>() {
    using Remove = int (*)(typename HandleOf<K>::type, int, void*, void*);
    return reinterpret_cast<Remove>(k.remove)(handle_out<K>(from), keyval, value, k.extra);
  });
}

}  // namespace cropdl::shim
