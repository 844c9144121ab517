#include "restart/files/reopen_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/say.h"
#include "interpose/seam/control_page.h"
#include "interpose/seam/state.h"
#include "restart/files/closed_mode.h"
#include "restart/files/descriptors.h"
#include "restart/files/directories.h"

namespace cropdl::files {
namespace {

Error refuse(const OpenFile& f, const std::string& why) {
  return {"the program's file {} (descriptor {}): {}", f.path, f.fd, why};
}

FileVerdict verdict(FileVerdict::Kind kind, const OpenFile& f, const std::string& why) {
  return {kind, refuse(f, why).message};
}

Error no_room_above(int highest) {
  return {
      "the program has descriptors up to {}, and there is no room above them; raise the limit (ulimit -n)",
      highest};
}

// Without a descriptor of CropDL among the program's numbers, where it would be replaced. If the agent's
// thread shares this table, it holds low ones for a moment, long on a busy machine: then this waits.
Status expect_room(int highest) {
  const auto in_the_way = [highest] {
    return std::ranges::any_of(open_descriptors(),
                               [=](int fd) { return fd > 2 && fd <= highest && is_own_descriptor(fd); });
  };
  const int above = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, highest + 1);
  const bool has_room = above >= 0 || errno == EBADF;  // EBADF: there is no stderr, which tells nothing
  if (above >= 0) close(above);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (in_the_way()) {
    if (!has_room || std::chrono::steady_clock::now() > end) return no_room_above(highest);
    usleep(2000);
  }
  return {};
}

// Opens the file with the program's flags and offset. Changes nothing.
Result<int> open_again(const OpenFile& f) {
  constexpr int kOnlyAtOpen = O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY;
  const int fd = open_despite_mode(f.path, f.flags & ~kOnlyAtOpen, f.identity.mode);
  if (fd < 0) return refuse(f, "cannot open it again: " + errno_text(errno));
  if (f.offset > 0 && lseek(fd, f.offset, SEEK_SET) != f.offset)
    return refuse(f, "cannot seek in it: " + errno_text(errno));
  return fd;
}

Status put_at(int fd, const OpenFile& f) {
  if (fd < 0) return refuse(f, errno_text(errno));
  if (fd != f.fd) {
    if (dup2(fd, f.fd) < 0) return refuse(f, errno_text(errno));
    close(fd);
  }
  fcntl(f.fd, F_SETFD, f.descriptor_flags);
  return {};
}

// Whether the file has a state to compare: a regular file on a disk.
bool is_real_file(const OpenFile& f) {
  return S_ISREG(f.identity.mode) && !f.path.starts_with("/proc/") && !f.path.starts_with("/sys/");
}

std::string sizes(const FileIdentity& now, const FileIdentity& then) {
  return formatted("({} bytes, then {} bytes)", now.size, then.size);
}

// The file was checked by its name, which may lead to another one by now.
Status check_read_file(const OpenFile& f, int fd, FilesPolicy policy) {
  if (!is_real_file(f) || is_a_services_table(f.path) || policy == FilesPolicy::kKeep) return {};
  const auto now = identify_file(fd, "");
  if (!now) return refuse(f, now.error().message);
  if (looks_the_same(f.identity, *now) || !is_another_file(f.identity, *now)) return {};
  return refuse(f, "was replaced while the program was being restarted; try again");
}

// Whether both are the same name in the same folder, which may be mounted at two places.
bool is_same_entry(const std::string& a, const std::string& b) {
  struct stat in_a {
  }, in_b{};
  return file_name_of(a) == file_name_of(b) && stat(folder_of(a).c_str(), &in_a) == 0 &&
         stat(folder_of(b).c_str(), &in_b) == 0 && in_a.st_dev == in_b.st_dev && in_a.st_ino == in_b.st_ino;
}

// check_content() has checked the name put back (`checked`), perhaps on another rank; this checks another.
FileVerdict check_other_name(const OpenFile& f, const std::string& checked, FilesPolicy policy) {
  if (f.path == checked || is_same_entry(f.path, checked)) return {};
  const auto first = identify_file(-1, checked), now = identify_file(-1, f.path);
  for (const auto& [name, found] : {std::pair{&checked, &first}, {&f.path, &now}})
    if (!*found)
      return verdict(FileVerdict::kMissing, f,
                     formatted("was the same file as {} when the checkpoint was taken, and {} is gone; put "
                               "it back (ln) and try again",
                               checked, *name));
  if (policy == FilesPolicy::kKeep || is_same_inode(*first, *now)) return {};
  return verdict(FileVerdict::kRefused, f,
                 formatted("was the same file as {} when the checkpoint was taken (a hard link), and is "
                           "another one now; put it back (ln) and try again",
                           checked));
}

bool is_left_to_another_rank(const FileContent& c, const SavedFiles& saved) {
  const auto found = saved.put_back.find({c.identity.device, c.identity.inode});
  return c.stored.empty() && found != saved.put_back.end() && found->second.whole;
}

// A path by which the file is put back, the same one on all ranks that have it open for writing.
const std::string& path_put_back(const FileContent& c, const SavedFiles& saved) {
  const auto found = saved.put_back.find({c.identity.device, c.identity.inode});
  return found != saved.put_back.end() ? *found->second.paths.begin() : c.path;
}

FileVerdict check_read_only(const OpenFile& f, const FileIdentity& now, FilesPolicy policy) {
  if (!is_real_file(f) || is_a_services_table(f.path) || policy == FilesPolicy::kKeep ||
      looks_the_same(f.identity, now))
    return {};
  if (!is_same_file(f.identity, now))
    return verdict(FileVerdict::kRefused, f,
                   "is not the file of the checkpoint but another one of that name; put the former one back "
                   "and try again (or read on in this one: cropdl-restart --files=keep)");
  if (policy != FilesPolicy::kFail) return {};  // files_left_alone() reports it
  return verdict(FileVerdict::kRefused, f,
                 formatted("is not as it was when the checkpoint was taken {}, and --files=fail accepts no "
                           "difference; put it back, or read on in it as it is without that option",
                           sizes(now, f.identity)));
}

}  // namespace

