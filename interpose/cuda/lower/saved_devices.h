// The devices and libraries that the program uses, as a cut notes them with the family's state and a restart
// compares them. LH, LH FS base; the main thread, the program stopped (MAIN) or before it runs (START).
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
// START. Both add to `other` lines for people: the program continues with another version of a library, or on
// another model of the same architecture. The error is a line that names what is missing.
// Opens the files used before, or files of the same names.
Status open_libraries(std::vector<std::string>* other);
// Checks that this process has what the image needs.
Status compare_devices(std::vector<std::string>* other);
uint64_t devices_of_image();  // the devices that the program used, one bit each

}  // namespace cropdl::cuda
