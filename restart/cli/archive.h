// A tar archive (pax, man 5 tar) of regular files, by libarchive. Holes are preserved. Errors begin with the
// archive's name. Tools; one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/result.h"

struct archive;

namespace cropdl::cli {

using ArchiveHandle = std::unique_ptr<archive, int (*)(archive*)>;

class ArchiveWriter {
 public:
  // `fd` remains the caller's. The suffix of `name` chooses the compression: .gz or .tgz, .zst, any other:
  // none.
  static Result<ArchiveWriter> open(int fd, const std::string& name);

  // Adds the file's content with mode 0600. `from` is the file's path, for error messages.
  Status add(const std::string& path, const Descriptor& file, const std::string& from);
  // Completes the archive.
  Status finish();

 private:
  ArchiveWriter(ArchiveHandle all, std::string name) : archive_(std::move(all)), name_(std::move(name)) {}
  Error failed() const;

  ArchiveHandle archive_;
  std::string name_;
};

class ArchiveReader {
 public:
  // Detects the compression.
  static Result<ArchiveReader> open(int fd, const std::string& name);

  struct Entry {
    std::string path;
    uint64_t bytes = 0;
  };
  // Returns the next regular file, or empty at the end. Skips folders; any other kind is an error.
  Result<std::optional<Entry>> next();

  // Return the content of the entry from next(): as text of at most `limit` bytes, or in a new file, synced.
  Result<std::string> text(uint64_t limit);
  Status extract(const Descriptor& file, const std::string& path);

 private:
  ArchiveReader(ArchiveHandle all, std::string name) : archive_(std::move(all)), name_(std::move(name)) {}
  Error failed() const;

  ArchiveHandle archive_;
  std::string name_;
  Entry entry_;
};

}  // namespace cropdl::cli
