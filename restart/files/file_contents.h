// Contents of files that the program has open for writing. Those that can change in place are saved with the
// version (rank-K.files/N beside the image); of those that only grow (O_APPEND), a checksum, the mark, tells
// whether their beginning is unchanged. LH, MAIN, stopped or START of a restart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/folder.h"
#include "base/result.h"
#include "restart/files/open_files.h"

namespace cropdl::files {

inline constexpr uint64_t kSaveFilesDefault = 1'000'000'000;

// Sets OpenFile::content. Refuses by name to save more than `limit` bytes.
Result<std::vector<FileContent>> save_contents(std::vector<OpenFile>& files, const std::string& directory,
                                               uint32_t rank, uint64_t limit);

// How a restart treats files that differ from the checkpoint: `cropdl-restart --files`.
enum class FilesPolicy { kTruncate, kKeep, kFail };
Result<FilesPolicy> files_policy(const std::string& word);  // "" is truncate

struct FileVerdict {
  enum Kind { kFine, kMissing, kDamaged, kRefused } kind = kFine;
  std::string line;
  FileIdentity examined = {};  // the file that is fine; inode 0: none was examined
  explicit operator bool() const { return kind == kFine; }
};
template <class... A>
FileVerdict refused(fmt::format_string<A...> line, A&&... values) {
  return {FileVerdict::kRefused, formatted(line, std::forward<A>(values)...)};
}
// Changes nothing.
FileVerdict check_content(const FileContent& content, const Folder& version, FilesPolicy policy);

// Whether the open file has the saved content; false if that is not saved, or the file may not be read.
bool has_saved_content(const FileContent& content, int fd);

// Restores the contents; appends the changes to `done`. `its`: the file that has them now. The program must
// get that one, wherever the name leads later.
Status apply_content(const FileContent& content, const Folder& version, FilesPolicy policy, std::string* done,
                     FileIdentity* its);

}  // namespace cropdl::files
