#include "restart/files/file_contents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "restart/content.h"
#include "restart/files/closed_mode.h"
#include "restart/files/made_again.h"
#include "restart/store.h"

namespace cropdl::files {
namespace {

constexpr int64_t kMark = 32 << 20;  // bytes at the beginning and before the end: most logs are shorter

// The mark of the first `size` bytes of a file that is appended to.
Result<uint64_t> mark_of(int fd, int64_t size, const std::string& path) {
  const auto begin = restart::content_checksum(fd, 0, std::min(size, kMark), path);
  if (!begin) return begin.error();
  const auto end = restart::content_checksum(fd, std::max<int64_t>(0, size - kMark), size, path);
  if (!end) return end.error();
  return *begin ^ (*end << 1 | *end >> 63);
}

std::string bytes_text(uint64_t n) { return formatted("{} bytes", n); }

std::string own(const std::string& path) { return "the program's file " + path; }

constexpr const char* kChoices = " (or go on with it as it is: cropdl-restart --files=keep)";

// Whether SQLite would play a journal into the file when it next reads it (sqlite.org/fileformat.html, "The
// Rollback Journal"): of a transaction that had not ended. While one is open its locks refuse checkpoints, so
// it is later than the version. The journal of one that has ended begins with zeros.
bool has_journal(const std::string& path) {
  constexpr std::string_view kMagic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  const Descriptor journal = open_high(path + "-journal", O_RDONLY | O_NONBLOCK | O_NOCTTY);
  char begin[kMagic.size()] = {};
  return journal && pread(journal.fd(), begin, sizeof begin, 0) == sizeof begin &&
         std::string_view(begin, sizeof begin) == kMagic;
}
FileVerdict refused_for_journal(const FileContent& c) {
  return refused(
      "{}: beside it is {}-journal, which SQLite would play into it, of a transaction that began after the "
      "checkpoint; remove the journal and try again{}",
      own(c.path), file_name_of(c.path), kChoices);
}

// As open_high(), also if the file's mode forbids its owner to write.
Descriptor open_to_write(const FileContent& c, int flags) {
  const int fd = open_despite_mode(c.path, flags | O_NONBLOCK | O_NOCTTY, c.identity.mode);
  return fd < 0 ? Descriptor() : move_high(Descriptor(fd));
}

// Whether the file `now`, open for reading, has the saved content; false if that is not saved.
bool has_saved_content(const FileContent& c, int fd, const FileIdentity& now) {
  if (c.stored.empty() || now.size != c.identity.size) return false;
  const auto sum = restart::content_checksum(fd, 0, static_cast<uint64_t>(c.identity.size), c.path);
  return sum && *sum == c.checksum;
}

// Checks that the opened file is the program's, or has its contents: its name may lead elsewhere by now.
Status check_opened(const FileContent& c, const Folder& version, int fd, FileIdentity* its) {
  const auto now = identify_file(fd, "");
  if (now) *its = *now;
  if (now && is_programs_file(c, *now, version)) return {};
  if (now && has_saved_content(c, fd, *now)) {
    static_cast<void>(take_for_programs(c, *now, version));  // otherwise the next restart refuses it
    return {};
  }
  return Error{own(c.path) + ": was replaced while the program was being restarted; try again"};
}

}  // namespace

Result<FilesPolicy> files_policy(const std::string& word) {
  if (word.empty() || word == "truncate") return FilesPolicy::kTruncate;
  if (word == "keep") return FilesPolicy::kKeep;
  if (word == "fail") return FilesPolicy::kFail;
  return Error{"--files is keep, truncate or fail, not " + word};
}

Result<std::vector<FileContent>> save_contents(std::vector<OpenFile>& files, const std::string& directory,
                                               uint32_t rank, uint64_t limit) {
  struct Writers {
    int content;
    int fd;
    bool in_place;
  };
  std::vector<FileContent> contents;
  std::map<std::pair<uint64_t, uint64_t>, Writers> by_inode;
  for (OpenFile& f : files) {
    if (f.size < 0) continue;
    const auto key = std::pair{f.identity.device, f.identity.inode};
    auto [it, first] = by_inode.insert({key, {static_cast<int>(contents.size()), f.fd, false}});
    if (first) contents.push_back({f.path, f.identity, "", 0});
    if ((f.flags & O_APPEND) == 0) it->second.in_place = true;
    f.content = it->second.content;
  }
  // Other descriptors of such a file, for reading or by another name (a hard link), are restored with it.
  for (OpenFile& f : files)
    if (const auto it = by_inode.find({f.identity.device, f.identity.inode});
        it != by_inode.end() && f.identity.inode != 0)
      f.content = it->second.content;
  const std::string folder = restart::contents_name(rank);
  uint64_t total = 0;
  bool made = false;
  // Copies that are not durable yet. Together they cost the file system one commit, instead of one each.
  constexpr size_t kTogether = 32;  // of the LH's few descriptors
  std::vector<std::pair<Descriptor, std::string>> copies;
  const auto sync = [&copies]() -> Status {
    for (auto& [copy, path] : copies) {
      const int failure = fsync(copy.fd()) != 0 ? errno : copy.close();
      if (failure != 0) return Error{"{}: cannot be made durable: {}", path, errno_text(failure)};
    }
    copies.clear();
    return {};
  };
  for (const auto& [key, writers] : by_inode) {
    FileContent& c = contents[static_cast<size_t>(writers.content)];
    const Descriptor file = open_high(descriptor_path(writers.fd), O_RDONLY | O_NOCTTY);
    if (!file) return Error{"{}: cannot be read, and so not saved: {}", own(c.path), errno_text(errno)};
    if (!writers.in_place) {
      if (auto s = mark_of(file.fd(), c.identity.size, c.path).move_to(c.checksum); !s) return s.error();
      continue;
    }
    struct stat st {};
    if (fstat(file.fd(), &st) != 0) return Error{own(c.path) + ": " + errno_text(errno)};
    total += std::min<uint64_t>(static_cast<uint64_t>(st.st_size), static_cast<uint64_t>(st.st_blocks) * 512);
    if (total > limit)
      return Error{
          "{} is open for writing in place, and with it {} would have to be saved, more than {}; raise that "
          "(cropdl-run --save-files BYTES), or open it with O_APPEND",
          own(c.path), bytes_text(total), bytes_text(limit)};
    if (!made && !create_private_directory(directory + "/" + folder))
      return Error{"{}/{}: cannot be made: {}", directory, folder, errno_text(errno)};
    made = true;
    c.stored = formatted("{}/{}", folder, writers.content);
    const std::string path = directory + "/" + c.stored;
    Descriptor copy = create_private_file(path, O_RDWR);
    if (!copy && errno == EMFILE) {
      if (auto s = sync(); !s) return s.error();
      copy = create_private_file(path, O_RDWR);
    }
    if (!copy) return Error{"{}: cannot be made: {}", path, errno_text(errno)};
    const auto size = static_cast<uint64_t>(c.identity.size);
    auto checksum = restart::copy_content(file.fd(), copy.fd(), size, own(c.path));
    if (auto s = checksum.move_to(c.checksum); !s) return s.error();
    c.attributes = attributes_of(file.fd());
    copies.emplace_back(std::move(copy), path);
    if (copies.size() >= kTogether)
      if (auto s = sync(); !s) return s.error();
  }
  if (auto s = sync(); !s) return s.error();
  if (made)
    if (auto s = sync_directory(directory + "/" + folder); !s) return s.error();
  return contents;
}

FileVerdict check_content(const FileContent& c, const Folder& version, FilesPolicy policy) {
  const auto size = static_cast<uint64_t>(c.identity.size);
  if (!c.stored.empty()) {
    const std::string path = version.path_of(c.stored);
    const auto copy = restart::open_stored(version, c.stored);
    if (!copy) return {FileVerdict::kDamaged, copy.error().message};
    const auto sum = restart::content_checksum(copy->fd(), 0, size, path);
    if (!sum) return {FileVerdict::kDamaged, sum.error().message};
    if (*sum != c.checksum) return {FileVerdict::kDamaged, path + ": its content is damaged (checksum)"};
  }
  struct stat there {};
  if (!c.stored.empty() && policy != FilesPolicy::kKeep && lstat(c.path.c_str(), &there) == 0 &&
      S_ISLNK(there.st_mode))
    return refused("{}: is a symbolic link now, and is not written through; put the file back", own(c.path));
  if (stat(c.path.c_str(), &there) != 0) {
    const std::string why = errno_text(errno);
    if (c.stored.empty() || errno != ENOENT || policy != FilesPolicy::kTruncate)
      return {FileVerdict::kMissing, formatted("{}: {}; put it back and try again", own(c.path), why)};
    const std::string parent = folder_of(c.path);
    if (access(parent.c_str(), W_OK) != 0)
      return {FileVerdict::kMissing, formatted("{}: is gone, and cannot be made again: {}: {}", own(c.path),
                                               parent, errno_text(errno))};
    return has_journal(c.path) ? refused_for_journal(c) : FileVerdict();  // it will be made again
  }
  if (!S_ISREG(there.st_mode)) return refused("{}: is not a regular file any more", own(c.path));
  if (policy == FilesPolicy::kKeep) return {};
  // The name may lead to another file at any time: everything below examines this one.
  const Descriptor place = open_high(c.path, O_PATH);
  const auto now = identify_file(place);
  if (!now) return {FileVerdict::kMissing, own(c.path) + ": " + now.error().message};
  if (!S_ISREG(now->mode)) return refused("{}: is not a regular file any more", own(c.path));
  FileVerdict fine{FileVerdict::kFine, "", *now};
  const bool same = is_programs_file(c, *now, version);
  if (same && looks_the_same(c.identity, *now)) return fine;
  const Descriptor file = open_high(descriptor_path(place.fd()), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) return refused("{}: cannot be read: {}", own(c.path), errno_text(errno));
  const bool long_enough = now->size >= c.identity.size;
  const auto sum = !long_enough       ? Result<uint64_t>(Error{""})
                   : c.stored.empty() ? mark_of(file.fd(), c.identity.size, c.path)
                                      : restart::content_checksum(file.fd(), 0, size, c.path);
  const bool equal = sum && *sum == c.checksum;
  // Even another file is accepted if it has the saved content.
  if (equal && now->size == c.identity.size) return fine;
  if (!same)
    return refused(
        "{}: is not the file of the checkpoint but another one of that name, and is left as it "
        "is; move it away and put the former one back{}",
        own(c.path), kChoices);
  if (policy == FilesPolicy::kFail)
    return refused(
        "{}: is not as it was when the checkpoint was taken ({}, then {}), and --files=fail "
        "leaves it so; --files=truncate makes it as it was",
        own(c.path), bytes_text(now->size), bytes_text(size));
  if (!c.stored.empty() && has_journal(c.path)) return refused_for_journal(c);
  if (!c.stored.empty() || equal) return fine;
  if (!long_enough)
    return refused("{}: has {}, but had {} when the checkpoint was taken; put it back and try again{}",
                   own(c.path), bytes_text(now->size), bytes_text(size), kChoices);
  return refused(
      "{}: its first {} are not what they were when the checkpoint was taken; put it back and try again{}",
      own(c.path), bytes_text(size), kChoices);
}

bool has_saved_content(const FileContent& c, int fd) {
  const Descriptor file = open_high(descriptor_path(fd), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  const auto now = identify_file(fd, "");
  return file && now && has_saved_content(c, file.fd(), *now);
}

Status apply_content(const FileContent& c, const Folder& version, FilesPolicy policy, std::string* done,
                     FileIdentity* its) {
  // Checks again: the image was loaded and the MPI started since, and the file may have been moved.
  const FileVerdict now = check_content(c, version, policy);
  if (!now) return Error{now.line};
  const auto size = static_cast<uint64_t>(c.identity.size);
  const auto note = [&](const std::string& what) { *done += (done->empty() ? "" : ", ") + c.path + what; };
  if (c.stored.empty()) {
    const Descriptor file = open_to_write(c, O_WRONLY);
    const auto there = identify_file(file);
    if (!there) return Error{own(c.path) + ": " + there.error().message};
    *its = *there;
    if (there->size == c.identity.size && is_same_inode(*there, now.examined)) return {};
    if (Status good = check_opened(c, version, file.fd(), its); !good) return good;
    if (there->size == c.identity.size) return {};
    if (ftruncate(file.fd(), c.identity.size) != 0)
      return Error{"{}: cannot be cut back: {}", own(c.path), errno_text(errno)};
    note(formatted(" was cut back from {} to {}{}", there->size, bytes_text(size),
                   set_modified(file.fd(), c.identity.modified)));
    return {};
  }
  const auto copy = restart::open_stored(version, c.stored);
  if (!copy) return copy.error();
  bool changed = false;
  Descriptor file = open_to_write(c, O_RDWR | O_NOFOLLOW);
  if (!file && errno == ENOENT) {
    const auto said = make_again(c, copy->fd(), version, its);
    if (!said) return said.error();
    if (!said->empty()) {
      note(*said);
      return {};
    }
    file = open_to_write(c, O_RDWR | O_NOFOLLOW);
  }
  if (!file) return cannot_be_written(own(c.path), errno);
  if (Status good = check_opened(c, version, file.fd(), its); !good) return good;
  if (auto s = restart::put_back_content(copy->fd(), file.fd(), size, own(c.path), &changed); !s) return s;
  if (!changed) return {};
  note(" was put back" + set_modified(file.fd(), c.identity.modified));
  return {};
}

}  // namespace cropdl::files
