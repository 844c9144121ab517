// The program's threads besides the main one: stopping them, what is saved of them beside their records and
// stacks, and making them again. See docs/threads.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "interpose/seam/state.h"
#include "restart/process/attributes.h"
#include "restart/threads/pending_signals.h"

namespace cropdl::program_threads {

// --- Stopping. AGENT; one stop at a time.

// Begins a stop: threads that park from here on park under its number.
void begin_thread_stop();
// Asks those that run to park. True: all have, and no new one can come. To be called again until then.
bool stop_threads();
// Whether no thread runs any more but those that are inside a blocking send (ThreadRecord::sending), and park
// when they leave it. `main_serves`: the main thread is parked. Only after order_all_threads(), with
// attention set.
bool threads_only_send(bool main_serves);
// Ends the stop. Idempotent.
void release_threads();
// Sends a thread the suspend signal, unless it was sent for this stop already.
void ask_to_stop(seam::ThreadRecord& t);

// MAIN, in its suspend handler: a second one that is pending would, if a library opened the mask, begin on
// the frame of the first. False: one of the program's own is pending, and stays. Also on a thread that is
// parked.
bool forget_suspend_signals();

// --- While all are stopped. MAIN.

// What the kernel keeps of a thread, and an image beside its record.
struct SavedThread {
  uint32_t record = 0;  // index
  std::string name;
  process::AttributeValues attributes;  // other than the main thread's
  int64_t cpu = 0;                      // ns, of all runs, and struct rusage likewise
  std::vector<int64_t> usage;
  std::vector<PendingSignal> pending;
};
void to_json(nlohmann::json& j, const SavedThread& t);
void from_json(const nlohmann::json& j, SavedThread& t);

// All of it but the pending signals, which others may still send. An error names a thread, and what of it
// cannot be saved. Gives back the signal stacks of threads that have ended.
Result<std::vector<SavedThread>> saved_threads();
Status read_pending_signals(std::vector<SavedThread>& threads);
// Signals that no thread of the program has open: one that is sent to the process waits.
uint64_t blocked_everywhere();

// --- Restart. MAIN.

// Whether as many threads can be had: makes them, and lets them end.
Status try_threads(const std::vector<SavedThread>& threads);

// Makes them; they wait until go_on_with_threads(). When nothing else of the process will change any more:
// they get this thread's credentials, filter and so on. `note`: what could not be put back of them, a line,
// or "".
Status make_threads(const std::vector<SavedThread>& threads, std::string* note);
void go_on_with_threads();

// The calling thread's area of restartable sequences becomes the record's. Any FS base; no C library. A
// kernel that has no such areas is told to the program in the area, as man 2 rseq has it:
// RSEQ_CPU_ID_UNINITIALIZED.
void register_rseq(const seam::ThreadRecord* t);

}  // namespace cropdl::program_threads
