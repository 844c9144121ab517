#include "restart/process/process_ids.h"

#include <unistd.h>

#include "interpose/seam/state.h"

namespace cropdl::process {
namespace {

// The core updates the pair if the program changes its group or session after a restart. After other changes
// (a new parent after the old one's death) the program sees the kernel's id.
void note(int32_t now, int32_t& upper, int32_t& real) {
  if (upper == 0 || now != real) upper = now;
  real = now;
}

}  // namespace

void note_ids() {
  auto& ids = seam::state()->ids;
  note(getppid(), ids.virtual_parent, ids.kernel_parent);
  note(getpgrp(), ids.virtual_group, ids.kernel_group);
  note(getsid(0), ids.virtual_session, ids.kernel_session);
}

void take_place_of_ids() {
  auto* state = seam::state();
  state->kernel_pid = getpid();
  state->ids.kernel_parent = getppid();
  state->ids.kernel_group = getpgrp();
  state->ids.kernel_session = getsid(0);
}

}  // namespace cropdl::process
