// Matched probes. A handle stands for a real message, or a drained one (the slot's owner[0]). It outlives its
// communicator (owner[1]), whose index may be reused before the receive: so the communicator's record of that
// time (owner[2]) counts the message. LH, LH FS base, threads of the program.
#include "interpose/mpi/lower/messages.h"

#include <vector>

#include "lower_functions.h"

namespace cropdl::mpi {

namespace {

// *flag: whether it gives a message.
int matched_probe(int source, int tag, Vid comm, int* flag, Vid* message, seam::Status* status,
                  uint32_t maker) {
  *flag = 0;
  *message = kNullMessage;
  if (source == seam::kProcNull) {
    *flag = 1;
    *message = seam::kVid_MPI_MESSAGE_NO_PROC;
    if (status) *status = status_of_no_process();
    return seam::kSuccess;
  }
  int arrived = 0;
  const int result = lower_MPI_Iprobe(source, tag, comm, &arrived, nullptr);
  if (result != seam::kSuccess || !arrived) return result;
  // Takes the handle before the message is matched, because the program would lose a message without a
  // handle. The recipe is only the status: a cut drains the message and needs its size.
  seam::Status found = empty_status();
  const Vid made = new_object(Kind::kMessage, to_word(MPI_MESSAGE_NULL), maker, {}, &found, sizeof found);
  if (!seam::vid_index(made)) return seam::kErrIntern;
  DrainedMessage* const drained = state->drained ? take_drained(comm, source, tag) : nullptr;
  MPI_Message real = MPI_MESSAGE_NULL;
  if (drained) {
    found = status_of(drained);
  } else {
    MPI_Status s = no_message();
    int matched = 0;  // another thread may have taken it
    const int code = MPI_Improbe(rank_in(source), tag_in(tag), mpi::comm(comm), &matched, &real, &s);
    if (code != MPI_SUCCESS || !matched) {
      forget_object(made);
      return error_out(code);
    }
    status_out(s, &found);
  }
  *flag = 1;
  if (status) *status = found;
  *message = made;
  const handles::SpinGuard guard(structure_lock, multiple);
  std::vector<handles::Handle> none;
  tables->rewrite_recipe(made, {}, &found, sizeof found, none);
  handles::Slot* slot = tables->slot(made);
  slot->owner[0] = reinterpret_cast<uint64_t>(drained);
  slot->owner[1] = comm;
  slot->owner[2] = reinterpret_cast<uint64_t>(comm_record(comm));
  rebind_handle(made, to_word(real));
  return seam::kSuccess;
}

int matched_receive(void* buffer, int count, Vid type, Vid* message, Vid* request, uint32_t maker) {
  *request = kNullRequest;
  RequestPlace place;
  if (!place) return seam::kErrIntern;
  if (*message == seam::kVid_MPI_MESSAGE_NO_PROC) {
    *message = kNullMessage;
    *request =
        place.take({kReceiveRequest, maker, buffer, count, type, seam::kProcNull, seam::kAnyTag, kNullComm},
                   MPI_REQUEST_NULL);
    finish_request_with(request_record(*request), status_of_no_process());
    return seam::kSuccess;
  }
  // A copy of a handle whose message has been received may name nothing.
  if (seam::vid_kind(*message) != Kind::kMessage || !tables->live(*message)) return seam::kErrRequest;
  const handles::Slot* s = tables->slot(*message);
  const Vid comm = static_cast<Vid>(s->owner[1]);
  auto* drained = reinterpret_cast<DrainedMessage*>(s->owner[0]);
  MPI_Request real = MPI_REQUEST_NULL;
  MPI_Message m = mpi::message(*message);
  const int code =
      drained ? check_receive(buffer, count, type) : MPI_Imrecv(buffer, count, datatype(type), &m, &real);
  if (code != MPI_SUCCESS) return error_out(code);
  *request =
      place.take({kReceiveRequest, maker, buffer, count, type, seam::kAnySource, seam::kAnyTag, comm}, real);
  request_record(*request)->matched = 1;
  request_record(*request)->record = s->owner[2];
  if (drained) finish_request_with(request_record(*request), deliver_drained(drained, buffer, count, type));
  forget_object(*message);
  *message = kNullMessage;
  return seam::kSuccess;
}

}  // namespace

extern "C" {

int lower_MPI_Improbe(int source, int tag, Vid comm, int* flag, Vid* message, seam::Status* status) {
  return matched_probe(source, tag, comm, flag, message, status, seam::kFn_MPI_Improbe);
}

int lower_MPI_Mprobe(int source, int tag, Vid comm, Vid* message, seam::Status* status) {
  for (Spin spin;; spin.turn()) {
    int flag = 0;
    const int result = matched_probe(source, tag, comm, &flag, message, status, seam::kFn_MPI_Mprobe);
    if (flag || result != seam::kSuccess) return result;
    if (stop_wanted()) return seam::kAgain;
  }
}

int lower_MPI_Imrecv(void* buffer, int count, Vid type, Vid* message, Vid* request) {
  return matched_receive(buffer, count, type, message, request, seam::kFn_MPI_Imrecv);
}

int lower_MPI_Mrecv(void* buffer, int count, Vid type, Vid* message, seam::Status* status) {
  if (!continues()) {
    Vid request = kNullRequest;
    const int result = matched_receive(buffer, count, type, message, &request, seam::kFn_MPI_Mrecv);
    if (result != seam::kSuccess) return result;
    seam::current_thread()->pending[0] = request;
  }
  return continue_pending(status);
}

}  // extern "C"

}  // namespace cropdl::mpi
