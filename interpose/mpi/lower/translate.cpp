// Values of the seam into those of the MPI and back; the rare cases of runtime.h's inline functions. LH, any
// thread.
#include <cstdarg>
#include <cstdio>

#include "base/say.h"
#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {
namespace {

struct ErrorPair {
  int real;
  int neutral;
};

// Every error class of the standard that this MPI has, in the order of the seam.
constexpr ErrorPair kErrors[] = {
    {MPI_SUCCESS, seam::kSuccess},
    {MPI_ERR_BUFFER, seam::kErrBuffer},
    {MPI_ERR_COUNT, seam::kErrCount},
    {MPI_ERR_TYPE, seam::kErrType},
    {MPI_ERR_TAG, seam::kErrTag},
    {MPI_ERR_COMM, seam::kErrComm},
    {MPI_ERR_RANK, seam::kErrRank},
    {MPI_ERR_REQUEST, seam::kErrRequest},
    {MPI_ERR_ROOT, seam::kErrRoot},
    {MPI_ERR_GROUP, seam::kErrGroup},
    {MPI_ERR_OP, seam::kErrOp},
    {MPI_ERR_TOPOLOGY, seam::kErrTopology},
    {MPI_ERR_DIMS, seam::kErrDims},
    {MPI_ERR_ARG, seam::kErrArg},
    {MPI_ERR_UNKNOWN, seam::kErrUnknown},
    {MPI_ERR_TRUNCATE, seam::kErrTruncate},
    {MPI_ERR_OTHER, seam::kErrOther},
    {MPI_ERR_INTERN, seam::kErrIntern},
    {MPI_ERR_IN_STATUS, seam::kErrInStatus},
    {MPI_ERR_PENDING, seam::kErrPending},
    {MPI_ERR_ACCESS, seam::kErrAccess},
    {MPI_ERR_AMODE, seam::kErrAmode},
    {MPI_ERR_ASSERT, seam::kErrAssert},
    {MPI_ERR_BAD_FILE, seam::kErrBadFile},
    {MPI_ERR_BASE, seam::kErrBase},
    {MPI_ERR_CONVERSION, seam::kErrConversion},
    {MPI_ERR_DISP, seam::kErrDisp},
    {MPI_ERR_DUP_DATAREP, seam::kErrDupDatarep},
    {MPI_ERR_FILE_EXISTS, seam::kErrFileExists},
    {MPI_ERR_FILE_IN_USE, seam::kErrFileInUse},
    {MPI_ERR_FILE, seam::kErrFile},
    {MPI_ERR_INFO_KEY, seam::kErrInfoKey},
    {MPI_ERR_INFO_NOKEY, seam::kErrInfoNoKey},
    {MPI_ERR_INFO_VALUE, seam::kErrInfoValue},
    {MPI_ERR_INFO, seam::kErrInfo},
    {MPI_ERR_IO, seam::kErrIo},
    {MPI_ERR_KEYVAL, seam::kErrKeyval},
    {MPI_ERR_LOCKTYPE, seam::kErrLocktype},
    {MPI_ERR_NAME, seam::kErrName},
    {MPI_ERR_NO_MEM, seam::kErrNoMem},
    {MPI_ERR_NOT_SAME, seam::kErrNotSame},
    {MPI_ERR_NO_SPACE, seam::kErrNoSpace},
    {MPI_ERR_NO_SUCH_FILE, seam::kErrNoSuchFile},
    {MPI_ERR_PORT, seam::kErrPort},
    {MPI_ERR_QUOTA, seam::kErrQuota},
    {MPI_ERR_READ_ONLY, seam::kErrReadOnly},
    {MPI_ERR_RMA_CONFLICT, seam::kErrRmaConflict},
    {MPI_ERR_RMA_SYNC, seam::kErrRmaSync},
    {MPI_ERR_SERVICE, seam::kErrService},
    {MPI_ERR_SIZE, seam::kErrSize},
    {MPI_ERR_SPAWN, seam::kErrSpawn},
    {MPI_ERR_UNSUPPORTED_DATAREP, seam::kErrUnsupportedDatarep},
    {MPI_ERR_UNSUPPORTED_OPERATION, seam::kErrUnsupportedOperation},
    {MPI_ERR_WIN, seam::kErrWin},
    {MPI_ERR_RMA_RANGE, seam::kErrRmaRange},
    {MPI_ERR_RMA_ATTACH, seam::kErrRmaAttach},
    {MPI_ERR_RMA_SHARED, seam::kErrRmaShared},
    {MPI_ERR_RMA_FLAVOR, seam::kErrRmaFlavor},
#if defined(MPI_ERR_SESSION)
    {MPI_ERR_SESSION, seam::kErrSession},
#endif
#if defined(MPI_ERR_PROC_ABORTED)
    {MPI_ERR_PROC_ABORTED, seam::kErrProcAborted},
#endif
#if defined(MPI_ERR_VALUE_TOO_LARGE)
    {MPI_ERR_VALUE_TOO_LARGE, seam::kErrValueTooLarge},
#endif
};

}  // namespace

