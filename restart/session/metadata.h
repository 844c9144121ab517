// An image's metadata, all that it has besides memory: JSON, written by save, read by restore. LH.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/schedule.h"
#include "interpose/boundaries/period_finder.h"
#include "restart/files/file_contents.h"
#include "restart/files/open_files.h"
#include "restart/memory/memory_state.h"
#include "restart/process/attributes.h"
#include "restart/process/clocks.h"
#include "restart/process/vector_state.h"
#include "restart/threads/pending_signals.h"
#include "restart/threads/program_threads.h"

namespace cropdl::session {

// A library that the program called (library.h).
struct SavedLibrary {
  uint32_t number = 0;                      // seam::LibraryNumber
  uint32_t functions = 0;                   // size of its table; the image's shim knows no more functions
  std::string implementation;               // "openmpi", "mpich"
  std::vector<std::string> only_functions;  // used functions that other implementations lack
  uint32_t recipes = 0;                     // Library::recipes(); for a family, at its first table
  static constexpr const char* kMembers[] = {"number", "functions", "implementation", "only_functions",
                                             "?recipes"};
};

// A collective in an iteration (boundaries::Call), with the function's name.
struct LoopCall {
  uint64_t call = 0;
  std::string function;
  uint64_t communicator = 0;  // the communicator's identity
  uint64_t caller = 0;        // return address
  uint64_t outer = 0;         // return address of the function that calls; 0: unknown
  static constexpr const char* kMembers[] = {"call", "function", "communicator", "caller", "?outer"};
};

struct Metadata {
  uint32_t rank = 0, ranks = 1;
  std::string program, cwd, name;  // name: from prctl(PR_GET_NAME)
  files::FileIdentity cwd_identity;
  std::optional<bool> cwd_is_mount_root;  // nullopt: unknown
  std::vector<std::string> arguments;
  uint32_t umask = 022;
  uint64_t stack_limit = 0;  // RLIMIT_STACK, bytes; 0: unknown
  coord::Schedule schedule;
  std::string keep;                            // cropdl-run --keep; "": not given
  boundaries::PeriodFinder::Place iterations;  // of the main loop; empty pattern: none known
  std::vector<LoopCall> iteration;             // collectives of one iteration; empty: unknown
  std::vector<SavedLibrary> libraries;
  std::vector<std::string> cpu_features;
  uint32_t processors = 0;  // possible ones of the machine that the program began on; 0: unknown
  process::VectorState vector_state;
  std::vector<program_threads::PendingSignal> pending_signals;  // pending because the program blocked them
  std::vector<files::OpenFile> files;
  std::vector<files::FileContent> contents;
  uint64_t save_files = files::kSaveFilesDefault;
  bool by_reference = false;   // cropdl-run --by-reference: do not save contents of program and library files
  bool compress = false;       // cropdl-run --compress
  bool software_gpu = false;   // cropdl-run --software-gpu
  int software_gpus = 0;       // number of software GPUs; 0: from the restart's environment
  bool software_nccl = false;  // cropdl-run --software-nccl
  process::Clocks clocks;
  std::vector<process::IntervalTimer> interval_timers;  // those that run
  process::AttributeValues attributes;                  // only those that the program changed
  std::vector<program_threads::SavedThread> threads;
  host_memory::MemoryState memory;
};
template <class Visit>
void list_members(Metadata& m, Visit&& member) {  // without those that metadata.cpp converts
  member("rank", m.rank);
  member("ranks", m.ranks);
  member("program", m.program);
  member("cwd", m.cwd);
  member.since("cwd_identity", m.cwd_identity);
  member("name", m.name);
  member("arguments", m.arguments);
  member("umask", m.umask);
  member.since("stack_limit", m.stack_limit);
  member.since("keep", m.keep);
  member.since("iteration", m.iteration);
  member("libraries", m.libraries);
  member("cpu_features", m.cpu_features);
  member.since("processors", m.processors);
  member.since("vector_state", m.vector_state);
  member("pending_signals", m.pending_signals);
  member("files", m.files);
  member("contents", m.contents);
  member("save_files", m.save_files);
  member("by_reference", m.by_reference);
  member.since("compress", m.compress);
  member.since("software_gpu", m.software_gpu);
  member.since("software_gpus", m.software_gpus);
  member.since("software_nccl", m.software_nccl);
  member("clocks", m.clocks);
  member.since("interval_timers", m.interval_timers);
  member("attributes", m.attributes);
  member("threads", m.threads);
  member("memory", m.memory);
}

std::string metadata_text(const Metadata& m);
Result<Metadata> parse_metadata(const std::string& text, const std::string& where);

}  // namespace cropdl::session
