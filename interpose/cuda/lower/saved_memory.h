// What a cut and a restart do with the program's device memory. LH, LH FS base; the main thread while the
// program is stopped (MAIN) or before it runs (START), unless stated otherwise.
#pragma once

#include <string>

#include "base/result.h"
#include "interpose/cuda/lower/memory.h"

namespace cropdl::cuda {

// "", or why memory in use cannot be saved. AGENT or MAIN.
std::string memory_refusal();

// A cut. MAIN, all devices idle.
Status settle_memory();  // before the heap is saved
Status save_memory(restart::ChunkSink& sink);
uint64_t memory_region_bytes();

// --- A restart. START.
Status take_addresses();  // before objects are made again: addresses and chunks
// After objects are made again. `variables_may_move`: cropdl-restart --moved-variables.
Status load_memory(const restart::ImageReader& image, bool variables_may_move);

// --- Parts in memory_host.cpp and memory_pointers.cpp.
Status note_unmapped_host_memory();  // MAIN
std::string host_memory_refusal();
Status register_host_memory_again();
Status set_pointer_attributes_again();

}  // namespace cropdl::cuda
