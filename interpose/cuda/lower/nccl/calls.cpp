// NCCL calls that move data, counted and held; others go to groups.cpp. LH, LH FS base, program's threads.
#include "interpose/boundaries/token_ring.h"
#include "interpose/cuda/lower/captures.h"
#include "interpose/cuda/lower/nccl/groups.h"

namespace cropdl::cuda::nccl {
namespace {

namespace fn = seam::nccl;

// The fast path: outside a group, on a stream that is not captured. `root`: or the peer. submit() gets a copy
// of the call, so that the fast path does not write one to memory.
template <uint32_t function>
inline ncclResult_t communicate(const void* send, void* receive, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  one_abi::Call begins;
  const Call c{.function = function,
               .comm = comm,
               .stream = stream,
               .send = send,
               .receive = receive,
               .count = count,
               .type = type,
               .op = op,
               .root = root};
  if (__builtin_expect(open_group() != 0, 0)) return submit(Call(c));
  Communicator* const m = communicator(comm);
  if (__builtin_expect(!m || (captures_expected && graph_capturing(stream)), 0)) return submit(Call(c));
  constexpr bool sends = function == fn::kFn_ncclSend, is_collective = !sends && function != fn::kFn_ncclRecv;
  counting::Record* const r = is_collective ? &m->count : pair_record(m, root, sends);
  const ncclComm_t real_comm = *real_place(m);
  const cudaStream_t real_stream = one_abi::real(stream, one_abi::kind::cudaStream);
  if (__builtin_expect(!r || !r->identity, 0)) return move_data(c, real_comm, real_stream);
  // Two threads never call on one communicator at the same time (nccl.h).
  if (!counting::begin_unheld(r, false) && !counting::begin_held(r)) return kAgain;
  boundaries::note(boundaries::call_of(seam::kLibraryNccl, function),
                   boundaries::what_of(count, static_cast<uint64_t>(type)), r->identity, r->begun, true);
  const ncclResult_t result = move_data(c, real_comm, real_stream);
  if (__builtin_expect(!went_on(result), 0)) {
    const counting::Part failed{r, 1};
    counting::undo({&failed, 1});
  }
  counting::end();
  return result;
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
  m->id = copied(ids, static_cast<size_t>(n));
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

extern "C" {

ncclResult_t lower_ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return communicate<fn::kFn_ncclAllReduce>(send, receive, count, type, op, 0, comm, stream);
}
ncclResult_t lower_ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                              ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return communicate<fn::kFn_ncclReduce>(send, receive, count, type, op, root, comm, stream);
}
ncclResult_t lower_ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                             cudaStream_t stream) {
  return communicate<fn::kFn_ncclBcast>(nullptr, buffer, count, type, {}, root, comm, stream);
}
ncclResult_t lower_ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream) {
  return communicate<fn::kFn_ncclBroadcast>(send, receive, count, type, {}, root, comm, stream);
}
ncclResult_t lower_ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return communicate<fn::kFn_ncclReduceScatter>(send, receive, count, type, op, 0, comm, stream);
}
ncclResult_t lower_ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                                 ncclComm_t comm, cudaStream_t stream) {
  return communicate<fn::kFn_ncclAllGather>(send, receive, count, type, {}, 0, comm, stream);
}
ncclResult_t lower_ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                                ncclComm_t comm, cudaStream_t stream) {
  return communicate<fn::kFn_ncclAlltoAll>(send, receive, count, type, {}, 0, comm, stream);
}
ncclResult_t lower_ncclGather(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream) {
  return communicate<fn::kFn_ncclGather>(send, receive, count, type, {}, root, comm, stream);
}
ncclResult_t lower_ncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream) {
  return communicate<fn::kFn_ncclScatter>(send, receive, count, type, {}, root, comm, stream);
}
ncclResult_t lower_ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                            cudaStream_t stream) {
  return communicate<fn::kFn_ncclSend>(send, nullptr, count, type, {}, peer, comm, stream);
}
ncclResult_t lower_ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                            cudaStream_t stream) {
  return communicate<fn::kFn_ncclRecv>(nullptr, receive, count, type, {}, peer, comm, stream);
}

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
  if (excluded && n > 0) {
    m->excluded = copied(excluded, static_cast<size_t>(n));
    if (!m->excluded) {
      give_back(m);
      return ncclSystemError;
    }
    m->excluded_ranks = n;
  }
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
}  // namespace cropdl::cuda::nccl