Status make_room_for(int highest, const std::vector<int>& inherited, Descriptor& ours, Reopening& reopening) {
  reopening.raised.emplace(RLIMIT_NOFILE, static_cast<rlim_t>(highest + 1 + kOwnDescriptors));
  if (highest >= first_high_descriptor()) {
    set_first_high_descriptor(highest + 1);
    keep_error_stream(highest + 1);
  }
  if (ours.fd() <= highest) ours = move_high(std::move(ours));
  const char* connection = getenv("PMI_FD");
  for (const int fd : inherited) {
    if (fd < 3) continue;
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, first_high_descriptor());
    if (high < 0 && errno == EBADF) continue;  // closed since the process began
    // Hydra gives each rank an open connection, and passes its number in PMI_FD.
    const bool is_connection = connection != nullptr && atoi(connection) == fd;
    if (high < 0 && is_connection) return no_room_above(highest);
    if (high < 0)
      return Error{
          "descriptor {} was open when the restart was started, and there is no room for it above the "
          "program's, which go up to {}; raise the limit (ulimit -n), or start the restart with {}>&-",
          fd, highest, fd};
    close(fd);
    if (is_connection) setenv("PMI_FD", std::to_string(high).c_str(), 1);
  }
  return expect_room(highest);
}

FileVerdict check_files(const SavedFiles& saved) {
  for (const FileContent& c : saved.contents) {
    if (is_left_to_another_rank(c, saved)) continue;
    if (FileVerdict v = check_content(c, saved.version, saved.policy); !v) return v;
  }
  for (const OpenFile& f : saved.files) {
    if (f.standard >= 0 || f.same_as >= 0) continue;
    if (f.content >= 0) {
      const auto& content = saved.contents[static_cast<size_t>(f.content)];
      if (FileVerdict v = check_other_name(f, path_put_back(content, saved), saved.policy); !v) return v;
      continue;
    }
    const auto now = identify_file(-1, f.path);
    if (!now) return verdict(FileVerdict::kMissing, f, now.error().message + "; put it back and try again");
    if (FileVerdict v = check_read_only(f, *now, saved.policy); !v) return v;
    if (FileVerdict v = check_open_directory(f, *now, saved.policy); !v) return v;
  }
  return {};
}

