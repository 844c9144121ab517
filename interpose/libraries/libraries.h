// The libraries in this lower half that the program calls through tables, as one: what the rank asks of each
// of them, in the order of their numbers. Threads as in library.h. A program without any is the empty list.
#pragma once

#include "interpose/counting/agreement.h"
#include "interpose/libraries/library.h"

namespace cropdl::libraries {

// A file of ours that ld.so gets when it opens one whose name begins so: the real library must not be loaded
// in the upper half, whether or not this lower half has it.
struct StandInFile {
  const char* begins;
  const char* file;  // in the installation
  // Of a device: in the place of a file that is there, so that a program which asks whether the library is
  // there learns the truth; of one version: not of libcublas.so.12 by the row of libcublas.so.13.
  enum Of { kAnything, kDevice, kDeviceOfOneVersion } of = kAnything;
};
std::span<const StandInFile> stand_ins();

class Libraries final : public counting::Source {
 public:
  // Ascending numbers.
  explicit Libraries(std::vector<Library*> all) : all_(std::move(all)) {}

  Library* by_number(uint32_t number) const;                             // nullptr: this process has none
  std::optional<Library::Table> table(uint32_t number) const;            // of any library
  std::string function_name(uint32_t library, uint32_t function) const;  // "": it has none
  std::span<Library* const> all() const { return all_; }

  // START.
  Status format() const;   // the persistent heap with what each keeps in it
  Status restart() const;  // the heap is that of the image
  Status load_contents(const restart::ImageReader& image) const;
  void publish() const;  // their tables, in the control page
  void prepare(const launching::Boot& boot) const;

  bool follow_objects() const;                       // whether one does
  Status look_at(const LoadedObject& object) const;  // as Library::look_at

  // AGENT. A hold and its targets are one for all (counting/agreement.h).
  void hold() const { counting::hold(*this); }
  void fill_status(coord::RankStatus& status) const;
  void add_counts(std::vector<coord::CollectiveCount>& counts,
                  uint64_t (*target)(uint64_t identity)) const override;
  std::vector<coord::PeerCount> sent() const;
  std::string drain_trouble() const;
  std::optional<Library::Place> place() const;  // of the first that knows

  bool drains_early() const;  // whether one does
  void begin_early_drain() const;
  std::string early_drain_trouble() const;
  void end_early_drain() const;  // AGENT or MAIN
  std::string stop_trouble(int64_t since) const;
  uint64_t memory_in_use() const;

  std::string refusal() const;    // AGENT or MAIN
  bool open_descriptors() const;  // MAIN. Whether one may

  // MAIN, while the rank is stopped: of those that are active.
  void progress() const;
  void drive(seam::LibraryNumber held_in) const override;  // a held thread
  void begin_drain(std::span<const coord::PeerCount> expected) const;
  bool drain_step() const;
  Status quiesce() const;  // the first failure; each is asked
  void resume() const;
  void announce_end() const;
  Status save_contents(restart::ChunkSink& sink) const;
  uint64_t content_bytes() const;
  std::string devices() const;

 private:
  const std::vector<Library*> all_;
};

// Those that this lower half is linked with (library_list.cpp), and where they come from: each is defined by
// its own folder, and there is one for the process.
std::vector<Library*> libraries_of_this_lower_half();
Library* mpi_library();   // interpose/mpi/lower, once per MPI
Library* cuda_library();  // interpose/cuda/lower

}  // namespace cropdl::libraries
