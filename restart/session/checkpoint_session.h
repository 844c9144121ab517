// One checkpoint of this rank, from the first look at the stopped program to its image: what the program
// consists of, from all who know a part of it. LH FS base, MAIN while the program is stopped.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/local_rank.h"
#include "interpose/boundaries/tracker.h"
#include "interpose/launch/boot.h"
#include "interpose/launch/launch.h"
#include "interpose/libraries/libraries.h"
#include "restart/memory/memory_map.h"
#include "restart/session/metadata.h"
#include "restart/threads/program_threads.h"

namespace cropdl::session {

// What an image says of the job; the host's own, which outlive the session.
struct JobOfRank {
  const launching::Boot& boot;
  const launching::Launch& launch;
  const std::string& program;
  const std::vector<std::string>& arguments;  // without the program's name
  const coord::Schedule& schedule;
  const std::string& keep;
  const libraries::Libraries& libraries;
};

// Serves one attempt after the other: each begins with look().
class CheckpointSession {
 public:
  explicit CheckpointSession(JobOfRank job) : job_(job) {}

  // What has to stand still to be told: attributes, descriptors, flags of memory. "" or one line naming what
  // stands in the way of a checkpoint. Before anything is drained or written, so that a refusal costs the job
  // next to nothing.
  std::string look();

  // The stages of this rank's part of a version one after the other (docs/saving.md), to an image in the
  // directory. `tracker`: where the program is in its iterations.
  Result<coord::ImageSummary> save(const std::string& directory, const boundaries::Tracker& tracker);

 private:
  struct Snapshot {
    Metadata metadata;                  // all but the memory's state
    host_memory::ProgramMemory memory;  // where it is, and what else to know of it; persist() reads its bytes
  };
  // What has to be noted, and copied, while nothing runs: all ranks have stopped. `directory`: the version's.
  Result<Snapshot> take_snapshot(const std::string& directory, const boundaries::Tracker& tracker);
  // Reads the memory where the snapshot says it is, and makes all of it durable in `sink`.
  Result<restart::ImageTotals> persist(Snapshot& snapshot, restart::ChunkSink& sink);
  bool stays_as_it_is(const host_memory::MappedFile& file, const std::set<std::string>& code,
                      const std::vector<files::FileContent>& written) const;

  const JobOfRank job_;
  // Of this stop, since nothing but a signal comes to a thread that is parked; most of what a look costs.
  std::vector<program_threads::SavedThread> threads_;
};

}  // namespace cropdl::session