Status place_files(const SavedFiles& saved, Reopening& reopening) {
  const auto& files = saved.files;
  int highest = 2;
  for (const OpenFile& f : files) highest = std::max(highest, f.fd);
  // Rank 0 has connections since make_room_for(), perhaps in this table (coord/agent.cpp).
  if (auto s = expect_room(highest); !s) return s;
  // Temporary descriptors have numbers above all of the program's.
  const int above = std::max(first_high_descriptor(), highest + 1);
  int streams[3];
  for (int s = 0; s < 3; ++s) {
    streams[s] = fcntl(s, F_DUPFD_CLOEXEC, above);
    if (streams[s] < 0 && errno != EBADF) return no_room_above(above - 1);
    close(s);
  }
  auto* state = seam::state();
  for (auto& stream : state->streams) stream = 0;
  for (const OpenFile& f : files) {
    int fd = -1;
    if (f.same_as >= 0) {
      fd = fcntl(f.same_as, F_DUPFD, above);
    } else if (f.ended) {
      fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    } else if (f.standard >= 0) {
      if (streams[f.standard] < 0) continue;  // the new launcher gave no such stream
      fd = fcntl(streams[f.standard], F_DUPFD, above);
      if (f.standard == 0) state->input_used = 0;
      if (f.fd < static_cast<int>(seam::kStreamFiles))
        state->streams[f.fd] = static_cast<uint8_t>(f.standard + 1);
    } else if (f.content >= 0 && access(f.path.c_str(), F_OK) != 0) {
      fd = open("/dev/null", O_RDONLY | O_CLOEXEC);  // reserves the number
      reopening.postponed.push_back(&f);
    } else {
      const auto opened = open_again(f);
      if (!opened) return opened.error();
      fd = *opened;
      // finish_files() checks the others, when their contents are restored.
      if (f.content < 0)
        if (auto s = check_read_file(f, fd, saved.policy); !s) return s;
    }
    if (auto s = put_at(fd, f); !s) return s;
  }
  for (const int stream : streams)
    if (stream >= 0) close(stream);
  reopening.raised.reset();
  set_first_high_descriptor(std::min(first_high_descriptor(), choose_first_descriptor()));
  seam::writable_control->first_lower_file = first_high_descriptor();
  return {};
}

void keep_input_from_waiting(const std::vector<OpenFile>& files) {
  for (const OpenFile& f : files)
    if (f.standard == 0 && f.same_as < 0 && (f.flags & O_NONBLOCK) != 0)
      fcntl(f.fd, F_SETFL, fcntl(f.fd, F_GETFL) | O_NONBLOCK);
}

Status apply_files(const SavedFiles& saved, Reopening& reopening, std::string* done) {
  if (saved.policy == FilesPolicy::kKeep) return {};
  const process::RaisedLimit file_size(RLIMIT_FSIZE, RLIM_INFINITY);
  for (size_t i = 0; i < saved.contents.size(); ++i) {
    const FileContent& c = saved.contents[i];
    if (is_left_to_another_rank(c, saved)) continue;
    FileIdentity* const its = &reopening.applied[static_cast<int>(i)];
    if (auto s = apply_content(c, saved.version, saved.policy, done, its); !s) return s;
  }
  return {};
}

Status finish_files(const SavedFiles& saved, const Reopening& reopening) {
  if (saved.policy == FilesPolicy::kKeep) return {};
  for (const OpenFile* f : reopening.postponed) {
    const auto opened = open_again(*f);
    if (!opened) return opened.error();
    if (auto s = put_at(*opened, *f); !s) return s;
    for (const OpenFile& copy : saved.files)
      if (copy.same_as == f->fd)
        if (auto s = put_at(dup(f->fd), copy); !s) return s;
  }
  // Descriptors must lead to the file with the contents. Of another rank's, only the name is known.
  for (const OpenFile& f : saved.files) {
    if (f.content < 0 || f.same_as >= 0) continue;
    const auto applied = reopening.applied.find(f.content);
    const FileContent& content = saved.contents[static_cast<size_t>(f.content)];
    const auto right = applied != reopening.applied.end() ? Result<FileIdentity>(applied->second)
                                                          : identify_file(-1, content.path);
    const auto opened = identify_file(f.fd, "");
    if (!right || !opened) return refuse(f, (right ? opened : right).error().message);
    // FAT and some FUSE file systems may number a file anew when nobody has it open.
    if (!is_same_inode(*right, *opened) && !has_saved_content(content, f.fd))
      return refuse(f, "was replaced while the program was being restarted; try again");
  }
  return {};
}

std::string files_left_alone(const SavedFiles& saved) {
  std::string text;
  std::set<std::string> named;
  const auto add = [&](const std::string& line) { text += (text.empty() ? "" : ", ") + line; };
  for (const OpenFile& f : saved.files) {
    if (f.standard >= 0 || f.same_as >= 0) continue;
    if (const std::string line = directory_left_alone(f.fd, f.path, f.identity); !line.empty())
      if (named.insert(f.path).second) add(line);
    if (!is_real_file(f) || is_a_services_table(f.path)) continue;
    if (f.content >= 0 && saved.policy != FilesPolicy::kKeep) continue;  // it was restored
    const auto now = identify_file(f.fd, "");
    if ((now && looks_the_same(f.identity, *now)) || !named.insert(f.path).second) continue;
    add(formatted("{} is not as it was at the checkpoint{} and is used as it is", f.path,
                  now ? " " + sizes(*now, f.identity) : ""));
  }
  return text;
}

}  // namespace cropdl::files
