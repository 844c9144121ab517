// What the lower half keeps of NCCL: communicators with what was counted on them, and the calls of threads
// that are between ncclGroupStart and ncclGroupEnd. It lies in the persistent heap (images hold it:
// append-only), and is written by threads of the program, under `lock` where a list changes shape; the agent
// reads the counts. LH.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interpose/counting/counting.h"
#include "interpose/cuda/lower/nccl/real.h"
#include "interpose/handles/spin_lock.h"

namespace cropdl::cuda::nccl {

inline constexpr uint32_t kStateVersion = 1;

enum Stage : uint32_t {
  kMaking,     // the program has been told that it is in progress, and has not yet seen it end
  kReady,      //
  kFinalized,  // ncclCommFinalize was called: what is left is to destroy it, and after a restart NCCL has
               // none
  kPlanned,    // in a group that has not ended: the program has its handle, and NCCL has not heard of it
};

// A user-defined operation; made again behind its communicator.
struct Operation {
  uint64_t next;
  uint64_t word;  // virtual handle
  ncclDataType_t type;
  ncclScalarResidence_t residence;
  void* scalar;       // on the device, where it stays
  char immediate[8];  // on the host
};

// A buffer that was registered; the program's handle is its address, which stays.
struct Registration {
  uint64_t next;
  void* buffer;
  uint64_t bytes;
  void* real;  // of this run
};

struct Communicator {
  counting::Record count;    // of its collectives; not counted: one member
  uint64_t identity;         // all members agree on it without a message
  uint64_t next;             // list of all that are alive
  uint64_t word;             // virtual handle
  int32_t rank, size;        // -1: not known before it is made (of a split)
  int32_t device;            //
  uint32_t stage;            // Stage
  uint32_t splits, shrinks;  // communicators made of it, of which their identity tells
  uint64_t pairs;  // address of counting::Record[2 * size]: sent to each rank, received from it; 0: none
  uint64_t operations, registrations;  // lists
  uint32_t has_config, reserved;
  ncclConfig_t config;  // its texts are blocks of the heap
  uint64_t parent;      // virtual handle of the one that it is a split of
  uint64_t more[7];
};

// Those that this rank has ended and others perhaps not: their counts tell, until a cut has shown them equal.
// With the heap's own words 64 KiB, of which it gives all but a page back when they are forgotten.
struct Ended {
  static constexpr size_t kMost = ((64 << 10) - 32) / sizeof(counting::Record);
  uint64_t next;
  uint64_t used;
  counting::Record counts[kMost];
};

// An id that was given out, and with which this rank has not joined.
struct GivenId {
  uint64_t next;
  ncclUniqueId id;
};

struct State {
  uint32_t version;
  uint32_t config_bytes;  // sizeof(ncclConfig_t), which lies within structures here; 0: not noted
  uint64_t communicators, ended, given_ids;  // lists
  char last_error[1024];                     // of former runs (ncclGetLastError)
  uint64_t aborted;                          // list: Communicators, until the next cut
  uint64_t more[31];
};

extern State* state;  // null: no call yet
extern handles::SpinLock lock;

State* need_state();  // null: the persistent heap is full

// Of a virtual handle; null: none that is alive.
inline Communicator* communicator(ncclComm_t handle) {
  const uint64_t word = one_abi::word_of(handle);
  if (!one_abi::is_virtual(word) || __builtin_expect(!one_abi::tables, 0)) return nullptr;
  const auto h = static_cast<handles::Handle>(word);
  const handles::Slot* slot = one_abi::tables->slot(h);
  return slot && slot->state == handles::kLive && handles::kind_of(h) == one_abi::kind::ncclComm
             ? reinterpret_cast<Communicator*>(slot->owner[2])
             : nullptr;
}
// Where the real handle is; NCCL writes it there itself, maybe later.
inline ncclComm_t* real_place(const Communicator* c) {
  return reinterpret_cast<ncclComm_t*>(
      &one_abi::tables->slot(static_cast<handles::Handle>(c->word))->owner[0]);
}

template <class F>
void each_communicator(F look) {
  for (uint64_t at = state ? state->communicators : 0; at;) {
    auto* c = reinterpret_cast<Communicator*>(at);
    at = c->next;
    look(c);
  }
}

// --- Identities.
constexpr uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b * 0xd6e8feb86659fd93u) * 0x9e3779b97f4a7c15u;
  return (x ^ x >> 32) * 0xd6e8feb86659fd93u;
}
constexpr uint64_t identity_from(uint64_t hash) {  // never several_of
  return static_cast<uint64_t>(seam::kLibraryNccl) << 56 | hash >> 9;
}
uint64_t hash_of(const ncclUniqueId* ids, int n);
// Of what `from` sends to `to`, by their ranks.
inline uint64_t pair_identity(const Communicator* c, int from, int to) {
  return identity_from(
      mixed(mixed(c->identity, 0x70616972), static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to)));
}
// What is counted with a message to or from `peer`; null: nothing.
counting::Record* pair_record(Communicator* c, int peer, bool sends);

// --- communicators.cpp
// A new handle without a real one, listed, of that device; null: no room.
Communicator* new_communicator(uint64_t identity, uint32_t function, int device);
void drop_communicator(Communicator* c);  // it came to nothing
using coord::kAborted;
// Of one that was aborted (last_count: kAborted) the memory stays until forget_aborted(): that another thread
// is inside of a call on it is what an abort is for.
void end_communicator(Communicator* c, uint64_t last_count);
void forget_aborted();           // no thread is inside of any call
char* copied(const char* text);  // in the heap; null for null, or without room
void keep_config(Communicator* c, const ncclConfig_t* config);
// It is made: rank, size and device are what the library says; or its making has failed, as the library says
// to whoever asks. False: not yet.
bool settle(Communicator* c);
// The real id for one that the program holds: another one after a restart.
ncclUniqueId real_id(const ncclUniqueId& told);
void add_real_id(const ncclUniqueId& told, const ncclUniqueId& real);
void joined_with(const ncclUniqueId* ids, int n);

// --- objects.cpp
ncclResult_t destroy_operation(ncclComm_t comm, ncclRedOp_t op);  // of virtual handles
// The objects of a communicator that was made again. 0, or the library's error with the function's name.
ncclResult_t make_objects_again(Communicator* c, const char** function);
void drop_objects(Communicator* c);  // they end with it

// --- A call that begins at the end of its group, or at once.
inline constexpr auto kNoType = static_cast<ncclDataType_t>(-1);  // of calls that move no data
struct Making;                                                    // groups.h
struct Call {
  uint64_t next = 0;
  uint32_t function = 0;
  int32_t device = -1;  // current at the call; -1: does not matter
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

}  // namespace cropdl::cuda::nccl
