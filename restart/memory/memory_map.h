// Which memory is the program's, in and out of an image. LH; the main thread while the program is stopped, or
// START.
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

// The program's memory is the window but the control page, memory below 4 GiB (a non-PIE program), and what
// the program placed elsewhere itself.

// "", or the first mapping that cannot be saved, by what it maps. Any thread of the LH, the program may run.
std::string memory_refusal();

// The same, by its flags, too: MAIN, while the program is stopped.
std::string refusal_of_stopped_memory();

// The program's memory as it lies there: what to write of each mapping, and what else to know of it.
// `may_leave` says of which files the contents may be left in them.
struct ProgramMemory {
  std::vector<restart::Region> regions;
  MemoryState state;
};
Result<ProgramMemory> examine_memory(const std::function<bool(const MappedFile&)>& may_leave);

// Reads it, region by region, from where it lies now (the program is stopped), and hands it on in chunks.
// Files for which `may_refer` says so are not saved where the memory is as in them.
Status cut_memory(const ProgramMemory& memory, const std::function<bool(const MappedFile&)>& may_refer,
                  restart::ChunkSink& sink);
uint64_t memory_bytes(const ProgramMemory& memory);  // at most so many

// The files that the program runs code of: itself and its libraries.
std::set<std::string> files_with_code(const MemoryState& state);

// Keeps the image's addresses outside the window free for it. On failure nothing is kept, and the error says
// which address is taken: another layout of this process may have it free.
Status reserve_addresses(const restart::ImageReader& image);
void release_addresses();  // what of them nothing was mapped over, when another version is tried

// Maps every region of the image; then loads their contents, which fails if the image is damaged. On failure
// nothing stays mapped.
Status map_memory(const restart::ImageReader& image, const MemoryState& state);
Status load_memory(const restart::ImageReader& image, const MemoryState& state);
// Likewise what the image has by reference, and what was left in files; the error names the file that is not
// what it was. `as_they_are`: of the latter any file of the name will do (FilesPolicy::kKeep).
Status load_references(const restart::ImageReader& image, const MemoryState& state, bool as_they_are);
void unmap_memory(const restart::ImageReader& image);

// What comes when this version is the one, and its files are as they were: file mappings, guard pages, locks.
// `as_they_are`: as load_references(). `put_back`: files that some rank puts back later, when all have come
// this far. `note`: "" or a line for people.
Status finish_memory(const restart::ImageReader& image, const MemoryState& state, bool as_they_are,
                     const FileKeys& put_back, std::string* note);

}  // namespace cropdl::host_memory
