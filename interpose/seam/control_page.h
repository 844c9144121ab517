// The LH's writable mapping of the control page. The mapping at kControlPage is read-only, so that no stray
// write of the program changes the functions that the UH calls. LH; any thread.
#pragma once

#include "interpose/seam/layout.h"

namespace cropdl::seam {

inline seam::ControlPage* writable_control = seam::control();  // another address after map_control_page

}  // namespace cropdl::seam
