// What a cut does to messages and receives, in attempts that follow one another: each begins with
// begin_drain() or begin_early_drain(). LH, LH FS base; the parked main thread, unless stated otherwise.
//
// The drain receives the messages under way into the persistent heap, from which they are delivered later as
// if they had just arrived (drained_messages.cpp). It takes only messages that no posted receive has matched
// (MPI_Improbe sees no others), in matching order. A receive keeps that order by looking among the drained
// messages first and in the network second.
#pragma once

#include <span>

#include "interpose/mpi/lower/state.h"

namespace cropdl::mpi {

extern const char* const kNoMemoryToDrain;
extern const char* const kFailedToDrain;

// `from`: the number of messages sent to this rank, per sender.
void begin_drain(std::span<const coord::PeerCount> from);
// Never blocks. True: no operation is in progress, and all expected messages are here.
bool drain_step();
const char* drain_trouble();              // why it cannot succeed; nullptr: none. Any thread.
void set_drain_trouble(const char* why);  // `why` stays
// Until the message is complete: after an abandoned checkpoint, a receive of the program may match one that
// the drain is still receiving. A thread of the program.
void wait_for_drained(DrainedMessage* m);

// The early drain receives arrived messages on a rank whose threads cannot stop: they are inside blocking
// sends to ranks whose receiving threads have stopped, perhaps likewise (docs/cut.md, "Sends of threads that
// cross"). A thread of the LH does it beside them, which needs MPI_THREAD_MULTIPLE. start_early_drain()
// creates it, once, after MPI is initialised; without it (a limit) nothing is drained early. START, or the
// program's main thread.
void start_early_drain();
// Agent's thread. Each thread of the program is parked, or in a blocking send after which it parks.
void begin_early_drain();
// Any thread. On return the thread is out of the MPI and touches nothing. Idempotent.
void end_early_drain();

// Pending receives are cancelled for the image after the drain, and posted again in their order. Returns a
// code of the MPI. On an error, the failing one, begun by `maker`, is pending or complete with the error;
// others may be parked.
int park_receives(uint32_t* maker);
// One that cannot be posted completes with the error. Returns the first error. Throws nothing and allocates
// nothing. The second: those of the image at a restart, before the program runs.
int post_parked_receives();
int post_receives_of_image();

}  // namespace cropdl::mpi
