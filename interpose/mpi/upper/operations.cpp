// User-defined reduction operations. The lower half's thunk of each calls upper_op_call, which calls the
// program's function in its language. UH. upper_op_call runs on a thread of the program, UH FS base, above an
// LH frame, so no checkpoint is taken inside.
#include "interpose/mpi/upper/objects.h"

#include "interpose/mpi/upper/fortran_handles.h"

namespace cropdl::shim {
namespace {

// Open MPI's Fortran library sets it later (ompi/op/op.h: OMPI_OP_FLAGS_FORTRAN_FUNC).
constexpr uint32_t kFortranFlag = 2;

void upper_op_call(void* user, void* in, void* inout, int length, Vid datatype) {
  auto* op = static_cast<Callback*>(user);
  if (length == seam::kOperationIsGone) return drop_callback(op);
  MPI_Datatype type = handle_out<Kind::kDatatype>(datatype);
  if (op->proxy) {
    if (kIsOpenMpi)  // libmpi_cxx's intercept takes the C++ function as its last argument
      reinterpret_cast<void (*)(void*, void*, int*, MPI_Datatype*, void (*)())>(op->function)(
          in, inout, &length, &type, op->proxy);
    else
      reinterpret_cast<void (*)(void*, void*, int, MPI_Datatype, void (*)())>(op->proxy)(in, inout, length,
                                                                                         type, op->function);
  } else if (op->op_flags & kFortranFlag) {
    MPI_Fint fortran = handle_to_fortran(datatype);
    reinterpret_cast<void (*)(void*, void*, int*, MPI_Fint*)>(op->function)(in, inout, &length, &fortran);
  } else if (op->language == Language::kC) {
    reinterpret_cast<MPI_User_function*>(op->function)(in, inout, &length, &type);
  } else {
    MPI_Count count = length;  // MPI_Op_create_c
    reinterpret_cast<void (*)(void*, void*, MPI_Count*, MPI_Datatype*)>(op->function)(in, inout, &count,
                                                                                      &type);
  }
}

int create_operation(void (*function)(), Language language, int commute, MPI_Op* op, seam::Fn fn) {
  if (!function || !op) return fail_mpi_call(kNoObject, seam::kErrArg, fn);
  Callback* callback = new_callback(Kind::kOp, function, language);
  Vid vid = make_vid(Kind::kOp, 0);
  const int r = call_library<int>(seam::kFn_MPI_Op_create, static_cast<void*>(callback),
                                  (commute != 0) | seam::kOperationIsToldOfItsEnd, &vid,
                                  reinterpret_cast<void*>(upper_op_call));
  if (r) {
    free(callback);
    return fail_mpi_call(kNoObject, r, fn);
  }
  bind_callback(vid, callback);
  *op = handle_out<Kind::kOp>(vid);
  return MPI_SUCCESS;
}

}  // namespace

MPI_FUNCTION(int, Op_create, MPI_User_function* function, int commute, MPI_Op* op) {
  return create_operation(reinterpret_cast<void (*)()>(function), Language::kC, commute, op,
                          seam::kFn_MPI_Op_create);
}
#if defined(CROPDL_ABI_MPICH)
MPI_FUNCTION(int, Op_create_c, MPI_User_function_c* function, int commute, MPI_Op* op) {
  return create_operation(reinterpret_cast<void (*)()>(function), Language::kCxx, commute, op,
                          seam::kFn_MPI_Op_create_c);
}
#endif

}  // namespace cropdl::shim
