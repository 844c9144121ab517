// Runs LH code on a program thread that is parked or was just created, for system calls that concern only the
// calling thread. One thread at a time borrows the TLS block and stack of a lending thread. MAIN.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "interpose/seam/state.h"

namespace cropdl::program_threads {

// The program's threads besides the main one.
template <class Visit>
void each_thread(Visit visit) {
  auto* s = seam::state();
  for (uint32_t i = 1; i < s->threads_high; ++i)
    if (s->threads[i].kind == seam::kOtherThread && s->threads[i].used == seam::kLive) visit(s->threads[i]);
}

void wake(seam::ThreadRecord& t);

// Starts the lending thread, if there is none yet. run_on() does so, too.
Status have_block();

// Returns what `run` returns, or the error that stands for what it throws.
Status run_on(seam::ThreadRecord& t, const std::function<Status()>& run);

std::string name_of(const seam::ThreadRecord& t, const std::string& comm);  // for messages

}  // namespace cropdl::program_threads
