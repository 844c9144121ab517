// The program's threads besides the main one: stops them, saves what their records and stacks do not hold,
// and creates them again. See docs/threads.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "interpose/seam/state.h"
#include "restart/process/attributes.h"
#include "restart/threads/pending_signals.h"

namespace cropdl::program_threads {

// --- Stopping. AGENT; one stop at a time.

void begin_thread_stop();  // threads that park from now on record the number of this stop
// Asks running threads to park; call it until true: all are parked, and no new thread can appear.
bool stop_threads();
// Returns whether every thread is parked or inside a blocking send (ThreadRecord::sending), after which it
// parks. `main_serves`: the main thread is parked. Only after order_all_threads(), with attention set.
bool threads_only_send(bool main_serves);
void release_threads();                   // ends the stop; idempotent
void ask_to_stop(seam::ThreadRecord& t);  // sends a thread the suspend signal, once per stop
void ask_again();                         // the next stop_threads() and ask_to_stop() send it again
// Whether the last suspend signal could not be queued (RLIMIT_SIGPENDING, which counts the user's signals).
bool signal_queue_is_full();

// Removes pending suspend signals: if a library unblocked the signal, a second one would overwrite the
// first's frame. False: the program has one of that number, which stays. MAIN in its handler, or parked.
bool forget_suspend_signals() noexcept;

// --- While all are stopped. MAIN.

// The kernel's state of a thread that an image holds besides its record.
struct SavedThread {
  uint32_t record = 0;  // index
  std::string name;
  process::AttributeValues attributes;  // those that differ from the main thread's
  int64_t cpu = 0;                      // ns, over all runs
  std::vector<int64_t> usage;           // struct rusage, over all runs
  std::vector<std::string> pending;     // PendingSignal::info of its own
  static constexpr const char* kMembers[] = {"record", "name", "attributes", "cpu", "usage", "pending"};
};

// Returns all but the pending signals, which other processes may still send. An error names a thread and what
// of it cannot be saved. Unmaps the signal stacks of threads that have ended.
Result<std::vector<SavedThread>> saved_threads();
Status read_pending_signals(std::vector<SavedThread>& threads);
// Returns the signals that every thread of the program blocks: one sent to the process stays pending.
uint64_t blocked_everywhere();

// --- Restart. MAIN.

// Checks that as many threads can be created: creates them and lets them end.
Status try_threads(const std::vector<SavedThread>& threads);

// Creates the threads, which wait until go_on_with_threads(). They inherit the calling thread's credentials,
// filter and so on: call it last of all changes. `note`: a line about what could not be restored, or "".
Status make_threads(const std::vector<SavedThread>& threads, std::string* note);
void go_on_with_threads();

// Registers the record's area of restartable sequences for the calling thread. Any FS base; no C library. If
// the kernel has none, writes RSEQ_CPU_ID_UNINITIALIZED to it, as man 2 rseq specifies.
void register_rseq(const seam::ThreadRecord* t);

}  // namespace cropdl::program_threads