int error_class_out(int code) {
  int real = MPI_ERR_UNKNOWN;
  if (MPI_Error_class(code, &real) != MPI_SUCCESS) return seam::kErrUnknown;
  for (const ErrorPair& e : kErrors) {
    if (e.real == real) return e.neutral;
  }
  return seam::kErrOther;
}

int error_in(int neutral_class) {
  for (const ErrorPair& e : kErrors) {
    if (e.neutral == neutral_class) return e.real;
  }
  return MPI_ERR_OTHER;
}

int special_rank_in(int rank) {
  switch (rank) {
    case seam::kAnySource:
      return MPI_ANY_SOURCE;
    case seam::kProcNull:
      return MPI_PROC_NULL;
    case seam::kRoot:
      return MPI_ROOT;
    case seam::kUndefined:
      return MPI_UNDEFINED;
    // What is no constant in the seam must not become one in the MPI (its MPI_PROC_NULL may be this very -1).
    default:
      return rank < 0 ? -12345 : rank;
  }
}

int special_rank_out(int rank) {
  if (rank == MPI_ANY_SOURCE) return seam::kAnySource;
  if (rank == MPI_PROC_NULL) return seam::kProcNull;
  if (rank == MPI_ROOT) return seam::kRoot;
  if (rank == MPI_UNDEFINED) return seam::kUndefined;
  return rank;
}

int thread_level_in(int level) {
  switch (level) {
    case seam::kThreadSingle:
      return MPI_THREAD_SINGLE;
    case seam::kThreadFunneled:
      return MPI_THREAD_FUNNELED;
    case seam::kThreadSerialized:
      return MPI_THREAD_SERIALIZED;
    default:
      return MPI_THREAD_MULTIPLE;
  }
}

int thread_level_out(int level) {
  if (level == MPI_THREAD_SINGLE) return seam::kThreadSingle;
  if (level == MPI_THREAD_FUNNELED) return seam::kThreadFunneled;
  if (level == MPI_THREAD_SERIALIZED) return seam::kThreadSerialized;
  return seam::kThreadMultiple;
}

MPI_Status status_in(const seam::Status& from) {
  MPI_Status to{};
  to.MPI_SOURCE = rank_in(from.source);
  to.MPI_TAG = tag_in(from.tag);
  to.MPI_ERROR = error_in(from.error);
#if defined(OPEN_MPI)
  to._ucount = static_cast<size_t>(from.bytes);
  to._cancelled = from.cancelled;
#else
  to.count_lo = static_cast<int>(from.bytes & 0xffff'ffff);
  to.count_hi_and_cancelled = static_cast<int>(from.bytes >> 32 << 1 | (from.cancelled & 1));
#endif
  return to;
}

void say(const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  cropdl::say("cropdl: rank " + std::to_string(state ? state->rank : -1) + ": " + line);
}

}  // namespace cropdl::mpi
