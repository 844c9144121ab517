// The libraries in this lower half that the program calls through tables, as one: what the rank asks of each
// of them, in the order of their numbers. Threads as in library.h. A program without any is the empty list.
#pragma once

#include "interpose/lower/library.h"

namespace cropdl::lower {

// A file of ours that ld.so gets when it opens one whose name begins so: the real library must not be loaded
// in the upper half, whether or not this lower half has it.
struct StandInFile {
  const char* begins;
  const char* file;  // in the installation
};
std::span<const StandInFile> stand_ins();

class Libraries {
 public:
  // Ascending numbers.
  explicit Libraries(std::vector<Library*> all) : all_(std::move(all)) {}

  Library* by_number(uint32_t number) const;  // nullptr: this process has none
  std::span<Library* const> all() const { return all_; }

  // START.
  Status format() const;   // the persistent heap with what each keeps in it
  Status restart() const;  // the heap is that of the image
  void publish() const;    // their tables, in the control page

  // AGENT.
  void hold() const;
  void set_targets(std::span<const coord::CollectiveCount> targets) const;
  void release() const;
  void fill_standing(coord::Standing& standing) const;
  std::vector<coord::PeerCount> sent() const;
  std::string drain_trouble() const;
  std::optional<Library::Place> place() const;  // of the first that knows

  bool drains_early() const;  // whether one does
  void begin_early_drain() const;
  std::string early_drain_trouble() const;
  void end_early_drain() const;  // AGENT or MAIN

  std::string refusal() const;  // AGENT or MAIN

  // MAIN, while the rank is stopped: of those that are active.
  void progress() const;
  void begin_drain(std::span<const coord::PeerCount> expected) const;
  bool drain_step() const;
  Status quiesce() const;  // the first failure; each is asked
  void resume() const;

 private:
  const std::vector<Library*> all_;
};

// Those that this lower half is linked with (library_list.cpp), and where they come from: each is defined by
// its own folder, and there is one for the process.
std::vector<Library*> libraries_of_this_lower_half();
Library* mpi_library();  // interpose/mpi/lower, once per MPI

}  // namespace cropdl::lower
