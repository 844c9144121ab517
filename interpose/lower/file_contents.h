// Contents of the files that the program has open for writing. Those that can be changed in place are saved
// with the version (rank-K.files/N beside the image); of those that only grow at their end (O_APPEND) a mark
// tells whether their beginning is what it was. LH; the main thread while the program is stopped, or START of
// a restart.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <vector>

#include "interpose/lower/open_files.h"
#include "restart/result.h"

namespace cropdl::lower {

// The program's limit of file sizes is meant neither for its image nor for what a version
// holds of its files.
class WithoutFileSizeLimit {
 public:
  WithoutFileSizeLimit() : known_(getrlimit(RLIMIT_FSIZE, &limit_) == 0) {
    const rlimit widest{limit_.rlim_max, limit_.rlim_max};
    if (known_) setrlimit(RLIMIT_FSIZE, &widest);
  }
  ~WithoutFileSizeLimit() {
    if (known_) setrlimit(RLIMIT_FSIZE, &limit_);
  }
  WithoutFileSizeLimit(const WithoutFileSizeLimit&) = delete;
  WithoutFileSizeLimit& operator=(const WithoutFileSizeLimit&) = delete;

 private:
  rlimit limit_{};
  const bool known_;
};

inline constexpr uint64_t kSaveFilesDefault = 1'000'000'000;

struct FileContent {  // one per inode
  std::string path;
  FileIdentity identity;
  std::string stored;     // name within the version's directory; "": only appended to
  uint64_t checksum = 0;  // of all of it, or of the mark
};

// Fills in OpenFile::content. More than `limit` bytes to save are refused by name.
Result<std::vector<FileContent>> save_contents(std::vector<OpenFile>& files, const std::string& directory,
                                               uint32_t rank, uint64_t limit);

// What a restart does about files that are not as they were: `cropdl-restart --files`.
enum class FilesPolicy { kTruncate, kKeep, kFail };
Result<FilesPolicy> files_policy(const std::string& word);  // "" is truncate

// Whether the file of that name is the saved one, and not one that took its place.
bool is_same_file(const FileIdentity& saved, const FileIdentity& now);
// Size and time of the last change: nobody has written to it, as far as can be seen without reading it.
bool looks_the_same(const FileIdentity& saved, const FileIdentity& now);

struct Verdict {
  enum { kFine, kMissing, kDamaged, kRefused } kind = kFine;
  std::string line;
};
// Changes nothing. `directory`: the version's.
Verdict check_content(const FileContent& content, const std::string& directory, FilesPolicy policy);

// The contents as they were; says in `done` what was changed.
Status apply_content(const FileContent& content, const std::string& directory, FilesPolicy policy,
                     std::string* done);

}  // namespace cropdl::lower
