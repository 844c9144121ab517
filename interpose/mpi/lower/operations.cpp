// Reduction operations of the program. The MPI calls a function that carries no context, so each operation gets one of
// a pool of functions of its own, which knows the operation by its number. LH, LH FS base, threads of the program; the
// program's function runs above the MPI's frames with the UH's FS base (no checkpoint meanwhile).
#include <utility>

#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::lower {
namespace {

constexpr size_t kThunks = 512;  // operations that may be alive at once; programs have a handful

struct Payload {
  uint64_t function;    // the program's
  uint64_t upper_call;  // the shim's: makes the program's handle of the datatype and calls the function
  uint64_t commute;
};

struct Thunk {
  bool used;
  Vid op;
  uint64_t function, upper_call;
  MPI_Datatype last_real;  // of the last call: the search for its vid is linear
  Vid last;
} thunks[kThunks];

using UpperCall = void (*)(void* function, void* in, void* inout, int length, Vid datatype);

void call(Thunk& t, void* in, void* inout, int length, MPI_Datatype type) {
  Vid vid = t.last;
  // A freed type's address may be another one's now.
  if (!vid || t.last_real != type || datatype(vid) != type) {
    vid = find_datatype(type);
    t.last_real = type;
    t.last = vid;
  }
  seam::call_upper<void>(reinterpret_cast<UpperCall>(t.upper_call), reinterpret_cast<void*>(t.function), in, inout,
                         length, vid);
}

template <size_t N>
void thunk(void* in, void* inout, int* length, MPI_Datatype* type) {
  call(thunks[N], in, inout, *length, *type);
}

template <size_t... N>
constexpr std::array<MPI_User_function*, sizeof...(N)> pool(std::index_sequence<N...>) {
  return {&thunk<N>...};
}
constexpr std::array<MPI_User_function*, kThunks> kPool = pool(std::make_index_sequence<kThunks>());

int make(const Payload& p, Vid vid, MPI_Op* made) {
  for (size_t n = 0; n < kThunks; ++n) {
    if (thunks[n].used) continue;
    thunks[n] = {true, vid, p.function, p.upper_call, MPI_DATATYPE_NULL, 0};
    const int code = MPI_Op_create(kPool[n], static_cast<int>(p.commute), made);
    if (code != MPI_SUCCESS) thunks[n].used = false;
    return code;
  }
  say("MPI_Op_create: more than %zu operations are alive; free those no longer needed", kThunks);
  return MPI_ERR_INTERN;
}

}  // namespace

int remake_op(Vid vid) {
  const auto* recipe = reinterpret_cast<const handles::Recipe*>(tables->slot(vid)->recipe);
  MPI_Op made = MPI_OP_NULL;
  const int code = make(*static_cast<const Payload*>(recipe->payload()), vid, &made);
  rebind(vid, to_word(made));
  return code;
}

}  // namespace cropdl::lower

using namespace cropdl;
using namespace cropdl::lower;
using seam::Vid;

extern "C" {

int lower_MPI_Op_create(void* user_fn, int commute, Vid* op, void* upper_call) {
  const Payload p{reinterpret_cast<uint64_t>(user_fn), reinterpret_cast<uint64_t>(upper_call), commute != 0};
  *op = kNullOp;
  const Vid vid = new_object(Kind::kOp, 0, seam::kFn_MPI_Op_create, {}, &p, sizeof p);
  if (!seam::vid_index(vid)) return seam::kErrIntern;
  MPI_Op made = MPI_OP_NULL;
  const int code = make(p, vid, &made);
  if (code != MPI_SUCCESS) {
    forget(vid);
    return error_out(code);
  }
  rebind(vid, to_word(made));
  *op = vid;
  return seam::kSuccess;
}

int lower_MPI_Op_free(Vid* op) {
  if (is_predefined(*op)) return seam::kErrOp;
  MPI_Op real = lower::op(*op);
  const int code = MPI_Op_free(&real);
  if (code != MPI_SUCCESS) return error_out(code);
  for (Thunk& t : thunks) {
    // A nonblocking reduction may still call it: its function is then not given to another operation.
    if (t.used && t.op == *op && state->unsaved_requests == 0) t.used = false;
  }
  forget(*op);
  *op = kNullOp;
  return seam::kSuccess;
}

}  // extern "C"
