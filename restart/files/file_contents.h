// Contents of the files that the program has open for writing. Those that can be changed in place are saved
// with the version (rank-K.files/N beside the image); of those that only grow at their end (O_APPEND) a mark
// tells whether their beginning is what it was. LH; the main thread while the program is stopped, or START of
// a restart.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/folder.h"
#include "base/result.h"
#include "restart/files/open_files.h"

namespace cropdl::files {

inline constexpr uint64_t kSaveFilesDefault = 1'000'000'000;

struct FileContent {  // one per inode
  std::string path;
  FileIdentity identity;
  std::string stored;     // name within the version's folder (restart/content.h); "": only appended to
  uint64_t checksum = 0;  // of all of it, or of the mark
};
void to_json(nlohmann::json& j, const FileContent& c);
void from_json(const nlohmann::json& j, FileContent& c);  // throws json::exception

// Fills in OpenFile::content. More than `limit` bytes to save are refused by name.
Result<std::vector<FileContent>> save_contents(std::vector<OpenFile>& files, const std::string& directory,
                                               uint32_t rank, uint64_t limit);

// What a restart does about files that are not as they were: `cropdl-restart --files`.
enum class FilesPolicy { kTruncate, kKeep, kFail };
Result<FilesPolicy> files_policy(const std::string& word);  // "" is truncate

struct FileVerdict {
  enum { kFine, kMissing, kDamaged, kRefused } kind = kFine;
  std::string line;
};
// Changes nothing.
FileVerdict check_content(const FileContent& content, const Folder& version, FilesPolicy policy);

// The contents as they were; says in `done` what was changed.
Status apply_content(const FileContent& content, const Folder& version, FilesPolicy policy,
                     std::string* done);

}  // namespace cropdl::files
