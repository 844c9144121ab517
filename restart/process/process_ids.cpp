#include "restart/process/process_ids.h"

#include <unistd.h>

#include "interpose/seam/state.h"

namespace cropdl::process {
namespace {

// The core keeps the pair true when the program itself changes its group or session after a restart. What
// changed otherwise (a new parent after the old one's death) the program is told as it is.
void note(int32_t now, int32_t& upper, int32_t& real) {
  if (upper == 0 || now != real) upper = now;
  real = now;
}

}  // namespace

void note_ids() {
  auto& ids = seam::state()->ids;
  note(getppid(), ids.upper_parent, ids.real_parent);
  note(getpgrp(), ids.upper_group, ids.real_group);
  note(getsid(0), ids.upper_session, ids.real_session);
}

void take_place_of_ids() {
  auto* state = seam::state();
  state->real_pid = getpid();
  state->ids.real_parent = getppid();
  state->ids.real_group = getpgrp();
  state->ids.real_session = getsid(0);
}

}  // namespace cropdl::process
