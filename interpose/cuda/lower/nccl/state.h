// The lower half's NCCL state, in the persistent heap (part of images: append-only): communicators with their
// counts, and calls kept in open groups. Threads of the program write it, lists under `lock`; the agent reads
// the counts. Also how hand-written code calls the real NCCL. LH, LH FS base.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <cstring>

#include "interpose/counting/counting.h"
#include "interpose/handles/heap.h"
#include "interpose/handles/spin_lock.h"
#include "interpose/one_abi/lower.h"
#include "nccl_functions.h"

extern const cropdl::one_abi::RealLibrary cropdl_nccl_lower_table_library;

// The real function of that name: CROPDL_NCCL(ncclSend)(...).
#define CROPDL_NCCL(name) \
  (cropdl::one_abi::function_of<decltype(name)>(cropdl::cuda::nccl::kNccl, cropdl::seam::nccl::kFn_##name))

namespace cropdl::cuda::nccl {

inline constexpr const one_abi::RealLibrary& kNccl = cropdl_nccl_lower_table_library;
inline constexpr auto kAgain = static_cast<ncclResult_t>(one_abi::kCallAgain);

// The call has begun. A non-blocking communicator continues it in the background.
inline bool went_on(ncclResult_t r) { return r == ncclSuccess || r == ncclInProgress; }

inline constexpr uint32_t kStateVersion = 1;

enum Stage : uint32_t {
  kMaking,  // the program has got ncclInProgress and has not seen the call end
  kReady,
  // After ncclCommFinalize: only destroying is left; after a restart NCCL has no such communicator.
  kFinalized,
  kPlanned,  // in an open group: the program has its handle, NCCL does not know it yet
};

// A user-defined operation; made again after its communicator.
struct Operation {
  uint64_t next;
  uint64_t word;  // virtual handle
  ncclDataType_t type;
  ncclScalarResidence_t residence;
  void* scalar;       // on the device, at a fixed address
  char immediate[8];  // on the host
};

// A registered buffer. Its address in the heap is the program's handle, and stays.
struct Registration {
  uint64_t next;
  void* buffer;
  uint64_t bytes;
  void* real;  // of this run
};

// How often a communicator was shrunk by the same set of ranks: only the remaining ones call that.
struct Shrunk {
  uint64_t next;
  uint64_t excluded;  // hash
  uint32_t times, reserved;
};

struct Communicator {
  counting::Record count;  // of its collectives; not counted with one member
  uint64_t identity;       // the same on all members, agreed without messages
  uint64_t next;           // list of all that exist
  uint64_t word;           // virtual handle
  int32_t rank, size;      // -1: unknown until it is made (a split)
  int32_t device;
  uint32_t stage;   // Stage
  uint32_t splits;  // made from it so far; part of their identities
  uint32_t unused;
  uint64_t pairs;  // address of counting::Record[2 * size]: sent to and received from each rank; 0: none
  uint64_t operations, registrations;  // lists
  uint32_t has_config, reserved;
  ncclConfig_t config;  // its texts are blocks of the heap
  uint64_t parent;      // virtual handle of the communicator that it was split from
  uint64_t shrunk;      // list
  uint64_t more[6];
};

// Communicators that this rank has ended and others perhaps not. Their counts are reported until a cut has
// shown them equal. 64 KiB with the heap's own words; when freed, the heap returns all but a page of it.
struct Ended {
  static constexpr size_t kMost = ((64 << 10) - 32) / sizeof(counting::Record);
  uint64_t next;
  uint64_t used;
  counting::Record counts[kMost];
};

// An id given to the program, with which this rank has not joined.
struct GivenId {
  uint64_t next;
  ncclUniqueId id;
};

struct State {
  uint32_t version;
  uint32_t config_bytes;  // sizeof(ncclConfig_t), which is embedded in structures here; 0: not recorded
  uint64_t communicators, ended, given_ids;  // lists
  char last_error[1024];                     // of earlier runs (ncclGetLastError)
  uint64_t aborted;                          // list of Communicators, until the next cut
  uint64_t more[31];
};

inline State* state = nullptr;  // null: no call yet
inline handles::SpinLock lock;

State* need_state();  // null: the persistent heap is full

// The communicator of a virtual handle; null: none exists.
inline Communicator* communicator(ncclComm_t handle) {
  const uint64_t word = one_abi::word_of(handle);
  const handles::Slot* slot = one_abi::slot_of(word);
  return slot && slot->state == handles::kLive &&
                 handles::kind_of(static_cast<handles::Handle>(word)) == one_abi::kind::ncclComm
             ? reinterpret_cast<Communicator*>(slot->owner[2])
             : nullptr;
}
inline ncclComm_t real_of(ncclComm_t handle) { return one_abi::real(handle, one_abi::kind::ncclComm); }
// The location of the real handle. NCCL writes it there itself, possibly later.
inline ncclComm_t* real_place(const Communicator* c) {
  return reinterpret_cast<ncclComm_t*>(
      &one_abi::tables->slot(static_cast<handles::Handle>(c->word))->owner[0]);
}

// --- Lists in the heap: each item has the address of the next one. Under `lock`, if other threads see it.
template <class T, class F>
void each(uint64_t list, F look) {  // `look` may take out or free its item
  while (auto* one = reinterpret_cast<T*>(list)) {
    list = one->next;
    look(one);
  }
}
template <class T>
void push(uint64_t& list, T* one) {
  one->next = list;
  list = reinterpret_cast<uint64_t>(one);
}
template <class T>
T* listed(uint64_t& list) {  // a new, zero-filled one; null: the heap is full. Takes the lock
  auto* fresh = static_cast<T*>(handles::heap_allocate(sizeof(T)));
  if (!fresh) return nullptr;
  handles::SpinGuard guard(lock);
  push(list, fresh);
  return fresh;
}
template <class T>
void take_out(uint64_t& list, T* gone) {  // takes the lock
  handles::SpinGuard guard(lock);
  uint64_t* at = &list;
  while (*at && *at != reinterpret_cast<uint64_t>(gone)) at = &reinterpret_cast<T*>(*at)->next;
  if (*at) *at = gone->next;
}

template <class T>
void drop(uint64_t& list, T* gone) {  // takes the lock
  take_out(list, gone);
  handles::heap_free(gone);
}
template <class T, class F>
T* find(uint64_t list, F is) {  // null: none
  for (; list; list = reinterpret_cast<T*>(list)->next)
    if (is(reinterpret_cast<T*>(list))) return reinterpret_cast<T*>(list);
  return nullptr;
}

template <class F>
void each_communicator(F look) {
  if (state) each<Communicator>(state->communicators, look);
}

// A copy in the heap; null for null, or without memory.
template <class T>
T* copied(const T* from, size_t n) {
  void* const to = from ? handles::heap_allocate(n * sizeof(T)) : nullptr;
  return to ? static_cast<T*>(memcpy(to, from, n * sizeof(T))) : nullptr;
}

// --- Identities.
constexpr uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ b * 0xd6e8feb86659fd93u) * 0x9e3779b97f4a7c15u;
  return (x ^ x >> 32) * 0xd6e8feb86659fd93u;
}
constexpr uint64_t identity_from(uint64_t hash) {  // never equal to several_of()
  return static_cast<uint64_t>(seam::kLibraryNccl) << 56 | hash >> 9;
}
uint64_t hash_of(const ncclUniqueId* ids, int n);
// The identity of messages from rank `from` to rank `to`.
inline uint64_t pair_identity(const Communicator* c, int from, int to) {
  return identity_from(
      mixed(mixed(c->identity, 0x70616972), static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to)));
}
// The record that counts messages to or from `peer`; null: not counted.
counting::Record* pair_record(Communicator* c, int peer, bool sends);

