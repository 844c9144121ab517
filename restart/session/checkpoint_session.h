// One checkpoint of this rank, from the look at the stopped program to its image; collects the program's
// state from all modules. LH FS base, MAIN while the program is stopped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/local_rank.h"
#include "interpose/boundaries/tracker.h"
#include "interpose/launch/boot.h"
#include "interpose/launch/launch.h"
#include "interpose/libraries/libraries.h"
#include "restart/memory/save_memory.h"
#include "restart/session/metadata.h"
#include "restart/threads/program_threads.h"

namespace cropdl::session {

// What an image records of the job. References to the host's objects, which outlive the session.
struct JobOfRank {
  const launching::Boot& boot;
  const launching::Launch& launch;
  const std::string& program;
  const std::vector<std::string>& arguments;  // without the program's name
  const coord::Schedule& schedule;
  const std::string& keep;
  const uint32_t& processors;  // Metadata::processors
  const libraries::Libraries& libraries;
};

// Serves attempts in sequence; each begins with look().
class CheckpointSession {
 public:
  explicit CheckpointSession(JobOfRank job) : job_(job) {}

  // Examines what must stand still: attributes, descriptors, flags of memory. An error: why the checkpoint is
  // refused. Before anything is drained or written: a refusal costs almost nothing.
  Status look();

  // Runs this rank's stages of a version (docs/saving.md), into an image in `directory`.
  Result<coord::ImageSummary> save(const std::string& directory, const boundaries::Tracker& tracker);

 private:
  // Records and copies what must be taken while all ranks are stopped: in `m` all but the state of the
  // memory, in `memory` its addresses and attributes. `directory`: the version's.
  Status take_snapshot(const std::string& directory, const boundaries::Tracker& tracker, Metadata& m,
                       host_memory::ProgramMemory& memory);
  // Reads the bytes of `memory`, and makes everything durable in `sink`.
  Result<restart::ImageTotals> persist(Metadata& m, host_memory::ProgramMemory& memory,
                                       restart::ChunkSink& sink);

  const JobOfRank job_;
  // From look(), of whose cost they are most; still valid, because a parked thread receives only signals.
  std::vector<program_threads::SavedThread> threads_;
  host_memory::StoppedMemory memory_;
};

}  // namespace cropdl::session
