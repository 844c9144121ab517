// Rank 0's store: taken over from a job that is ending, and the coordinator's VersionSink. LH.
#pragma once

#include <functional>
#include <string>

#include "coord/version_sink.h"
#include "interpose/launch/launch.h"
#include "restart/store.h"

namespace cropdl::session {

// How long another process may hold the lock.
struct LockWait {
  double grace_seconds = 2;  // after its launcher dies, a job's ranks end a little later
  // The kernel frees a process's memory, perhaps gigabytes, before it drops the lock.
  double ending_seconds = 60;
  double say_after_seconds = 1;
  std::function<void(const std::string&)> say;  // prints one line for people during a long wait
};

// As Store::open_or_create, but waits for an earlier job that is ending. START.
Result<restart::Store> open_store(const std::string& directory, const restart::StoreIdentity& identity,
                                  const LockWait& wait, const restart::StoreOptions& options = {});

// Agent's and publisher's threads.
class VersionStore final : public coord::VersionSink {
 public:
  // `manifest`: the fields that are the same for all versions of this run.
  VersionStore(restart::Store store, restart::Manifest manifest)
      : store_(std::move(store)), manifest_(std::move(manifest)), job_(manifest_.job) {}

  Result<std::string> begin() override;
  Result<uint64_t> publish(const coord::NewVersion& version) override;
  void discard() override { store_.discard(); }
  Status tidy() override { return store_.remove_old_versions(job_); }
  Result<double> measure_disk(const std::stop_token& stop) override;
  Status set_aside() override { return store_.set_old_versions_aside(job_); }

  const std::string& job() const { return job_; }
  // Sets the version that this run was restarted from.
  void set_parent(uint64_t version) {
    manifest_.parent = version;
    manifest_.restarted = true;
  }

 private:
  restart::Store store_;
  restart::Manifest manifest_;
  const std::string job_;  // manifest_.job; a copy, as tidy()'s thread must not read manifest_
};

// The manifest fields that are the same for all versions of this run.
restart::Manifest manifest_of_run(const launching::Launch& launch, const std::string& program,
                                  const std::vector<std::string>& arguments, const std::string& mpi_name,
                                  const std::string& mpi_version);

}  // namespace cropdl::session
