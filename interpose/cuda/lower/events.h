// Recording times of events across a restart. A restart records the recorded events again, so that waits for
// them end; the time between two of them stays the same. LH.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda {

// Serves attempts in sequence. MAIN.
class EventTimes {
 public:
  // At a cut, with idle devices: stores each event's age with it. The error is one line for users.
  Status note();
  // After the image is written or given up.
  void resume();

 private:
  bool note_those_of(int device, const std::vector<handles::Slot*>& events);

  // Values that the cut has changed for the image. This run continues with the old ones.
  std::vector<std::pair<handles::Slot*, uint64_t>> of_this_run_;
};

// Records the program's recorded events once more, so that waits for them end. START.
Status record_events();
// After that. START.
void begin_event_times();

}  // namespace cropdl::cuda
