// NCCL calls that must begin together (groups.cpp), and those that make a communicator (making.cpp). Calls
// between ncclGroupStart and ncclGroupEnd are kept in the persistent heap and go to NCCL when the group ends
// and all may begin, so a thread can be saved inside a group. LH, LH FS base, threads of the program.
#pragma once

#include "interpose/cuda/lower/nccl/state.h"
#include "interpose/seam/thread.h"

namespace cropdl::cuda::nccl {

inline uint64_t open_group() {
  uint64_t group;
  __asm__ volatile("movq %%gs:%c1, %0" : "=r"(group) : "i"(offsetof(seam::ThreadRecord, nccl_group)));
  return group;
}

inline constexpr auto kNoType = static_cast<ncclDataType_t>(-1);  // for calls that move no data
struct Making;
// A call that begins at the end of its group, or immediately.
struct Call {
  uint64_t next = 0;
  uint32_t function = 0;
  int32_t device = -1;  // current at the call; -1: irrelevant
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t type = kNoType;
  ncclRedOp_t op{};
  int root = 0;  // or the peer, or flags
  uint32_t in_group = 0;
  Making* making = nullptr;
};

// Inside a group: keeps the call. Alone: runs it, or returns kAgain.
ncclResult_t submit(const Call& call);

// Arguments of a call that makes a communicator. Owns its texts and arrays.
struct Making {
  ncclComm_t* into;
  int ranks, rank;  // of ncclCommInitRank*
  int ids;
  ncclUniqueId* id;
  int color, key;  // of a split
  int excluded_ranks;
  int* excluded;  // of a shrink
  uint32_t has_config;
  ncclConfig_t config;
  Communicator* made;           // during the call; null also for a split without a color
  const ncclConfig_t* strange;  // the program's config with an unknown magic, which the library must refuse
};

// Copies the arguments; null: the heap is full.
Making* new_making(ncclComm_t* into, const ncclConfig_t* config);
void give_back(Making* making);

bool joins(const Call& call);    // makes one by an id
bool shrinks(const Call& call);  // makes one without some members of an existing one

// The identity of the communicator that a call makes, from what all members know.
uint64_t identity_of_made(const Call& call);
// Lists the communicator, without a real handle. True for other calls; false: the heap is full.
bool prepare(const Call& call);
// Undoes prepare() after a failure, which other members need not have had.
void take_back(const Call& call);

// Passes a call that moves data to NCCL. Inline: the fast path knows the function when it is compiled.
[[gnu::always_inline]] inline ncclResult_t move_data(const Call& c, ncclComm_t comm, cudaStream_t stream) {
  namespace fn = seam::nccl;
  const ncclRedOp_t op = one_abi::real(c.op, one_abi::kind::ncclRedOp);
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
    default:
      return ncclInternalError;
  }
}

}  // namespace cropdl::cuda::nccl
