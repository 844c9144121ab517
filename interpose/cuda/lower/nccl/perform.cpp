// A recorded call, passed to NCCL. See groups.h.

#include <algorithm>

#include "interpose/cuda/lower/nccl/groups.h"
#include "interpose/handles/heap.h"

namespace cropdl::cuda::nccl {
namespace {
namespace fn = seam::nccl;
}

ncclResult_t perform(const Call& c) {
  // The handle of an ended communicator is no address that NCCL may read.
  const bool is_gone = one_abi::is_virtual(one_abi::word_of(c.comm)) && !communicator(c.comm);
  const ncclComm_t comm = is_gone ? nullptr : one_abi::real(c.comm, one_abi::kind::ncclComm);
  const cudaStream_t stream = one_abi::real(c.stream, one_abi::kind::cudaStream);
  const ncclRedOp_t op = one_abi::real(c.op, one_abi::kind::ncclRedOp);
  Making* const m = c.making;
  ncclConfig_t* config = nullptr;
  if (m) config = m->has_config ? &m->config : const_cast<ncclConfig_t*>(m->strange);
  // NCCL may write there later; without a handle (a split without a color) it is the program's variable.
  ncclComm_t* const into = !m ? nullptr : m->made ? real_place(m->made) : m->into;
  if (c.device >= 0 && one_abi::current_device() != c.device) one_abi::make_current(c.device);
  switch (c.function) {
    case fn::kFn_ncclAllReduce:
      return CROPDL_NCCL(ncclAllReduce)(c.send, c.receive, c.count, c.type, op, comm, stream);
    case fn::kFn_ncclReduce:
      return CROPDL_NCCL(ncclReduce)(c.send, c.receive, c.count, c.type, op, c.root, comm, stream);
    case fn::kFn_ncclBcast:
      return CROPDL_NCCL(ncclBcast)(c.receive, c.count, c.type, c.root, comm, stream);
    case fn::kFn_ncclBroadcast:
      return CROPDL_NCCL(ncclBroadcast)(c.send, c.receive, c.count, c.type, c.root, comm, stream);
    case fn::kFn_ncclReduceScatter:
      return CROPDL_NCCL(ncclReduceScatter)(c.send, c.receive, c.count, c.type, op, comm, stream);
    case fn::kFn_ncclAllGather:
      return CROPDL_NCCL(ncclAllGather)(c.send, c.receive, c.count, c.type, comm, stream);
    case fn::kFn_ncclAlltoAll:
      return CROPDL_NCCL(ncclAlltoAll)(c.send, c.receive, c.count, c.type, comm, stream);
    case fn::kFn_ncclGather:
      return CROPDL_NCCL(ncclGather)(c.send, c.receive, c.count, c.type, c.root, comm, stream);
    case fn::kFn_ncclScatter:
      return CROPDL_NCCL(ncclScatter)(c.send, c.receive, c.count, c.type, c.root, comm, stream);
    case fn::kFn_ncclSend:
      return CROPDL_NCCL(ncclSend)(c.send, c.count, c.type, c.root, comm, stream);
    case fn::kFn_ncclRecv:
      return CROPDL_NCCL(ncclRecv)(c.receive, c.count, c.type, c.root, comm, stream);
    case fn::kFn_ncclCommInitRank:
      return CROPDL_NCCL(ncclCommInitRank)(into, m->ranks, real_id(*m->id), m->rank);
    case fn::kFn_ncclCommInitRankConfig:
      return CROPDL_NCCL(ncclCommInitRankConfig)(into, m->ranks, real_id(*m->id), m->rank, config);
    case fn::kFn_ncclCommInitRankScalable: {
      std::vector<ncclUniqueId> ids(static_cast<size_t>(m->ids));
      std::transform(m->id, m->id + m->ids, ids.begin(), real_id);
      return CROPDL_NCCL(ncclCommInitRankScalable)(into, m->ranks, m->rank, m->ids, ids.data(), config);
    }
    case fn::kFn_ncclCommSplit:
      return CROPDL_NCCL(ncclCommSplit)(comm, m->color, m->key, into, config);
    case fn::kFn_ncclCommShrink:
      return CROPDL_NCCL(ncclCommShrink)(comm, m->excluded, m->excluded_ranks, into, config, c.root);
    case fn::kFn_ncclCommFinalize:
      return CROPDL_NCCL(ncclCommFinalize)(comm);
    case fn::kFn_ncclCommDestroy:
      return CROPDL_NCCL(ncclCommDestroy)(comm);
    case fn::kFn_ncclCommAbort:
      return CROPDL_NCCL(ncclCommAbort)(comm);
    case fn::kFn_ncclRedOpDestroy:
      return destroy_operation(c.comm, c.op);
    case fn::kFn_ncclCommWindowRegister:
      return CROPDL_NCCL(ncclCommWindowRegister)(comm, const_cast<void*>(c.send), c.count,
                                                 static_cast<ncclWindow_t*>(c.receive), c.root);
    default:
      return ncclInternalError;
  }
}

}  // namespace cropdl::cuda::nccl
