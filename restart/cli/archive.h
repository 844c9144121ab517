// A tar archive (pax, man 5 tar) of regular files, by libarchive. Holes stay holes. Tools; one thread. Errors
// begin with the archive's name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/result.h"

struct archive;

namespace cropdl::cli {

enum class Compression { kNone, kGzip, kZstd };

// By the name's end: .gz or .tgz, .zst, anything else.
Compression compression_of(const std::string& file_name);

class ArchiveWriter {
 public:
  // `fd` stays the caller's; `name` is for errors.
  static Result<ArchiveWriter> open(int fd, const std::string& name, Compression compression);

  // The file's content, for its owner alone. `from` is its path, for errors.
  Status add(const std::string& path, const Descriptor& file, const std::string& from);
  // Without it the archive is not whole.
  Status finish();

 private:
  struct Free {
    void operator()(archive* all) const;
  };
  ArchiveWriter(std::unique_ptr<archive, Free> all, std::string name)
      : archive_(std::move(all)), name_(std::move(name)) {}
  Error failed() const;

  std::unique_ptr<archive, Free> archive_;
  std::string name_;
};

class ArchiveReader {
 public:
  // Whatever compression it has.
  static Result<ArchiveReader> open(int fd, const std::string& name);

  struct Entry {
    std::string path;
    uint64_t bytes = 0;
  };
  // The next regular file; folders are passed over, and what is neither is an error. Empty at the end.
  Result<std::optional<Entry>> next();

  // The content of the entry that next() gave: as text, of at most `limit` bytes; or into a new file, synced.
  Result<std::string> text(uint64_t limit);
  Status extract(const Descriptor& file, const std::string& path);

 private:
  struct Free {
    void operator()(archive* all) const;
  };
  ArchiveReader(std::unique_ptr<archive, Free> all, std::string name)
      : archive_(std::move(all)), name_(std::move(name)) {}
  Error failed() const;

  std::unique_ptr<archive, Free> archive_;
  std::string name_;
  Entry entry_;
};

}  // namespace cropdl::cli
