// Which memory is the program's, in and out of an image. LH; the main thread while the program is stopped, or
// START.
#pragma once

#include <string>
#include <vector>

#include "interpose/lower/mappings.h"
#include "restart/image.h"
#include "restart/result.h"

namespace cropdl::lower {

// All of it: the window but the control page, memory below 4 GiB (a non-PIE program), and what the program
// placed elsewhere itself.
std::vector<Mapping> program_mappings();

// Writes the program's memory and `metadata` to a new image file.
Result<restart::ImageTotals> write_memory(const std::string& path, const std::string& metadata);

// Maps and loads every region of the image. On failure nothing stays mapped.
Status load_memory(const restart::ImageReader& image);
void unmap_memory(const restart::ImageReader& image);

}  // namespace cropdl::lower
