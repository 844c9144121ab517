// Reduction operations of the program. The MPI calls a function without context, so each operation gets one
// function of a pool, which knows its operation by number. LH, LH FS base, threads of the program. The
// program's function runs above the MPI's frames, UH FS base; no checkpoint meanwhile.
#include <utility>

#include "base/format.h"
#include "interpose/mpi/lower/state.h"
#include "lower_functions.h"

namespace cropdl::mpi {
namespace {

constexpr size_t kThunks = 2048;  // maximum number of live operations; programs have a handful

struct Payload {
  uint64_t function;    // the program's
  uint64_t upper_call;  // the shim's: makes the datatype's handle and calls `function`
  uint64_t commute;     // bit 0
};

struct Thunk {
  bool used;  // changed under structure_lock
  uint64_t function, upper_call;
  MPI_Datatype last_real;  // cached from the last call: the search for the vid is linear
  Vid last;
} thunks[kThunks];

using UpperCall = void (*)(void* function, void* in, void* inout, int length, Vid datatype);

__attribute__((noinline)) void call_thunk(Thunk& t, void* in, void* inout, int length, MPI_Datatype type) {
  Vid vid = t.last;
  // The address of a freed type may belong to another type now.
  if (!vid || t.last_real != type || datatype(vid) != type) {
    vid = find_vid(Kind::kDatatype, to_word(type));
    t.last_real = type;
    t.last = vid;
  }
  seam::call_upper<void>(reinterpret_cast<UpperCall>(t.upper_call), reinterpret_cast<void*>(t.function), in,
                         inout, length, vid);
}

template <size_t N>
void thunk(void* in, void* inout, int* length, MPI_Datatype* type) {
  call_thunk(thunks[N], in, inout, *length, *type);
}

template <size_t... N>
constexpr std::array<MPI_User_function*, sizeof...(N)> pool(std::index_sequence<N...>) {
  return {&thunk<N>...};
}
constexpr std::array<MPI_User_function*, kThunks> kPool = pool(std::make_index_sequence<kThunks>());

int make(const Payload& p, Vid vid) {
  size_t n = 0;
  {
    handles::SpinGuard guard(structure_lock, multiple);
    while (n < kThunks && thunks[n].used) ++n;
    if (n < kThunks) thunks[n] = {true, p.function, p.upper_call, MPI_DATATYPE_NULL, 0};
  }
  if (n == kThunks) {
    say_of_rank(
        formatted("MPI_Op_create: more than {} operations are alive; free those no longer needed", kThunks));
    return MPI_ERR_INTERN;
  }
  MPI_Op made = MPI_OP_NULL;
  const int code = MPI_Op_create(kPool[n], static_cast<int>(p.commute & 1), &made);
  if (code == MPI_SUCCESS) {
    tables->slot(vid)->owner[0] = n;
    tables->slot(vid)->owner[1] = p.commute & seam::kOperationIsToldOfItsEnd;
    rebind_handle(vid, to_word(made));
  } else {
    thunks[n].used = false;
  }
  return code;
}

// Called when the program freed the operation (Tables::free), or a request that used it is complete (let_go).
// Frees the operation and its thunk; the shim's record of it last.
void release_op(Vid vid, void (handles::Tables::*release)(handles::Handle, std::vector<handles::Handle>&)) {
  Thunk gone;
  bool is_told = false;
  {
    std::vector<handles::Handle> dropped;
    handles::SpinGuard guard(structure_lock, multiple);
    (tables->*release)(vid, dropped);
    if (dropped.empty()) return;
    MPI_Op real = op(vid);
    if (to_word(real) && real != MPI_OP_NULL) MPI_Op_free(&real);
    rebind_handle(vid, 0);
    const handles::Slot* s = tables->slot(vid);
    is_told = s->owner[1] != 0;
    gone = thunks[s->owner[0]];
    thunks[s->owner[0]].used = false;
  }
  if (is_told)
    seam::call_upper<void>(reinterpret_cast<UpperCall>(gone.upper_call),
                           reinterpret_cast<void*>(gone.function), static_cast<void*>(nullptr),
                           static_cast<void*>(nullptr), seam::kOperationIsGone, Vid{0});
}

}  // namespace

void keep_op(Vid request, Vid op, Vid type) {
  if (is_predefined(op) || !seam::vid_index(request)) return;
  RequestRecord* r = request_record(request);
  r->more[1] = op;
  r->more[3] = type;
  // The program's function must not run while a rank is stopped: no cut before the request is handed out.
  if (r->kind == kCollectiveRequest) {
    r->kind = kOtherRequest;
    __atomic_fetch_add(&state->unsaved_requests, 1, __ATOMIC_RELAXED);
  }
  handles::SpinGuard guard(structure_lock, multiple);
  tables->retain(op);
  tables->retain(type);
}

void let_go_of_op(Vid op) { release_op(op, &handles::Tables::let_go); }

int remake_op(Vid vid) { return make(recipe_of<Payload>(vid)[0], vid); }

extern "C" {

int lower_MPI_Op_create(void* user_fn, int commute, Vid* op, void* upper_call) {
  const Payload p{reinterpret_cast<uint64_t>(user_fn), reinterpret_cast<uint64_t>(upper_call),
                  static_cast<uint64_t>(commute & seam::kOperationIsToldOfItsEnd) |
                      ((commute & ~seam::kOperationIsToldOfItsEnd) != 0)};
  *op = kNullOp;
  const Vid vid = new_object(Kind::kOp, 0, seam::kFn_MPI_Op_create, {}, &p, sizeof p);
  if (!seam::vid_index(vid)) return seam::kErrIntern;
  if (const int code = make(p, vid); code != MPI_SUCCESS) {
    forget_object(vid);
    return error_out(code);
  }
  *op = vid;
  return seam::kSuccess;
}

int lower_MPI_Op_free(Vid* op) {
  const Vid freed = *op;
  if (is_predefined(freed) || seam::vid_kind(freed) != Kind::kOp || !tables->live(freed)) return seam::kErrOp;
  // An incomplete nonblocking reduction keeps the operation; the MPI's own reference count is not relied on.
  release_op(freed, &handles::Tables::free);
  *op = kNullOp;
  return seam::kSuccess;
}

}  // extern "C"

}  // namespace cropdl::mpi
