// What an image says besides memory: JSON, written by save and read by restore. LH.
#pragma once

#include <cstdint>
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
  uint32_t functions = 0;                   // in its table; the image's shim knows no more
  std::string implementation;               // "openmpi", "mpich"
  std::vector<std::string> only_functions;  // used, and unknown to its other implementations
  uint32_t recipes = 0;                     // Library::recipes(); of a family at its first table
};

// A collective of an iteration (boundaries::Call), and the function's name.
struct LoopCall {
  uint64_t call = 0;
  std::string function;
  uint64_t communicator = 0;  // its identity
  uint64_t caller = 0;        // return address
};

struct Metadata {
  uint32_t rank = 0, ranks = 1;
  std::string program, cwd, name;  // name: what prctl(PR_GET_NAME) says
  std::vector<std::string> arguments;
  uint32_t umask = 022;
  uint64_t stack_limit = 0;  // RLIMIT_STACK, bytes; 0: not known
  coord::Schedule schedule;
  std::string keep;                            // cropdl-run --keep, "": it was not given
  boundaries::PeriodFinder::Place iterations;  // of the main loop; none are known: its pattern is empty
  std::vector<LoopCall> iteration;             // what one consists of; empty: not known
  std::vector<SavedLibrary> libraries;
  std::vector<std::string> cpu_features;
  process::VectorState vector_state;
  std::vector<program_threads::PendingSignal> pending_signals;  // blocked by the program when it was stopped
  std::vector<files::OpenFile> files;
  std::vector<files::FileContent> contents;
  uint64_t save_files = files::kSaveFilesDefault;
  bool by_reference = false;  // what programs and libraries hold is not saved (cropdl-run --by-reference)
  bool software_gpu = false;  // cropdl-run --software-gpu,
  int software_gpus = 0;      // on how many, or 0: what the restart's environment says
  process::Clocks clocks;
  process::AttributeValues attributes;  // those that the program changed
  std::vector<program_threads::SavedThread> threads;
  host_memory::MemoryState memory;
};

std::string metadata_text(const Metadata& m);
Result<Metadata> parse_metadata(const std::string& text, const std::string& where);

}  // namespace cropdl::session
