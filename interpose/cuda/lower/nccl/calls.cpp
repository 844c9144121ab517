// NCCL calls that move data: counted and held. Calls that make, end or change communicators: passed to
// groups.cpp. LH, LH FS base, threads of the program.
#include <cstring>

#include "interpose/boundaries/token_ring.h"
#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/nccl/captured.h"
#include "interpose/cuda/lower/nccl/groups.h"
#include "interpose/handles/heap.h"

namespace cropdl::cuda::nccl {
namespace {

// The fast path: outside a group, on a stream that is not captured. `launch` calls the library; `call` makes
// the form that a group keeps, only if needed.
template <bool sends, bool receives, class C, class F>
inline ncclResult_t communicate(ncclComm_t comm, cudaStream_t stream, int peer, C call, F launch) {
  one_abi::Call begins;
  if (__builtin_expect(open_group() != 0, 0)) return submit(call());
  Communicator* const m = communicator(comm);
  if (__builtin_expect(!m || (captures_expected && graph_capturing(stream)), 0)) return submit(call());
  counting::Record* const r = sends || receives ? pair_record(m, peer, sends) : &m->count;
  const ncclComm_t real_comm = *real_place(m);
  const cudaStream_t real_stream = one_abi::real(stream, one_abi::kind::cudaStream);
  if (__builtin_expect(!r || !r->identity, 0)) return launch(real_comm, real_stream);
  // Two threads never call on one communicator at the same time (nccl.h).
  if (!counting::begin_unheld(r, false) && !counting::begin_held(r)) return kAgain;
  const Call c = call();
  boundaries::note(boundaries::call_of(seam::kLibraryNccl, c.function),
                   boundaries::what_of(c.count, static_cast<uint64_t>(c.type)), r->identity, r->begun, true);
  const ncclResult_t result = launch(real_comm, real_stream);
  if (__builtin_expect(!went_on(result), 0)) {
    const counting::Part failed{r, 1};
    counting::undo({&failed, 1});
  }
  counting::end();
  return result;
}

template <class T>
T* copied(const T* from, int n) {
  if (!from || n <= 0) return nullptr;
  const size_t bytes = static_cast<size_t>(n) * sizeof(T);
  void* to = handles::heap_allocate(bytes);
  return to ? static_cast<T*>(memcpy(to, from, bytes)) : nullptr;
}

ncclResult_t join(uint32_t function, ncclComm_t* into, int ranks, int rank, const ncclUniqueId* ids, int n,
                  const ncclConfig_t* config) {
  one_abi::Call begins;
  if (!need_state()) return ncclSystemError;
  Making* const m = new_making(into, config);
  if (!m) return ncclSystemError;
  m->ranks = ranks;
  m->rank = rank;
  m->ids = n;
  m->id = copied(ids, n);
  if (!m->id) {
    give_back(m);
    return ncclSystemError;
  }
  return submit({.function = function, .device = one_abi::current_device(), .making = m});
}

ncclResult_t change(uint32_t function, ncclComm_t comm) {
  one_abi::Call begins;
  return submit({.function = function, .comm = comm});
}

}  // namespace
}  // namespace cropdl::cuda::nccl

using namespace cropdl;
using namespace cropdl::cuda::nccl;
namespace fn = cropdl::seam::nccl;

extern "C" {

// `arguments`: the library's function's, with the real communicator c and the real stream s. The rest:
// members of the call that a group keeps.
#define COMMUNICATE(sends, receives, peer, name, arguments, ...)                                     \
  communicate<sends, receives>(                                                                      \
      comm, stream, peer,                                                                            \
      [&] { return Call{.function = fn::kFn_##name, .comm = comm, .stream = stream, __VA_ARGS__}; }, \
      [&](ncclComm_t c, cudaStream_t s) { return CROPDL_NCCL(name) arguments; })
#define COLLECTIVE(...) COMMUNICATE(false, false, 0, __VA_ARGS__)
#define REAL_OP one_abi::real(op, one_abi::kind::ncclRedOp)

ncclResult_t lower_ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return COLLECTIVE(ncclAllReduce, (send, receive, count, type, REAL_OP, c, s), .send = send,
                    .receive = receive, .count = count, .type = type, .op = op);
}

ncclResult_t lower_ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return COLLECTIVE(ncclReduce, (send, receive, count, type, REAL_OP, root, c, s), .send = send,
                    .receive = receive, .count = count, .type = type, .op = op, .root = root);
}

ncclResult_t lower_ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                             cudaStream_t stream) {
  return COLLECTIVE(ncclBcast, (buffer, count, type, root, c, s), .receive = buffer, .count = count,
                    .type = type, .root = root);
}

