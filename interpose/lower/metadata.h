// What an image says besides memory: JSON, written by save and read by restore. LH.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "coord/schedule.h"
#include "interpose/boundaries/period_finder.h"
#include "interpose/lower/attributes.h"
#include "interpose/lower/clocks.h"
#include "interpose/lower/file_contents.h"
#include "interpose/lower/memory_state.h"
#include "interpose/lower/open_files.h"
#include "interpose/lower/pending_signals.h"
#include "interpose/lower/program_threads.h"
#include "interpose/lower/vector_state.h"

namespace cropdl::lower {

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
  VectorState vector_state;
  std::vector<PendingSignal> pending_signals;  // blocked by the program when it was stopped
  std::vector<OpenFile> files;
  std::vector<FileContent> contents;
  uint64_t save_files = kSaveFilesDefault;
  bool by_reference = false;  // what programs and libraries hold is not saved (cropdl-run --by-reference)
  bool software_gpu = false;  // cropdl-run --software-gpu,
  int software_gpus = 0;      // on how many, or 0: what the restart's environment says
  Clocks clocks;
  AttributeValues attributes;  // those that the program changed
  std::vector<SavedThread> threads;
  MemoryState memory;
};

std::string metadata_text(const Metadata& m);
Result<Metadata> parse_metadata(const std::string& text, const std::string& where);

}  // namespace cropdl::lower
