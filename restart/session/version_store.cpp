#include "restart/session/version_store.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/host.h"
#include "base/time.h"
#include "interpose/seam/layout.h"
#include "restart/process/machine.h"

namespace cropdl::session {

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
  m.glibc = process::glibc_version();
  m.kernel = process::kernel_version();
  m.cpu_features = process::cpu_features();
  return m;
}

}  // namespace cropdl::session
