#include "restart/cli/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace cropdl::cli {
namespace {

constexpr size_t kBlock = 1 << 20;

Error failure_of(archive* all, const std::string& name) {
  const char* const why = archive_error_string(all);
  return Error{"{}: {}", name, why != nullptr ? why : "fails, and libarchive does not say why"};
}

bool is_good(int result) { return result == ARCHIVE_OK; }
// libarchive returns ARCHIVE_WARN for a filter that runs as an external program.
bool is_there(int result) { return result == ARCHIVE_OK || result == ARCHIVE_WARN; }

// Records the file's data extents; the archive omits the holes between them.
void add_holes(archive_entry* entry, int fd, int64_t size) {
  std::vector<std::pair<int64_t, int64_t>> data;
  for (int64_t at = 0; at < size;) {
    const int64_t begin = ::lseek(fd, at, SEEK_DATA);
    if (begin < 0 && errno != ENXIO) return;  // some file systems do not report holes
    if (begin < 0 || begin >= size) break;
    const int64_t end = ::lseek(fd, begin, SEEK_HOLE);
    if (end < 0) return;
    data.emplace_back(begin, std::min(end, size) - begin);
    at = end;
  }
  if (data.size() == 1 && data.front() == std::pair<int64_t, int64_t>{0, size}) return;
  for (const auto& [begin, length] : data) archive_entry_sparse_add_entry(entry, begin, length);
  // A file that is one hole needs an end.
  if (data.empty() && size > 0) archive_entry_sparse_add_entry(entry, size, 0);
}

}  // namespace

// --- Writing ---------------------------------------------------------------------------------------------

// An unfinished archive must not look complete.
static int give_up(archive* all) {
  archive_write_fail(all);
  return archive_write_free(all);
}

// libarchive's text for a failed write(2) does not say why.
Error ArchiveWriter::failed() const {
  Error error = failure_of(archive_.get(), name_);
  if (const int why = archive_errno(archive_.get()); why > 0) error.message += ": " + errno_text(why);
  return error;
}

Result<ArchiveWriter> ArchiveWriter::open(int fd, const std::string& name) {
  ArchiveWriter writer(ArchiveHandle(archive_write_new(), give_up), name);
  archive* const all = writer.archive_.get();
  if (all == nullptr) return Error{name + ": no memory for an archive"};
  const bool gzip = name.ends_with(".gz") || name.ends_with(".tgz");
  const int filter = gzip                     ? archive_write_add_filter_gzip(all)
                     : name.ends_with(".zst") ? archive_write_add_filter_zstd(all)
                                              : ARCHIVE_OK;
  if (!is_there(filter) || !is_good(archive_write_set_format_pax_restricted(all)) ||
      !is_good(archive_write_open_fd(all, fd)))
    return writer.failed();
  return writer;
}

Status ArchiveWriter::add(const std::string& path, const Descriptor& file, const std::string& from) {
  struct stat info;
  if (::fstat(file.fd(), &info) != 0) return Error{"{}: {}", from, errno_text(errno)};
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                       archive_entry_free);
  if (!entry) return Error{name_ + ": no memory for an archive"};
  archive_entry_set_pathname(entry.get(), path.c_str());
  archive_entry_set_filetype(entry.get(), AE_IFREG);
  archive_entry_set_perm(entry.get(), 0600);
  archive_entry_set_size(entry.get(), info.st_size);
  archive_entry_set_mtime(entry.get(), info.st_mtim.tv_sec, 0);
  add_holes(entry.get(), file.fd(), info.st_size);
  if (!is_good(archive_write_header(archive_.get(), entry.get()))) return failed();
  std::vector<char> block(kBlock);
  for (int64_t at = 0; at < info.st_size;) {
    const auto n = static_cast<size_t>(std::min<int64_t>(static_cast<int64_t>(kBlock), info.st_size - at));
    iovec piece{block.data(), n};
    if (const int failure = read_all(file.fd(), {&piece, 1}, static_cast<uint64_t>(at)); failure != 0)
      return Error{"{}: cannot be read: {}", from,
                   failure == kEndOfFile ? "it has become shorter" : errno_text(failure)};
    if (archive_write_data(archive_.get(), block.data(), n) < 0) return failed();
    at += static_cast<int64_t>(n);
  }
  return is_good(archive_write_finish_entry(archive_.get())) ? Status() : failed();
}

Status ArchiveWriter::finish() { return is_good(archive_write_close(archive_.get())) ? Status() : failed(); }

// --- Reading ---------------------------------------------------------------------------------------------

Error ArchiveReader::failed() const { return failure_of(archive_.get(), name_); }

Result<ArchiveReader> ArchiveReader::open(int fd, const std::string& name) {
  ArchiveReader reader(ArchiveHandle(archive_read_new(), archive_read_free), name);
  archive* const all = reader.archive_.get();
  if (all == nullptr) return Error{name + ": no memory for an archive"};
  if (!is_good(archive_read_support_format_tar(all)) || !is_there(archive_read_support_filter_gzip(all)) ||
      !is_there(archive_read_support_filter_zstd(all)) || !is_good(archive_read_open_fd(all, fd, kBlock)))
    return reader.failed();
  return reader;
}

Result<std::optional<ArchiveReader::Entry>> ArchiveReader::next() {
  for (;;) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(archive_.get(), &entry);
    if (result == ARCHIVE_EOF) return std::optional<Entry>();
    if (!is_good(result)) return failed();
    const char* const path = archive_entry_pathname(entry);
    if (path == nullptr) return Error{name_ + ": holds an entry without a name"};
    entry_ = {path, static_cast<uint64_t>(std::max<int64_t>(archive_entry_size(entry), 0))};
    if (archive_entry_filetype(entry) == AE_IFDIR) continue;
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) != nullptr)
      return Error{"{}: {} is no regular file", name_, entry_.path};
    return std::optional(entry_);
  }
}

Result<std::string> ArchiveReader::text(uint64_t limit) {
  if (entry_.bytes > limit) return Error{"{}: {} is too large", name_, entry_.path};
  std::string text(entry_.bytes, 0);
  for (size_t at = 0; at < text.size();) {
    const la_ssize_t n = archive_read_data(archive_.get(), text.data() + at, text.size() - at);
    if (n < 0) return failed();
    if (n == 0) return Error{"{}: {} is cut short", name_, entry_.path};
    at += static_cast<size_t>(n);
  }
  return text;
}

Status ArchiveReader::extract(const Descriptor& file, const std::string& path) {
  for (;;) {
    const void* data = nullptr;
    size_t bytes = 0;
    la_int64_t at = 0;
    const int result = archive_read_data_block(archive_.get(), &data, &bytes, &at);
    if (result == ARCHIVE_EOF) break;
    if (!is_good(result)) return failed();
    iovec piece{const_cast<void*>(data), bytes};
    if (const int failure = write_all(file.fd(), {&piece, 1}, static_cast<uint64_t>(at)); failure != 0)
      return cannot_be_written(path, failure);
  }
  if (::ftruncate(file.fd(), static_cast<off_t>(entry_.bytes)) != 0 || ::fsync(file.fd()) != 0)
    return cannot_be_written(path, errno);
  return {};
}

}  // namespace cropdl::cli
