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
    const auto now = identify_file(open_high(r.temporary, O_PATH | O_NOFOLLOW));
    if (now && is_same_file(r.identity, *now)) unlink(r.temporary.c_str());
  }
}

// Returns 0 or the errno value. `temporary`: another name of the file, which may stay; "": it has none.
int give_name(int fd, const std::string& temporary, const std::string& path) {
  const bool unnamed = temporary.empty();
  const std::string from = unnamed ? descriptor_path(fd) : temporary;
  if (linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), unnamed ? AT_SYMLINK_FOLLOW : 0) == 0) return 0;
  const int why = errno;
  if (unnamed || why == EEXIST) return why;
  // File systems without links (FAT).
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) return 0;
  return errno == EEXIST ? EEXIST : why;
}

Error cannot_be_made(const FileContent& c, int why) {
  return {"the program's file {}: cannot be made again: {}", c.path, errno_text(why)};
}

// Returns what to say of it.
Result<std::string> fill(int fd, const std::string& temporary, const FileContent& c, int copy,
                         const Folder& version, FileIdentity* its) {
  // Before the file has its name: a restart that is killed after that leaves one that the next one knows.
  const auto identity = identify_file(fd, "");
  const Status recorded =
      identity ? add_to_record(c, version, {*identity, temporary}) : Status(identity.error());
  if (fchmod(fd, 0600) != 0) return cannot_be_made(c, errno);  // the umask may have forbidden it
  bool changed = false;
  const auto size = static_cast<uint64_t>(c.identity.size);
  if (Status s = restart::put_back_content(copy, fd, size, "the program's file " + c.path, &changed); !s)
    return s.error();
  // Without the set-user-ID and set-group-ID bits: the owner may be another one.
  uint32_t mode = c.identity.mode & 0777;
  std::string said = " was made again" + put_back_attributes(fd, c.attributes, &mode);
  if (fchmod(fd, mode) != 0) return cannot_be_made(c, errno);
  said += set_modified(fd, c.identity.modified);
  if (!recorded)
    said += formatted(" (a second restart from this version would take it for another file: {})",
                      recorded.error().message);
  if (fsync(fd) != 0) return cannot_be_made(c, errno);
  if (Status s = identify_file(fd, "").move_to(*its); !s) return s.error();
  return said;
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
  int failure = 0;
  for (const bool unnamed : {true, false}) {  // not all file systems have unnamed files
    const std::string temporary = unnamed ? "" : c.path + ".cropdl-" + random_hex(8);
    const Descriptor made = unnamed ? open_high(folder_of(c.path), O_TMPFILE | O_RDWR, 0600)
                                    : create_private_file(temporary, O_RDWR);
    failure = errno;
    if (!made) continue;
    auto said = fill(made.fd(), temporary, c, copy, version, its);
    if (said) failure = give_name(made.fd(), temporary, c.path);
    if (!unnamed) unlink(temporary.c_str());
    if (!said || failure == 0) return said;
    if (failure == EEXIST) return std::string();
  }
  return cannot_be_made(c, failure);
}

}  // namespace cropdl::files