// --- communicators.cpp
// A new, listed communicator of that device, without a real handle; null: no memory.
Communicator* new_communicator(uint64_t identity, uint32_t function, int device);
void drop_communicator(Communicator* c);  // making it failed
using coord::kAborted;
// An aborted communicator (last_count: kAborted) keeps its memory until forget_aborted(): another thread may
// be inside a call on it, which is what an abort is for.
void end_communicator(Communicator* c, uint64_t last_count);
void forget_aborted();  // no thread is inside any call
// What is not recorded would be missing after a restart, or at a cut: the process refuses checkpoints.
void note_full(uint32_t function);
// Replaces the config's texts by copies in the heap. False: it is full.
bool keep_texts(ncclConfig_t& config);
void free_texts(const ncclConfig_t& config);
void keep_config(Communicator* c, const ncclConfig_t& config);
// Completes a communicator once NCCL has made it: takes rank, size and device from the library. If making it
// failed, the library reports that itself.
void settle(Communicator* c);
// The real id for one that the program has; after a restart another one.
ncclUniqueId real_id(const ncclUniqueId& told);
void add_real_id(const ncclUniqueId& told, const ncclUniqueId& real);
void joined_with(const ncclUniqueId* ids, int n);

// --- objects.cpp
ncclResult_t destroy_operation(ncclComm_t comm, ncclRedOp_t op);  // virtual handles

}  // namespace cropdl::cuda::nccl
