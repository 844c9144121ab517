// The seam's own MPI ABI, between a shim (which uses the program's mpi.h) and a lower half (which uses the
// mpi.h of the real MPI). Neither mpi.h is visible here. Append-only: images hold shim code.
//
// Signature of a function in the seam, derived mechanically from its C prototype:
//   a handle (MPI_Comm, MPI_Datatype, ...)      -> Vid
//   a pointer to or an array of handles         -> Vid* (const Vid* where the prototype says const)
//   MPI_Status*                                 -> Status* (nullptr: ignore)
//   MPI_Aint, MPI_Count, MPI_Offset (pointers)  -> int64_t (int64_t*)
//   a function pointer                          -> void*
//   everything else                             -> as it is
// Returns an ErrorClass, or kAgain. double results stay double.
#pragma once

#include <cstdint>

#include "mpi_constants.h"  // ErrorClass: kSuccess, then the classes of the MPI standard

namespace cropdl::seam {

// kind << 24 | index. Index 0 is the kind's null handle. The predefined handles follow in the order of
// interpose/gen/mpi/predefined.txt. Handles that the program made begin at kFirstDynamic.
using Vid = uint32_t;
enum class Kind : uint32_t {
  kNone,
  kComm,
  kDatatype,
  kGroup,
  kOp,
  kRequest,
  kMessage,
  kWin,
  kInfo,
  kErrhandler,
  kFile,
  kSession
};
inline constexpr uint32_t kKinds = 12;
inline constexpr uint32_t kFirstDynamic = 4096;
constexpr Vid make_vid(Kind k, uint32_t index) { return static_cast<uint32_t>(k) << 24 | index; }
constexpr uint32_t vid_index(Vid v) { return v & 0xff'ffff; }
inline constexpr uint32_t kUnknownIndex = 0xf'ffff;  // no object has this index; the real MPI rejects it
constexpr Kind vid_kind(Vid v) { return static_cast<Kind>(v >> 24); }

struct Status {
  int32_t source, tag, error, cancelled;
  int64_t bytes;
};

// Integer constants that are valid in place of a rank, tag, colour or count.
inline constexpr int kAnySource = -1000001;
inline constexpr int kAnyTag = -1000002;
inline constexpr int kProcNull = -1000003;
inline constexpr int kRoot = -1000004;
inline constexpr int kUndefined = -1000005;
// Returned by a blocking function that left the LH because a checkpoint needs the thread. The shim repeats
// the call with the same arguments; the LH continues requests that were begun (ThreadRecord::pending).
inline constexpr int kAgain = -1000006;

// Pointers with a special meaning, as the seam encodes them. MPI_BOTTOM is 0 in every MPI.
inline void* in_place() { return reinterpret_cast<void*>(1); }        // MPI_IN_PLACE
inline int* unweighted() { return reinterpret_cast<int*>(2); }        // MPI_UNWEIGHTED
inline int* weights_empty() { return reinterpret_cast<int*>(3); }     // MPI_WEIGHTS_EMPTY
inline void* all_variables() { return reinterpret_cast<void*>(-1); }  // MPI_T_PVAR_ALL_HANDLES

// Or-ed to the truth value of MPI_Op_create's `commute`: the shim keeps its part of the operation until the
// LH calls `upper_call` with length kOperationIsGone and no data. That call may come after MPI_Op_free, when
// a request that uses the operation completes.
inline constexpr int kOperationIsToldOfItsEnd = 1 << 30;
inline constexpr int kOperationIsGone = -1;

enum ThreadLevel : int { kThreadSingle, kThreadFunneled, kThreadSerialized, kThreadMultiple };
enum Comparison : int { kIdent, kCongruent, kSimilar, kUnequal };

// The shim's record of a generalized request. The lower half reads its first word only.
enum GeneralizedCall : int { kQueryGeneralized, kFreeGeneralized, kCancelGeneralized };
struct GeneralizedCallbacks {
  // In the upper half: calls the program's function. Returns the program's error code.
  int (*call)(GeneralizedCallbacks* of, int what, Status* status, int complete);
};

}  // namespace cropdl::seam
