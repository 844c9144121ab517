// Finds the program's memory and writes it to an image. LH, MAIN, stopped.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "restart/chunks.h"
#include "restart/image.h"
#include "restart/memory/memory_state.h"

namespace cropdl::host_memory {

// "" or a refusal for what is mapped: milliseconds. Any thread; the program may run.
std::string memory_refusal();

// All mappings with their flags. Reading them walks all page tables, so one reading serves for a stop.
struct StoppedMemory {
  std::vector<Mapping> all;
  int lock_future = 0;  // flags of mlockall() that are in force for new mappings
};

// An error: as memory_refusal(), also because of flags.
Result<StoppedMemory> look_at_stopped_memory();

// What to write of each mapping, and the state to record. `may_leave`: files that may keep their contents.
struct ProgramMemory {
  std::vector<restart::Region> regions;
  MemoryState state;
};
Result<ProgramMemory> examine_memory(StoppedMemory seen,
                                     const std::function<bool(const MappedFile&)>& may_leave);

// Reads the memory region by region (the program is stopped), and passes it to `sink` in chunks. Pages that
// equal a file accepted by `may_refer` are saved by reference.
Status cut_memory(const ProgramMemory& memory, const std::function<bool(const MappedFile&)>& may_refer,
                  restart::ChunkSink& sink);

}  // namespace cropdl::host_memory
