// Functions that MPICH's C++ and Fortran libraries import besides MPI's: calling conventions of callbacks,
// and attributes with their languages' types (src/binding of MPICH 4.0). UH, any thread.
#include "interpose/mpi/upper/attributes.h"

using namespace cropdl;
using namespace cropdl::shim;

// MPIR_Attr_type of mpir_attr_generic.h: 0 a pointer, 1 an address integer, 3 a default integer.
static Language language_of(int attribute_type) {
  return attribute_type == 1   ? Language::kFortranAddress
         : attribute_type == 3 ? Language::kFortranInt
                               : Language::kC;
}

EXPORTED void MPII_Errhandler_set_cxx(MPI_Errhandler errhandler, void (*proxy)()) {
  if (Callback* c = callback_of(handle_in<Kind::kErrhandler>(errhandler))) c->proxy = proxy;
}
EXPORTED void MPII_Op_set_cxx(MPI_Op op, void (*proxy)()) {
  if (Callback* c = callback_of(handle_in<Kind::kOp>(op))) c->proxy = proxy;
}
EXPORTED void MPII_Keyval_set_proxy(int keyval, void (*copy)(), void (*remove)()) {
  set_keyval_proxies(keyval, copy, remove);
}

#define ATTRIBUTES(Type, Handle, kind)                                                               \
  EXPORTED int MPII_##Type##_set_attr(Handle object, int keyval, void* value, int type) {            \
    return set_attribute(handle_in<Kind::kind>(object), keyval, reinterpret_cast<int64_t>(value),    \
                         language_of(type), seam::kFn_MPI_##Type##_set_attr);                        \
  }                                                                                                  \
  EXPORTED int MPII_##Type##_get_attr(Handle object, int keyval, void* value, int* flag, int type) { \
    return get_attribute(handle_in<Kind::kind>(object), keyval, value, flag, language_of(type),      \
                         seam::kFn_MPI_##Type##_get_attr);                                           \
  }
ATTRIBUTES(Comm, MPI_Comm, kComm)
ATTRIBUTES(Type, MPI_Datatype, kDatatype)
ATTRIBUTES(Win, MPI_Win, kWin)

// MPI_DUP_FN, for all kinds (mpi.h).
EXPORTED int MPIR_Dup_fn(MPI_Comm, int, void*, void* in, void* out, int* flag) {
  *static_cast<void**>(out) = in;
  *flag = 1;
  return MPI_SUCCESS;
}

// MPICH's interface for stacked tools. Distributions build MPICH without it: the functions return this error.
#define NO_TOOLS(name, ...) \
  EXPORTED int QMPI_##name(__VA_ARGS__) { return MPI_ERR_UNSUPPORTED_OPERATION; }
NO_TOOLS(Register_tool_name, const char*, void (*)(int))
NO_TOOLS(Register_tool_storage, int, void*)
NO_TOOLS(Register_function, int, enum QMPI_Functions_enum, void (*)())
NO_TOOLS(Get_function, int, enum QMPI_Functions_enum, void (**)(), int*)
NO_TOOLS(Get_tool_storage, QMPI_Context, int, void**)
NO_TOOLS(Get_calling_address, QMPI_Context, void**)
