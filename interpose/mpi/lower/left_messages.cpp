#include "interpose/mpi/lower/left_messages.h"

#include <new>

#include "interpose/mpi/lower/counting.h"
#include "interpose/mpi/lower/cut_session.h"
#include "interpose/mpi/lower/messages.h"

namespace cropdl::mpi {

// A persistent receive may still be started on the freed communicator.
static bool may_be_received(const CommRecord* c) {
  for (const RequestRecord& r : all_requests())
    if (r.state != kRequestFree && r.kind == kPersistentReceive && record_at(r.record) == c) return true;
  return false;
}

Left LeftMessages::drop(CommRecord* record, MPI_Comm comm, bool draining) {
  for (;;) {
    if (request_ != MPI_REQUEST_NULL) {
      int over = 1;
      if (MPI_Test(&request_, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && !over) return Left::kBusy;
      request_ = MPI_REQUEST_NULL;
      bytes_ = nullptr;
      message_came({record, source_, tag_});
    }
    if (const Left left = begin_to_drop(record, comm, draining); left != Left::kBusy) return left;
  }
}

// Returns whether it has begun to receive a message (kBusy).
Left LeftMessages::begin_to_drop(CommRecord* record, MPI_Comm comm, bool draining) {
  int flag = 0;
  MPI_Status s = no_message();
  if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &s) != MPI_SUCCESS) return Left::kKept;
  if (!flag) return Left::kNone;
  ++found_;
  // Nobody can make another one for a communicator that is freed.
  receivable_ = receivable_ && may_be_received(record);
  if (receivable_) return Left::kKept;
  seam::Status status;
  status_out(s, &status);
  bytes_.reset(new (std::nothrow) char[static_cast<size_t>(status.bytes) + 1]);
  if (!bytes_) {
    if (draining) cut_session().drain.set_trouble(kNoMemoryToDrain);
    return Left::kKept;
  }
  MPI_Message real = MPI_MESSAGE_NULL;
  if (MPI_Improbe(s.MPI_SOURCE, s.MPI_TAG, comm, &flag, &real, &s) != MPI_SUCCESS || !flag)
    return Left::kKept;
  source_ = s.MPI_SOURCE;
  tag_ = s.MPI_TAG;
  if (receive_bytes(&real, bytes_.get(), status.bytes, &request_) == MPI_SUCCESS) return Left::kBusy;
  // Nobody can receive it any more, so the counts of this job will never agree.
  request_ = MPI_REQUEST_NULL;
  mark_unsaved(seam::kFn_MPI_Comm_free, kFailedToDrain);
  if (draining) cut_session().drain.set_trouble(kFailedToDrain);
  return Left::kKept;
}

}  // namespace cropdl::mpi
