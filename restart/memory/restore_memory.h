// Restores the program's memory from an image. LH, MAIN, START of a restart.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "restart/files/file_identity.h"
#include "restart/image.h"
#include "restart/memory/memory_state.h"

namespace cropdl::host_memory {

// An image's addresses outside the window, kept free until the program's memory is mapped.
class ReservedAddresses {
 public:
  // On failure nothing stays reserved; the error names the address, which another layout may have free.
  Status reserve(const restart::ImageReader& image);
  bool hold(const restart::Region& r) const;
  void release();  // unmaps them before another version is tried

 private:
  std::vector<restart::Extent> extents_;
};

// Maps every region of the image. On failure nothing stays mapped or reserved.
Status map_memory(const restart::ImageReader& image, const MemoryState& state, ReservedAddresses& reserved);
// Loads their contents, which fails if the image is damaged. On failure call unmap_memory().
Status load_memory(const restart::ImageReader& image, const MemoryState& state);
// Loads contents saved by reference, and checks files in which contents were left. The error names the file
// that differs; call unmap_memory() then. Files in `put_back` are checked later. `as_they_are`: for the
// latter any file of the name that is long enough suffices (FilesPolicy::kKeep).
Status load_references(const restart::ImageReader& image, const MemoryState& state, bool as_they_are,
                       const files::FilesPutBack& put_back);
void unmap_memory(const restart::ImageReader& image, ReservedAddresses& reserved);

// A shared mapping of a file that some rank puts back.
struct LateMapping {
  restart::Region region;
  const RegionState* state;  // of the image's metadata
};

// Last step, when this version is chosen and its files are as they were: file mappings, guard pages, locks.
// `as_they_are`: as for load_references(). `note`: "" or a line for the user. Shared mappings of files in
// `put_back` are left to finish_late_mappings().
Status finish_memory(const restart::ImageReader& image, const MemoryState& state, bool as_they_are,
                     const files::FilesPutBack& put_back, std::vector<LateMapping>* late, std::string* note);

// When all ranks have put files back. Fails if a file does not have the contents of the cut.
Status finish_late_mappings(const std::vector<LateMapping>& late);

}  // namespace cropdl::host_memory
