// The functions of nccl.h that move data: collectives, messages, groups, user-defined operations.
#include <cuda.h>
#include <nccl.h>

#include <cstring>

#include "base/format.h"
#include "gpu_state/software/nccl/group.h"
#include "gpu_state/software/nccl/two_names.h"

using namespace cropdl;        // NOLINT
using namespace cropdl::nccl;  // NOLINT

namespace {

CUstream stream_of(cudaStream_t stream) { return reinterpret_cast<CUstream>(stream); }

// Checks that the communicator accepts calls, and that type, operation and root exist; fills in the
// reduction.
ncclResult_t check_call(const Communicator& communicator, const char* name, Call* call, bool reduces,
                        bool rooted) {
  if (ncclResult_t result = check_ready(communicator)) return result;
  if (size_of(call->datatype) == 0)
    return failed(ncclInvalidArgument,
                  formatted("{}: no datatype {}", name, static_cast<int>(call->datatype)));
  if (rooted && (call->root < 0 || call->root >= communicator->ranks))
    return failed(ncclInvalidArgument,
                  formatted("{}: rank {} is not one of {}", name, call->root, communicator->ranks));
  if (call->count > SIZE_MAX / 64 / kMostRanks)
    return failed(ncclInvalidArgument, formatted("{}: {} elements", name, call->count));
  if (!reduces) return ncclSuccess;
  if (call->operation >= 0 && call->operation < ncclNumOps) {
    call->reduction.kind = call->operation;
    call->reduction.average_of = communicator->ranks;
    return ncclSuccess;
  }
  auto found = communicator->operations.find(call->operation);
  if (found == communicator->operations.end())
    return failed(ncclInvalidArgument, formatted("{}: no operation {} in this communicator", name,
                                                 static_cast<int>(call->operation)));
  if (found->second.datatype != call->datatype)
    return failed(ncclInvalidArgument, formatted("{}: the operation was made for another datatype", name));
  call->reduction = found->second.reduction;
  call->device_scalar = found->second.device_scalar;
  return ncclSuccess;
}

ncclResult_t collective(ncclComm_t handle, cudaStream_t stream, const char* name, Call call, bool reduces,
                        bool rooted) {
  Communicator communicator = find(handle);
  ncclResult_t result = check_call(communicator, name, &call, reduces, rooted);
  if (!result) result = enqueue(communicator, stream_of(stream), call);
  return spoil(result);
}

}  // namespace

extern "C" {

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* operation, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t handle) {
  Communicator communicator = find(handle);
  ncclResult_t result = check_ready(communicator);
  size_t size = size_of(datatype);
  if (!result && (!operation || !scalar || !size))
    result = failed(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: no scalar");
  if (!result && residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
    result = failed(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: no such residence of the scalar");
  if (result) return result;
  ncclComm::UserOperation made{datatype, {}, nullptr};
  made.reduction.scaled = true;
  if (residence == ncclScalarDevice)
    made.device_scalar = scalar;
  else
    std::memcpy(made.reduction.scalar, scalar, size);
  *operation = static_cast<ncclRedOp_t>(communicator->next_operation++);
  communicator->operations[*operation] = made;
  return ncclSuccess;
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t operation, ncclComm_t handle) {
  Communicator communicator = find(handle);
  ncclResult_t result = check(communicator);
  if (!result && !communicator->operations.erase(operation))
    result = failed(ncclInvalidArgument,
                    formatted("ncclRedOpDestroy: no operation {} of a user", static_cast<int>(operation)));
  return result;
}

ncclResult_t pncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                            ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  return collective(communicator, stream, "ncclAllReduce",
                    {Kind::kAllReduce, send, receive, count, type, operation, {}, nullptr, 0}, true, false);
}

ncclResult_t pncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                         ncclRedOp_t operation, int root, ncclComm_t communicator, cudaStream_t stream) {
  return collective(communicator, stream, "ncclReduce",
                    {Kind::kReduce, send, receive, count, type, operation, {}, nullptr, root}, true, true);
}

ncclResult_t pncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                            ncclComm_t communicator, cudaStream_t stream) {
  return collective(communicator, stream, "ncclBroadcast",
                    {Kind::kBroadcast, send, receive, count, type, ncclSum, {}, nullptr, root}, false, true);
}

ncclResult_t pncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t communicator,
                        cudaStream_t stream) {
  return pncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}

ncclResult_t pncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                                ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  return collective(communicator, stream, "ncclReduceScatter",
                    {Kind::kReduceScatter, send, receive, count, type, operation, {}, nullptr, 0}, true,
                    false);
}

ncclResult_t pncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                            ncclComm_t communicator, cudaStream_t stream) {
  return collective(communicator, stream, "ncclAllGather",
                    {Kind::kAllGather, send, receive, count, type, ncclSum, {}, nullptr, 0}, false, false);
}

ncclResult_t pncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t communicator, cudaStream_t stream) {
  return collective(communicator, stream, "ncclAlltoAll",
                    {Kind::kAllToAll, send, receive, count, type, ncclSum, {}, nullptr, 0}, false, false);
}

ncclResult_t pncclGather(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                         ncclComm_t communicator, cudaStream_t stream) {
  return collective(communicator, stream, "ncclGather",
                    {Kind::kGather, send, receive, count, type, ncclSum, {}, nullptr, root}, false, true);
}

ncclResult_t pncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                          ncclComm_t communicator, cudaStream_t stream) {
  return collective(communicator, stream, "ncclScatter",
                    {Kind::kScatter, send, receive, count, type, ncclSum, {}, nullptr, root}, false, true);
}

ncclResult_t pncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                       cudaStream_t stream) {
  return collective(communicator, stream, "ncclSend",
                    {Kind::kSend, send, nullptr, count, type, ncclSum, {}, nullptr, peer}, false, true);
}

ncclResult_t pncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                       cudaStream_t stream) {
  return collective(communicator, stream, "ncclRecv",
                    {Kind::kReceive, nullptr, receive, count, type, ncclSum, {}, nullptr, peer}, false, true);
}

ncclResult_t pncclGroupStart() { return group_start(); }
ncclResult_t pncclGroupEnd() { return group_end(); }

}  // extern "C"

ALSO_WITHOUT_P(RedOpCreatePreMulSum);
ALSO_WITHOUT_P(RedOpDestroy);
ALSO_WITHOUT_P(AllReduce);
ALSO_WITHOUT_P(Reduce);
ALSO_WITHOUT_P(Broadcast);
ALSO_WITHOUT_P(Bcast);
ALSO_WITHOUT_P(ReduceScatter);
ALSO_WITHOUT_P(AllGather);
ALSO_WITHOUT_P(AlltoAll);
ALSO_WITHOUT_P(Gather);
ALSO_WITHOUT_P(Scatter);
ALSO_WITHOUT_P(Send);
ALSO_WITHOUT_P(Recv);
ALSO_WITHOUT_P(GroupStart);
ALSO_WITHOUT_P(GroupEnd);
