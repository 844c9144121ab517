// The control page as the LH writes it. At its own address the same memory can only be read: what the
// program's half calls through is nothing that a stray write of the program changes. LH; any thread.
#pragma once

#include "interpose/seam/layout.h"

namespace cropdl::seam {

inline seam::ControlPage* writable_control = seam::control();  // elsewhere once map_control_page has run

}  // namespace cropdl::seam
