// Translation between seam and MPI for every function of the lower half's table: virtual handles, ranks,
// tags, statuses and error codes.
// LH only, LH FS base, a thread of the program unless a function says otherwise; several at
// MPI_THREAD_MULTIPLE. Compiled once per MPI. State that must survive is in the persistent heap (tables,
// recipes, counters); a restart refills `real_handles`.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include CROPDL_CONSTANTS  // generated: constants_<mpi>.h
#include "interpose/handles/recipe.h"
#include "interpose/seam/mpi_abi.h"
#include "interpose/seam/thread.h"

namespace cropdl::mpi {

using seam::Kind;
using seam::Vid;

// --- Handles

// Maximum number of live handles of one kind; beyond it creation fails with kErrIntern. A flat array makes a
// lookup one load from a constant address (128 MiB of .bss for all kinds; only used pages exist).
inline constexpr uint32_t kCapacity = 1u << 20;
inline constexpr uint32_t kIndexMask = kCapacity - 1;

// The real handle of each virtual one, by kind and index. 16 kinds, not kKinds: an invalid kind must stay
// within the array. Index 0 holds the kind's null handle; unused entries hold 0, which both MPIs reject.
extern uint64_t real_handles[16][kCapacity];

template <class H>
inline H from_word(uint64_t word) {
  if constexpr (std::is_pointer_v<H>) {
    return reinterpret_cast<H>(word);
  } else {
    return static_cast<H>(word);
  }
}
template <class H>
inline uint64_t to_word(H handle) {
  if constexpr (std::is_pointer_v<H>) {
    return reinterpret_cast<uint64_t>(handle);
  } else {
    return static_cast<uint32_t>(handle);  // MPICH's handles are ints
  }
}

inline uint64_t& real_word(Vid vid) { return real_handles[(vid >> 24) & 15][vid & kIndexMask]; }
template <class H, Kind K>
inline H real(Vid vid) {
  return from_word<H>(real_handles[static_cast<unsigned>(K)][vid & kIndexMask]);
}
inline MPI_Comm comm(Vid v) { return real<MPI_Comm, Kind::kComm>(v); }
inline MPI_Datatype datatype(Vid v) { return real<MPI_Datatype, Kind::kDatatype>(v); }
inline MPI_Group group(Vid v) { return real<MPI_Group, Kind::kGroup>(v); }
inline MPI_Op op(Vid v) { return real<MPI_Op, Kind::kOp>(v); }
inline MPI_Request request(Vid v) { return real<MPI_Request, Kind::kRequest>(v); }
inline MPI_Message message(Vid v) { return real<MPI_Message, Kind::kMessage>(v); }
inline MPI_Win win(Vid v) { return real<MPI_Win, Kind::kWin>(v); }
inline MPI_Info info(Vid v) { return real<MPI_Info, Kind::kInfo>(v); }

// Gives a new object of the MPI, whose real handle is `word`, a vid without a recipe (except a group and an
// Info object): it works, and refuses every checkpoint while it exists; the refusal names `maker`, an index
// of the seam's function table. A null real handle gives the kind's null vid; a known one (predefined, or
// adopted before) its vid.
Vid adopt(Kind kind, uint64_t word, uint32_t maker);
Vid adopt_request(MPI_Request real, uint32_t maker);  // within an AdoptedRequestPlace (state.h)

// Registers `made`, which all members have just made from `parent` with result `code`; the last step is a
// broadcast on it. The recipe is membership and topology. Returns an error class of the seam.
int make_from(Vid parent, uint32_t maker, MPI_Comm made, int code, Vid* vid);

// Registers a new object with the recipe of the generated call that made it. Returns an error class of the
// seam.
int keep_datatype(MPI_Datatype real, uint32_t maker, const handles::RecipeWriter& recipe, Vid* vid);
void inherit_commitment(Vid from, Vid to);  // a duplicate is committed if its original is
// The type as its constructor made it, as envelope and contents tell: a restart may have resized it.
MPI_Datatype datatype_as_made(Vid vid);
void free_as_made(Vid vid);  // under structure_lock

// If `op` is the program's, keeps it and `type`: the pending `request` calls it with elements of that type.
void keep_op(Vid request, Vid op, Vid type);

// Returns the vid of a known real handle, or the kind's null vid. Linear in the number of handles.
Vid find_vid(Kind kind, uint64_t word);

// Call after the MPI freed the object behind `vid`. Does nothing for predefined and null handles.
void forget_object(Vid vid);
// Call when the real handle behind `vid` changed (an in/out parameter).
inline void rebind_handle(Vid vid, uint64_t word) { real_word(vid) = word; }

// An array of real handles. `write_back`, for in/out arrays, forgets entries that became null, makes them
// null in `vids` too, and rebinds the others.
template <class H>
class HandleArray {
 public:
  HandleArray(const Vid* vids, int n)
      : n_(vids && n > 0 ? n : 0), data_(items_.add(static_cast<size_t>(n_))) {
    for (int i = 0; i < n_; ++i) data_[i] = from_word<H>(real_word(vids[i]));
  }
  H* data() { return data_; }
  void write_back(Vid* vids) {
    for (int i = 0; i < n_; ++i) {
      const Kind kind = seam::vid_kind(vids[i]);
      const uint64_t word = to_word(data_[i]);
      if (word == real_word(vids[i])) continue;
      if (word == real_handles[static_cast<unsigned>(kind) & 15][0]) {
        forget_object(vids[i]);
        vids[i] = seam::make_vid(kind, 0);
      } else {
        rebind_handle(vids[i], word);
      }
    }
  }

 private:
  const int n_;
  handles::FewOrMany<H, 32> items_;  // most programs wait for fewer
  H* const data_;
};

// Datatypes that a nonblocking or persistent call may read until its request ends. The next request that this
// thread adopts owns them.
struct KeptTypes {
  HandleArray<MPI_Datatype> array;
  KeptTypes* next;
};
HandleArray<MPI_Datatype>& keep_types(const Vid* vids, int n);

// --- State that cannot be saved

// From now on this process cannot be checkpointed; refusals name the function and `why`. Permanent.
void mark_unsaved(uint32_t function, const char* why);
// The program uses a function that only one MPI has: a restart under the other is refused by its name.
void mark_used(uint32_t function);
// The MPI_TAG_UB for the program when the MPI's is `real`: always the first value returned. A restart under
// an MPI with smaller tags is refused.
int tell_largest_tag(int real);

// --- Values

inline int rank_in(int rank) { return constants::from_seam_rank(rank); }
inline int tag_in(int tag) { return constants::from_seam_tag(tag); }
inline void* buffer_in(const void* p) {
  return __builtin_expect(p == seam::in_place(), 0) ? MPI_IN_PLACE : const_cast<void*>(p);
}

// Returns the neutral error class of an MPI error code (MPI_SUCCESS -> kSuccess).
int error_class_out(int code);
inline int error_out(int code) {
  return __builtin_expect(code == MPI_SUCCESS, 1) ? seam::kSuccess : error_class_out(code);
}

// `to` may be nullptr (MPI_STATUS_IGNORE).
inline void status_out(const MPI_Status& from, seam::Status* to) {
  if (!to) return;
  constants::to_seam_status(from, to);
  to->error = error_out(from.MPI_ERROR);
}
MPI_Status status_in(const seam::Status& from);

}  // namespace cropdl::mpi
