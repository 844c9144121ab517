// Objects of a communicator: user-defined operations and registered buffers. Also NCCL's memory, and its last
// error. LH, LH FS base, threads of the program.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "interpose/cuda/lower/nccl/groups.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda::nccl {
namespace {

size_t size_of(ncclDataType_t type) {
  if (type == ncclFloat16 || type == ncclBfloat16) return 2;
  if (type == ncclInt32 || type == ncclUint32 || type == ncclFloat32) return 4;
  if (type == ncclInt64 || type == ncclUint64 || type == ncclFloat64) return 8;
  return 1;
}

}  // namespace

ncclResult_t destroy_operation(ncclComm_t comm, ncclRedOp_t op) {
  Communicator* const c = communicator(comm);
  // The operations of a communicator that was finalized in an earlier run are gone with it.
  const ncclResult_t r =
      c && !*real_place(c)
          ? ncclSuccess
          : CROPDL_NCCL(ncclRedOpDestroy)(one_abi::real(op, one_abi::kind::ncclRedOp), real_of(comm));
  if (r != ncclSuccess || !c) return r;
  const uint64_t word = one_abi::word_of(op, one_abi::kind::ncclRedOp);
  if (auto* o = find<Operation>(c->operations, [&](const Operation* p) { return p->word == word; })) {
    one_abi::forget_word(word);
    drop(c->operations, o);
  }
  return r;
}

namespace fn = seam::nccl;

extern "C" {

ncclResult_t lower_ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                            ncclScalarResidence_t residence, ncclComm_t comm) {
  one_abi::Call begins;
  Communicator* const c = communicator(comm);
  ncclRedOp_t real{};
  const ncclResult_t r =
      CROPDL_NCCL(ncclRedOpCreatePreMulSum)(op ? &real : nullptr, scalar, type, residence, real_of(comm));
  if (r != ncclSuccess || !c) return r;
  const one_abi::RecipeWriter recipe;
  const uint64_t word = one_abi::made_word(static_cast<uint64_t>(real), one_abi::kind::ncclRedOp, kNccl,
                                           fn::kFn_ncclRedOpCreatePreMulSum, &recipe);
  *op = one_abi::handle_of<ncclRedOp_t>(word);
  auto* const o = listed<Operation>(c->operations);
  if (!o) {
    note_full(fn::kFn_ncclRedOpCreatePreMulSum);
    return r;
  }
  o->word = word;
  o->type = type;
  o->residence = residence;
  if (residence == ncclScalarDevice)
    o->scalar = scalar;
  else
    memcpy(o->immediate, scalar, size_of(type));
  return r;
}

ncclResult_t lower_ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  one_abi::Call begins;
  Communicator* const c = communicator(comm);
  void* real = nullptr;
  const ncclResult_t r =
      CROPDL_NCCL(ncclCommRegister)(real_of(comm), buffer, bytes, handle ? &real : nullptr);
  if (r != ncclSuccess || !c) return r;
  auto* const g = listed<Registration>(c->registrations);
  if (!g) {
    note_full(fn::kFn_ncclCommRegister);
    *handle = real;
    return r;
  }
  g->buffer = buffer;
  g->bytes = bytes;
  g->real = real;
  *handle = g;
  return r;
}

ncclResult_t lower_ncclCommDeregister(ncclComm_t comm, void* handle) {
  one_abi::Call begins;
  Communicator* const c = communicator(comm);
  auto* const g =
      c ? find<Registration>(c->registrations, [&](const Registration* p) { return p == handle; }) : nullptr;
  const ncclResult_t r = g && !*real_place(c)
                             ? ncclSuccess
                             : CROPDL_NCCL(ncclCommDeregister)(real_of(comm), g ? g->real : handle);
  if (r == ncclSuccess && g) drop(c->registrations, g);
  return r;
}

// A window cannot be saved (groups.cpp says so), so its handle is not virtual.
ncclResult_t lower_ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window,
                                          int flags) {
  one_abi::Call begins;
  return submit({.function = fn::kFn_ncclCommWindowRegister,
                 .comm = comm,
                 .send = buffer,
                 .receive = window,
                 .count = bytes,
                 .root = flags});
}

// The memory comes from the arena.
cudaError_t lower_cudaMalloc(void** pointer, size_t bytes);
cudaError_t lower_cudaFree(void* pointer);

ncclResult_t lower_ncclMemAlloc(void** pointer, size_t bytes) {
  if (!pointer || !bytes) {
    one_abi::Call begins;
    return CROPDL_NCCL(ncclMemAlloc)(pointer, bytes);  // NCCL gives the error
  }
  return lower_cudaMalloc(pointer, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t lower_ncclMemFree(void* pointer) {
  return lower_cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

// An earlier run's line until this run has one. The buffer stays and is overwritten, like NCCL's.
const char* lower_ncclGetLastError(ncclComm_t comm) {
  one_abi::Call begins;
  const char* const now = CROPDL_NCCL(ncclGetLastError)(real_of(comm));
  if (!need_state()) return one_abi::kept_text(now);
  if (now && *now) snprintf(state->last_error, sizeof state->last_error, "%s", now);
  return state->last_error;
}

}  // extern "C"
}  // namespace cropdl::cuda::nccl
