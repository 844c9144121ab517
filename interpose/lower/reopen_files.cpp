#include "interpose/lower/reopen_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "interpose/lower/descriptors.h"
#include "interpose/seam/state.h"
#include "restart/file.h"
#include "restart/say.h"

namespace cropdl::lower {
namespace {

constexpr int kOurs = 124;  // descriptors that a restart needs for itself

Error refuse(const OpenFile& f, const std::string& why) {
  return {"the program's file " + f.path + " (descriptor " + std::to_string(f.fd) + "): " + why};
}

// Numbers above the soft limit are had by raising it, until the program's are in place.
class RaisedLimit {
 public:
  explicit RaisedLimit(rlim_t needed) {
    if (getrlimit(RLIMIT_NOFILE, &before_) != 0 || before_.rlim_cur >= needed) return;
    rlimit raised = before_;
    raised.rlim_cur = std::min(needed, before_.rlim_max);
    raised_ = setrlimit(RLIMIT_NOFILE, &raised) == 0;
  }
  ~RaisedLimit() {
    if (raised_) setrlimit(RLIMIT_NOFILE, &before_);
  }
  RaisedLimit(const RaisedLimit&) = delete;
  RaisedLimit& operator=(const RaisedLimit&) = delete;

 private:
  rlimit before_{};
  bool raised_ = false;
};

std::optional<RaisedLimit> raised;

int highest_of(const std::vector<OpenFile>& files) {
  int highest = 2;
  for (const OpenFile& f : files) highest = std::max(highest, f.fd);
  return highest;
}

// For the rest of this process's life: what was given to it, and is not the program's any more.
void move_away(int fd) {
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, restart::first_high_descriptor());
  if (high >= 0) close(fd);
}

// Hydra gives each rank an open descriptor to talk to, and says its number.
void move_launchers_connection(int fd) {
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, restart::first_high_descriptor());
  if (high < 0) return;
  close(fd);
  setenv("PMI_FD", std::to_string(high).c_str(), 1);
}

bool is_same_file(const FileIdentity& saved, const FileIdentity& now) {
  if (saved.modified < 0) return true;  // an older CropDL did not note it
  if (saved.inode != now.inode) return false;
  return saved.born >= 0 && now.born >= 0 ? saved.born == now.born : saved.device == now.device;
}

}  // namespace

Status make_room_for(int highest, const std::vector<int>& inherited) {
  raised.emplace(static_cast<rlim_t>(highest + 1 + kOurs));
  if (highest >= restart::first_high_descriptor()) {
    restart::set_first_high_descriptor(highest + 1);
    keep_error_stream(highest + 1);
  }
  const char* connection = getenv("PMI_FD");
  for (const int fd : inherited) {
    if (fd < 3) continue;
    if (connection != nullptr && atoi(connection) == fd)
      move_launchers_connection(fd);
    else
      move_away(fd);
  }
  for (const int fd : open_descriptors())
    if (fd > 2 && fd <= highest && restart::is_own_descriptor(fd))
      return Error{"the program has descriptors up to " + std::to_string(highest) +
                   ", and there is no room above them; raise the limit (ulimit -n)"};
  return {};
}

Status check_files(const std::vector<OpenFile>& files) {
  for (const OpenFile& f : files) {
    if (f.standard >= 0 || f.same_as >= 0) continue;
    const auto now = identify(-1, f.path);
    if (!now) return refuse(f, now.error().message + "; put it back and try again");
    if (f.size >= 0 && now->size < f.size)
      return refuse(f, "has " + std::to_string(now->size) + " bytes, but had " + std::to_string(f.size) +
                           " when the checkpoint was taken; put it back and try again");
    if (f.size >= 0 && now->size > f.size && !is_same_file(f.identity, *now))
      return refuse(
          f,
          "is not the file of the checkpoint but another one of that name, and is left as it is; put "
          "the former one back and try again");
  }
  return {};
}

Status place_files(const std::vector<OpenFile>& files) {
  // Everything temporary is numbered above all that the program has.
  const int above = std::max(restart::first_high_descriptor(), highest_of(files) + 1);
  int streams[3];
  for (int s = 0; s < 3; ++s) {
    streams[s] = fcntl(s, F_DUPFD_CLOEXEC, above);
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
      if (streams[f.standard] < 0) continue;  // the new launcher gave none
      fd = fcntl(streams[f.standard], F_DUPFD, above);
      if (f.standard == 0) state->input_used = 0;
      if (f.fd < static_cast<int>(seam::kStreamFiles))
        state->streams[f.fd] = static_cast<uint8_t>(f.standard + 1);
    } else {
      constexpr int kOnlyAtOpen = O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY;
      fd = open(f.path.c_str(), (f.flags & ~kOnlyAtOpen) | O_CLOEXEC);
      if (fd < 0) return refuse(f, "cannot open it again: " + errno_text(errno));
      if (f.offset > 0 && lseek(fd, f.offset, SEEK_SET) != f.offset)
        return refuse(f, "cannot seek in it: " + errno_text(errno));
    }
    if (fd < 0) return refuse(f, errno_text(errno));
    if (fd != f.fd) {
      if (dup2(fd, f.fd) < 0) return refuse(f, errno_text(errno));
      close(fd);
    }
    fcntl(f.fd, F_SETFD, f.descriptor_flags);
  }
  for (const int stream : streams)
    if (stream >= 0) close(stream);
  raised.reset();
  restart::set_first_high_descriptor(std::min(restart::first_high_descriptor(), choose_first_descriptor()));
  return {};
}

Status apply_files(const std::vector<OpenFile>& files, std::string* done) {
  for (const OpenFile& f : files) {
    if (f.size < 0 || f.same_as >= 0) continue;
    struct stat st {};
    if (fstat(f.fd, &st) != 0) return refuse(f, errno_text(errno));
    if (st.st_size == f.size) continue;
    if (ftruncate(f.fd, f.size) != 0) return refuse(f, "cannot cut it back: " + errno_text(errno));
    *done += (done->empty() ? "" : ", ") + f.path + " was cut back from " + std::to_string(st.st_size) +
             " to " + std::to_string(f.size) + " bytes";
  }
  return {};
}

}  // namespace cropdl::lower
