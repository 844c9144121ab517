#include "restart/session/version_store.h"

#include <gnu/libc-version.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/file.h"
#include "base/format.h"
#include "base/host.h"
#include "base/procfs.h"
#include "base/time.h"
#include "interpose/seam/layout.h"
#include "restart/process/machine.h"

namespace cropdl::session {
namespace {

bool is_ending(long pid) {
  // Field 9 has PF_EXITING and PF_SIGNALED (include/linux/sched.h). Field 3 is Z or X after the end.
  constexpr unsigned long kExiting = 0x4, kSignaled = 0x400;
  const std::vector<std::string> stat = process_stat(std::to_string(pid));
  if (stat.empty()) return true;  // gone
  if (stat.size() >= 10 && (stat[3] == "Z" || stat[3] == "X" ||
                            (strtoul(stat[9].c_str(), nullptr, 10) & (kExiting | kSignaled)) != 0))
    return true;
  // A pending SIGKILL takes effect when the thread leaves the kernel (SigPnd, ShdPnd: man 5 proc).
  const std::string status = kernel_text(formatted("/proc/{}/status", pid));
  const uint64_t pending = status_bits(status, "SigPnd") | status_bits(status, "ShdPnd");
  return (pending >> (SIGKILL - 1) & 1) != 0;
}

}  // namespace

Result<restart::Store> open_store(const std::string& directory, const restart::StoreIdentity& identity,
                                  const LockWait& wait, const restart::StoreOptions& options) {
  const auto waited = [begin = monotonic_us()] { return in_seconds(monotonic_us() - begin); };
  for (bool said = false;; usleep(20'000)) {
    bool in_use;
    auto store = restart::Store::open_or_create(directory, identity, options, &in_use);
    if (store || !in_use) return store;
    const auto reader = restart::StoreReader::open(directory);
    if (!reader) return store;
    const auto job = reader->live_job();
    if (!job) return store;
    if (job->pid == 0 && waited() < wait.ending_seconds) continue;  // the job has ended meanwhile
    const bool ending = job->host == host_name() && is_ending(job->pid);
    if (waited() > (ending ? wait.ending_seconds : wait.grace_seconds)) {
      if (!ending) return store;
      return Error{
          "store {}: the former job's process {} has been killed, but has not ended within {} s; "
          "try again when it is gone",
          directory, job->pid, static_cast<int>(wait.ending_seconds)};
    }
    if (ending && !said && waited() > wait.say_after_seconds) {
      said = true;
      wait.say(formatted("store {}: waiting for the former job's process {}, which has been killed, to end",
                         directory, job->pid));
    }
  }
}

Result<std::string> VersionStore::begin() {
  auto draft = store_.begin_version();
  if (!draft) return draft.error();
  return draft->directory;
}

Result<uint64_t> VersionStore::publish(const coord::NewVersion& version) {
  restart::Manifest m = manifest_;
  m.created = utc_now();
  m.stall_seconds = version.stall_seconds;
  m.wait_seconds = version.wait_seconds;
  m.stages = {version.stopping_seconds, version.draining_seconds, 0};
  for (const auto& image : version.images) m.stages.syncing = std::max(m.stages.syncing, image.sync_seconds);
  char cwd[4096];
  if (getcwd(cwd, sizeof cwd) != nullptr) m.cwd = cwd;
  m.images.clear();
  for (const auto& image : version.images)
    m.images.push_back({image.file, image.bytes, image.memory, image.checksum, host_name(),
                        image.device_memory, image.devices, image.iteration});
  auto number = store_.publish(m);
  if (number) {
    manifest_.parent = *number;
    manifest_.restarted = false;
  }
  return number;
}

// Writes little, and not to a disk that is nearly full: the program may be writing to it.
Result<double> VersionStore::measure_disk(const std::stop_token& stop) {
  constexpr uint64_t kWritten = 128 << 20, kStaysFree = 1 << 30;
  struct statvfs disk {};
  if (statvfs(store_.directory().c_str(), &disk) != 0) return Error{errno_text(errno)};
  if (uint64_t{disk.f_bavail} * disk.f_frsize < kWritten + kStaysFree) return Error{errno_text(ENOSPC)};
  return restart::measure_disk(store_.directory(), kWritten, stop);
}

restart::Manifest manifest_of_run(const launching::Launch& launch, const std::string& program,
                                  const std::vector<std::string>& arguments, const std::string& mpi_name,
                                  const std::string& mpi_version) {
  restart::Manifest m;
  m.seam = seam::kSeamVersion;
  m.ranks = launch.ranks;
  m.program = program;
  m.args = arguments;
  m.mpi_name = mpi_name;
  m.mpi_version = mpi_version;
  m.launcher = launch.launcher;
  m.launcher_options = launch.options;
  m.glibc = gnu_get_libc_version();
  utsname u{};
  uname(&u);
  m.kernel = u.release;
  m.cpu_features = process::cpu_features();
  return m;
}

}  // namespace cropdl::session
