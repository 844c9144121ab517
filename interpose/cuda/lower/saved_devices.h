// The devices and libraries that the program uses, as a cut notes them and a restart compares them. Kept with
// the family's state. LH, LH FS base; the main thread while the program is stopped (MAIN) or before it runs
// (START).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace cropdl::cuda {

// MAIN, once the devices are idle.
Status note_devices();
Status note_libraries();
std::string noted_devices();  // in use, for people: "2 x NVIDIA H100 (compute capability 9.0)"
// START: opens the files used before, or files of the same names; the error is a line that names a missing
// one.
Status open_libraries();
// START: checks that this process has what the image needs; the error is one line that names what is missing.
Status compare_devices();
uint64_t devices_of_image();  // the devices that the program used, one bit each
// Lines for people: the program continues on another model of the same architecture, or with another version
// of a library.
const std::vector<std::string>& other_devices();

}  // namespace cropdl::cuda
