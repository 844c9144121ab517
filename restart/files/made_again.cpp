#include "restart/files/made_again.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/random.h"
#include "restart/content.h"

namespace cropdl::files {
namespace {

constexpr uint32_t kRecordFormat = 1;
constexpr uint64_t kRecordLimit = 1 << 20;  // bytes
constexpr size_t kMostRecorded = 64;        // a file on nodes' own disks is made again on each

struct Recorded {
  FileIdentity identity;
  std::string temporary;  // the name that it had until it was complete; "": none
  static constexpr const char* kMembers[] = {"identity", "temporary"};  // base/json.h
};

std::string record_name(const FileContent& c) { return c.stored + ".again"; }

// Without a readable record the files are not known, and are left alone.
std::vector<Recorded> read_record(const FileContent& c, const Folder& version) {
  const std::string path = version.path_of(record_name(c));
  const auto file = restart::open_stored(version, record_name(c));
  const auto text =
      file ? read_small_file(*file, path, kRecordLimit) : Result<std::string>(Error{file.error()});
  if (!text) return {};
  try {
    const auto record = unsealed(*text, path, kRecordFormat);
    return record ? record->at("files").get<std::vector<Recorded>>() : std::vector<Recorded>();
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

Status add_to_record(const FileContent& c, const Folder& version, Recorded one) {
  std::vector<Recorded> all = read_record(c, version);
  if (all.size() >= kMostRecorded) all.erase(all.begin());
  all.push_back(std::move(one));
  const std::string path = version.path_of(record_name(c)), fresh = path + ".new";
  unlink(fresh.c_str());  // of a restart that was killed
  if (Status s = write_durable_file(fresh, sealed_text({{"format", kRecordFormat}, {"files", all}})); !s)
    return s;
  if (rename(fresh.c_str(), path.c_str()) != 0) return cannot_be_written(path, errno);
  return sync_directory(folder_of(path));
}

// Removes what killed restarts have left, where that is provably theirs.
void remove_leftovers(const FileContent& c, const Folder& version) {
  for (const Recorded& r : read_record(c, version)) {
    if (r.temporary.empty()) continue;
    const Descriptor there = open_high(r.temporary, O_PATH | O_NOFOLLOW);
    const auto now = there ? identify_file(there.fd(), "") : Result<FileIdentity>(Error{errno_text(errno)});
    if (now && is_same_file(r.identity, *now)) unlink(r.temporary.c_str());
  }
}

// Has no name, or a temporary one, until it is complete.
class NewFile {
 public:
  NewFile(const std::string& path, bool unnamed) : path_(path) {
    if (!unnamed) temporary_ = path + ".cropdl-" + random_hex(8);
    file_ = unnamed ? open_high(folder_of(path), O_TMPFILE | O_RDWR, 0600)
                    : create_private_file(temporary_, O_RDWR);
    why_ = errno;
  }
  ~NewFile() {
    if (file_ && !temporary_.empty()) unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return file_.fd(); }  // -1: why()
  int why() const { return why_; }
  const std::string& temporary() const { return temporary_; }

  // Returns 0 or the errno value.
  int give_name() {
    const bool unnamed = temporary_.empty();
    const std::string from = unnamed ? descriptor_path(fd()) : temporary_;
    if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path_.c_str(), unnamed ? AT_SYMLINK_FOLLOW : 0) == 0)
      return 0;
    const int why = errno;
    if (unnamed || why == EEXIST) return why;
    // File systems without links (FAT).
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) != 0)
      return errno == EEXIST ? EEXIST : why;
    temporary_.clear();
    return 0;
  }

 private:
  const std::string path_;
  std::string temporary_;
  Descriptor file_;
  int why_ = 0;
};

Error cannot_be_made(const FileContent& c, int why) {
  return {"the program's file {}: cannot be made again: {}", c.path, errno_text(why)};
}

// Returns what to say of it.
Result<std::string> fill(const NewFile& made, const FileContent& c, int copy, const Folder& version) {
  // Before the file has its name: a restart that is killed after that leaves one that the next one knows.
  const auto identity = identify_file(made.fd(), "");
  const Status recorded =
      identity ? add_to_record(c, version, {*identity, made.temporary()}) : Status(identity.error());
  if (fchmod(made.fd(), 0600) != 0) return cannot_be_made(c, errno);  // the umask may have forbidden it
  bool changed = false;
  const auto size = static_cast<uint64_t>(c.identity.size);
  if (Status s = restart::put_back_content(copy, made.fd(), size, "the program's file " + c.path, &changed);
      !s)
    return s.error();
  // Without the set-user-ID and set-group-ID bits: the owner may be another one.
  uint32_t mode = c.identity.mode & 0777;
  std::string said = " was made again" + put_back_attributes(made.fd(), c.attributes, &mode);
  if (fchmod(made.fd(), mode) != 0) return cannot_be_made(c, errno);
  said += set_modified(made.fd(), c.identity.modified);
  if (!recorded)
    said += formatted(" (a second restart from this version would take it for another file: {})",
                      recorded.error().message);
  return fsync(made.fd()) == 0 ? Result<std::string>(said) : cannot_be_made(c, errno);
}

}  // namespace

bool is_programs_file(const FileContent& c, const FileIdentity& now, const Folder& version) {
  if (is_same_file(c.identity, now)) return true;
  if (c.stored.empty()) return false;
  return std::ranges::any_of(read_record(c, version),
                             [&now](const Recorded& r) { return is_same_file(r.identity, now); });
}

Status take_for_programs(const FileContent& c, const FileIdentity& now, const Folder& version) {
  return is_programs_file(c, now, version) ? Status() : add_to_record(c, version, {now, ""});
}

std::string set_modified(int fd, int64_t ns) {
  const timespec times[2] = {{0, UTIME_OMIT}, {ns / 1'000'000'000, ns % 1'000'000'000}};
  if (ns < 0 || futimens(fd, times) == 0) return "";
  return formatted(" (its time cannot be set back: {})", errno_text(errno));
}

Result<std::string> make_again(const FileContent& c, int copy, const Folder& version, FileIdentity* its) {
  remove_leftovers(c, version);
  // Not all file systems have unnamed files.
  for (const bool unnamed : {true, false}) {
    NewFile made(c.path, unnamed);
    int failure = made.why();
    if (made.fd() >= 0) {
      auto said = fill(made, c, copy, version);
      if (!said) return said;
      const auto identity = identify_file(made.fd(), "");
      if (!identity) return identity.error();
      failure = made.give_name();
      *its = *identity;
      if (failure == 0) return said;
      if (failure == EEXIST) return std::string();
    }
    if (!unnamed) return cannot_be_made(c, failure);
  }
  return std::string();
}

}  // namespace cropdl::files
