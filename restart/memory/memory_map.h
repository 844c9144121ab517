// The program's memory: finds it, writes it to an image and restores it. LH; the main thread while the
// program is stopped, or START.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "restart/image.h"
#include "restart/memory/mappings.h"
#include "restart/memory/memory_state.h"

namespace cropdl::host_memory {

// The program's memory is the window except the control page, memory below 4 GiB (a non-PIE program), and
// memory that the program placed elsewhere itself.

// "" or a refusal of a mapping because of what it maps. Any thread of the LH; the program may run.
std::string memory_refusal();

// As memory_refusal(), also because of flags. MAIN, while the program is stopped.
std::string refusal_of_stopped_memory();

// What to write of each mapping, and the state to record with it. `may_leave` decides for which files the
// contents may stay in them.
struct ProgramMemory {
  std::vector<restart::Region> regions;
  MemoryState state;
};
Result<ProgramMemory> examine_memory(const std::function<bool(const MappedFile&)>& may_leave);

// Reads the memory region by region (the program is stopped), and passes it to `sink` in chunks. Pages that
// equal a file accepted by `may_refer` are saved by reference.
Status cut_memory(const ProgramMemory& memory, const std::function<bool(const MappedFile&)>& may_refer,
                  restart::ChunkSink& sink);
uint64_t memory_bytes(const ProgramMemory& memory);  // upper bound of what cut_memory() reads

// The files whose code the program runs: itself and its libraries.
std::set<std::string> files_with_code(const MemoryState& state);

// Reserves the image's addresses outside the window. On failure nothing stays reserved; the error names the
// address that is taken, which may be free in another layout of this process.
Status reserve_addresses(const restart::ImageReader& image);
void release_addresses();  // unmaps them before another version is tried

// Map every region of the image; load their contents, which fails if the image is damaged. On failure nothing
// stays mapped.
Status map_memory(const restart::ImageReader& image, const MemoryState& state);
Status load_memory(const restart::ImageReader& image, const MemoryState& state);
// Loads contents saved by reference, and checks files in which contents were left. The error names the file
// that differs; nothing stays mapped then. Files in `put_back` are checked later. `as_they_are`: for the
// latter any file of the name that is long enough suffices (FilesPolicy::kKeep).
Status load_references(const restart::ImageReader& image, const MemoryState& state, bool as_they_are,
                       const FileKeys& put_back);
void unmap_memory(const restart::ImageReader& image);

// A shared mapping of a file that some rank puts back.
struct LateMapping {
  restart::Region region;
  const RegionState* state;  // of the image's metadata
};

// Last step, when this version is chosen and its files are as they were: file mappings, guard pages, locks.
// `as_they_are`: as for load_references(). `note`: "" or a line for the user. Shared mappings of files in
// `put_back` are left to finish_late_mappings().
Status finish_memory(const restart::ImageReader& image, const MemoryState& state, bool as_they_are,
                     const FileKeys& put_back, std::vector<LateMapping>* late, std::string* note);

// When all ranks have put files back. Fails if a file does not have the contents of the cut.
Status finish_late_mappings(const std::vector<LateMapping>& late);

}  // namespace cropdl::host_memory