ncclResult_t lower_ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream) {
  return COLLECTIVE(ncclBroadcast, (send, receive, count, type, root, c, s), .send = send, .receive = receive,
                    .count = count, .type = type, .root = root);
}

ncclResult_t lower_ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return COLLECTIVE(ncclReduceScatter, (send, receive, count, type, REAL_OP, c, s), .send = send,
                    .receive = receive, .count = count, .type = type, .op = op);
}

ncclResult_t lower_ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                                 ncclComm_t comm, cudaStream_t stream) {
  return COLLECTIVE(ncclAllGather, (send, receive, count, type, c, s), .send = send, .receive = receive,
                    .count = count, .type = type);
}

ncclResult_t lower_ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                                ncclComm_t comm, cudaStream_t stream) {
  return COLLECTIVE(ncclAlltoAll, (send, receive, count, type, c, s), .send = send, .receive = receive,
                    .count = count, .type = type);
}

ncclResult_t lower_ncclGather(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream) {
  return COLLECTIVE(ncclGather, (send, receive, count, type, root, c, s), .send = send, .receive = receive,
                    .count = count, .type = type, .root = root);
}

ncclResult_t lower_ncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream) {
  return COLLECTIVE(ncclScatter, (send, receive, count, type, root, c, s), .send = send, .receive = receive,
                    .count = count, .type = type, .root = root);
}

ncclResult_t lower_ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                            cudaStream_t stream) {
  return COMMUNICATE(true, false, peer, ncclSend, (send, count, type, peer, c, s), .send = send,
                     .count = count, .type = type, .root = peer);
}

ncclResult_t lower_ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                            cudaStream_t stream) {
  return COMMUNICATE(false, true, peer, ncclRecv, (receive, count, type, peer, c, s), .receive = receive,
                     .count = count, .type = type, .root = peer);
}
#undef REAL_OP
#undef COLLECTIVE
#undef COMMUNICATE

ncclResult_t lower_ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return join(fn::kFn_ncclCommInitRank, comm, ranks, rank, &id, 1, nullptr);
}
ncclResult_t lower_ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                          ncclConfig_t* config) {
  return join(fn::kFn_ncclCommInitRankConfig, comm, ranks, rank, &id, 1, config);
}
ncclResult_t lower_ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int n, ncclUniqueId* ids,
                                            ncclConfig_t* config) {
  if (!ids || n < 1) return ncclInvalidArgument;
  return join(fn::kFn_ncclCommInitRankScalable, comm, ranks, rank, ids, n, config);
}

ncclResult_t lower_ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                                 ncclConfig_t* config) {
  one_abi::Call begins;
  Making* const m = new_making(made, config);
  if (!m) return ncclSystemError;
  m->color = color;
  m->key = key;
  return submit({.function = fn::kFn_ncclCommSplit, .comm = comm, .making = m});
}

ncclResult_t lower_ncclCommShrink(ncclComm_t comm, int* excluded, int n, ncclComm_t* made,
                                  ncclConfig_t* config, int flags) {
  one_abi::Call begins;
  if (flags & NCCL_SHRINK_ABORT)
    one_abi::mark_unsaved(kNccl, fn::kFn_ncclCommShrink,
                          "what had begun on the communicator was ended on some ranks (NCCL_SHRINK_ABORT)");
  Making* const m = new_making(made, config);
  if (!m) return ncclSystemError;
  m->excluded = copied(excluded, n);
  if (excluded && n > 0 && !m->excluded) {
    give_back(m);
    return ncclSystemError;
  }
  m->excluded_ranks = m->excluded ? n : 0;
  return submit({.function = fn::kFn_ncclCommShrink, .comm = comm, .root = flags, .making = m});
}

ncclResult_t lower_ncclCommFinalize(ncclComm_t comm) { return change(fn::kFn_ncclCommFinalize, comm); }
ncclResult_t lower_ncclCommDestroy(ncclComm_t comm) {
  return comm ? change(fn::kFn_ncclCommDestroy, comm) : ncclSuccess;
}
ncclResult_t lower_ncclCommAbort(ncclComm_t comm) {
  return comm ? change(fn::kFn_ncclCommAbort, comm) : ncclSuccess;
}

ncclResult_t lower_ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  one_abi::Call begins;
  return submit({.function = fn::kFn_ncclRedOpDestroy, .comm = comm, .op = op});
}

}  // extern "C"
