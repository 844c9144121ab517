#include "interpose/lower/version_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "interpose/lower/machine.h"
#include "interpose/seam/layout.h"

namespace cropdl::lower {
namespace {

// Field 9 of /proc/PID/stat has PF_EXITING (include/linux/sched.h), field 3 is Z or X for what is left
// afterwards.
bool is_ending(long pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string stat((std::istreambuf_iterator<char>(in)), {});
  const size_t end = stat.rfind(')');
  if (end == std::string::npos) return true;
  char state = 0;
  unsigned long flags = 0;
  constexpr unsigned long kExiting = 0x4;
  if (sscanf(stat.c_str() + end + 1, " %c %*d %*d %*d %*d %*d %lu", &state, &flags) != 2) return false;
  return state == 'Z' || state == 'X' || (flags & kExiting) != 0;
}

}  // namespace

Result<restart::Store> open_store(const std::string& directory, const restart::StoreIdentity& identity) {
  for (;;) {
    auto store = restart::Store::open_or_create(directory, identity);
    if (store) return store;
    const auto reader = restart::StoreReader::open(directory);
    if (!reader) return store;
    const auto job = reader->live_job();
    if (!job || job->pid == 0 || job->host != host_name() || !is_ending(job->pid)) return store;
    usleep(20'000);
  }
}

Result<std::string> VersionStore::begin() {
  auto draft = store_.begin_version();
  if (!draft) return draft.error();
  return draft->directory;
}

Result<uint64_t> VersionStore::publish(const std::vector<coord::ImageSummary>& images, double stall_seconds) {
  restart::Manifest m = manifest_;
  m.created = restart::now_utc();
  m.stall_seconds = stall_seconds;
  char cwd[4096];
  if (getcwd(cwd, sizeof cwd) != nullptr) m.cwd = cwd;
  m.images.clear();
  for (const auto& image : images)
    m.images.push_back({image.file, image.bytes, image.memory, image.checksum, host_name()});
  auto number = store_.publish(m);
  if (number) {
    manifest_.parent = *number;
    store_.remove_old_versions(manifest_.job);
  }
  return number;
}

restart::Manifest manifest_of_run(const Launch& launch, const std::string& program,
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
  m.glibc = glibc_version();
  m.kernel = kernel_version();
  m.cpu_features = cpu_features();
  return m;
}

}  // namespace cropdl::lower
