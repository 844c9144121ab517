// See job_file.h.
#include "coord/job_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"

namespace cropdl::coord {

namespace {

constexpr uint64_t kMostBytes = 1 << 20;

std::string remote_rank_path(const std::string& directory, uint32_t rank) {
  return formatted("{}/apart-{}", directory, rank);
}

std::string outlives_path(const std::string& directory) { return directory + "/goes-on"; }

Result<std::string> read_own_file(const std::string& path, bool* missing, uid_t* owner = nullptr) {
  *missing = false;
  // O_NONBLOCK: do not block on a FIFO.
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    *missing = errno == ENOENT || errno == ENOTDIR;
    return Error{path + ": " + errno_text(errno)};
  }
  struct stat st;
  if (fstat(fd.fd(), &st) != 0) return Error{path + ": " + errno_text(errno)};
  // Address and token are trusted, so another user's file is refused. Root may read any user's.
  if (st.st_uid != geteuid() && geteuid() != 0) return Error{path + ": belongs to another user"};
  if (owner != nullptr) *owner = st.st_uid;
  return read_small_file(fd, path, kMostBytes);
}

}  // namespace

Status write_job_file(const std::string& directory, const JobFile& job) {
  nlohmann::json object = job;
  object["format"] = 1;
  return replace_file(directory + "/job",
                      object.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Result<JobFile> read_job_file(const std::string& directory, bool* missing, uid_t* owner) {
  const std::string path = directory + "/job";
  const Result<std::string> text = read_own_file(path, missing, owner);
  if (!text) return text.error();
  try {
    const nlohmann::json j = nlohmann::json::parse(*text);
    if (integer_from_json<uint64_t>(j.at("format")) != 1)
      return Error{path + ": made by another version of CropDL; use the commands of that one"};
    return j.get<JobFile>();
  } catch (const nlohmann::json::exception&) {
    return Error{path + ": damaged; it is made anew when a job starts on this directory"};
  }
}

void remove_job_file(const std::string& directory) { unlink((directory + "/job").c_str()); }

void leave_remote_rank(const std::string& directory, const std::string& run_id, uint32_t rank,
                       const std::string& host) {
  [[maybe_unused]] const Status s =
      replace_file(remote_rank_path(directory, rank), formatted("{}\n{}\n", run_id, host));
}

std::string remote_rank_host(const std::string& directory, const std::string& run_id, uint32_t rank) {
  bool missing;
  const Result<std::string> text = read_own_file(remote_rank_path(directory, rank), &missing);
  if (!text || text->rfind(run_id + "\n", 0) != 0) return "";
  const std::string host = text->substr(run_id.size() + 1);
  return host.substr(0, host.find('\n'));
}

void remove_remote_rank(const std::string& directory, uint32_t rank) {
  unlink(remote_rank_path(directory, rank).c_str());
}

bool begin_to_outlive(const std::string& directory, uint32_t rank, const std::string& host) {
  const Descriptor file = create_private_file(outlives_path(directory), O_WRONLY);
  if (!file) return false;
  const std::string text = formatted("{} {} {}\n", rank, getpid(), host);
  // An error only deprives a command of this text.
  [[maybe_unused]] const ssize_t n = write(file.fd(), text.data(), text.size());
  return true;
}

void end_to_outlive(const std::string& directory) { unlink(outlives_path(directory).c_str()); }

std::string outlives(const std::string& directory, const std::string& host) {
  bool missing;
  const Result<std::string> text = read_own_file(outlives_path(directory), &missing);
  unsigned rank = 0;
  int pid = 0;
  char where[256] = "";
  if (!text || std::sscanf(text->c_str(), "%u %d %255s", &rank, &pid, where) != 3 || pid <= 0) return "";
  if (where != host || (kill(pid, 0) != 0 && errno == ESRCH)) return "";
  return formatted("rank {} (pid {}) goes on without it", rank, pid);
}

}  // namespace cropdl::coord
