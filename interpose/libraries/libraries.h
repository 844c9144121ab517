// All libraries of this lower half as one object: each call goes to every library, in the order of their
// numbers. Threads as in library.h. The list may be empty.
#pragma once

#include <algorithm>

#include "interpose/counting/agreement.h"
#include "interpose/libraries/library.h"

namespace cropdl::libraries {

// A file of CropDL that ld.so gets when it opens a file whose name begins with `begins`. The real library
// must not be loaded in the upper half, even if this lower half does not have the library.
struct StandInFile {
  const char* begins;
  const char* file;  // in the installation
  // kDevice: only if the real file exists, so that a program sees whether the library is installed.
  // kDeviceOfOneVersion: also only for that version (libcublas.so.13 is not libcublas.so.12).
  enum Of { kAnything, kDevice, kDeviceOfOneVersion } of = kAnything;
};
std::span<const StandInFile> stand_ins();

class Libraries final : public counting::Source {
 public:
  // `all`: in ascending order of their numbers.
  explicit Libraries(std::vector<Library*> all) : all_(std::move(all)) {}

  Library* by_number(uint32_t number) const;                             // nullptr: not in this process
  std::optional<Library::Table> table(uint32_t number) const;            // of any library
  std::string function_name(uint32_t library, uint32_t function) const;  // "": no name
  std::span<Library* const> all() const { return all_; }

  // START.
  Status format() const;   // formats the persistent heap, then each library's part of it
  Status restart() const;  // checks the image's heap first
  Status load_contents(const restart::ImageReader& image) const;
  void publish() const;  // puts the tables into the control page
  void prepare(const launching::Boot& boot) const {
    for (Library* l : all_) l->prepare(boot);
  }

  bool follow_objects() const { return any(&Library::follows_objects); }
  Status look_at(const LoadedObject& object) const;  // as Library::look_at

  // AGENT. All libraries share one hold and one set of targets (counting/agreement.h).
  void hold() const { counting::hold(*this); }
  void fill_status(coord::RankStatus& status) const;
  void add_counts(std::vector<coord::CollectiveCount>& counts,
                  uint64_t (*target)(uint64_t identity)) const override;
  std::vector<coord::PeerCount> sent() const;
  std::string drain_trouble() const { return first_line(&Library::drain_trouble); }
  std::optional<Library::Place> place() const;  // from the first library that knows it

  bool met_others() const { return any(&Library::met_others); }

  bool drains_early() const;  // whether any active library does
  void begin_early_drain() const;
  std::string early_drain_trouble() const { return first_line(&Library::early_drain_trouble); }
  void end_early_drain() const {  // AGENT or MAIN
    for (Library* l : all_) l->end_early_drain();
  }
  std::string stop_trouble(int64_t since) const { return first_line(&Library::stop_trouble, since); }
  uint64_t memory_in_use() const { return sum_of_used(&Library::memory_in_use); }

  std::string refusal() const { return first_line(&Library::refusal); }  // AGENT or MAIN
  // MAIN. Whether a library in use may open descriptors.
  bool open_descriptors() const { return any(&Library::used); }

  // MAIN, while the rank is stopped. Contents and devices: of libraries in use; the others: active libraries.
  void progress() const { each_active(&Library::progress); }
  void drive(seam::LibraryNumber held_in) const override;  // called by a held thread
  void begin_drain(std::span<const coord::PeerCount> expected) const {
    each_active(&Library::begin_drain, expected);
  }
  bool drain_step() const;
  Status quiesce() const;  // calls every library, even after a failure; returns the first failure
  void resume() const { each_active(&Library::resume); }
  void announce_end() const { each_active(&Library::announce_end); }
  Status save_contents(restart::ChunkSink& sink) const;
  uint64_t content_bytes() const { return sum_of_used(&Library::content_bytes); }
  std::string devices() const;

 private:
  bool any(bool (Library::*of)()) const { return std::ranges::any_of(all_, of); }

  template <class Of, class... A>
  std::string first_line(Of of, const A&... values) const {
    for (Library* l : all_)
      if (std::string line = (l->*of)(values...); !line.empty()) return line;
    return "";
  }

  template <class Of, class... A>
  void each_active(Of of, const A&... values) const {
    for (Library* l : all_)
      if (l->active()) (l->*of)(values...);
  }

  uint64_t sum_of_used(uint64_t (Library::*of)()) const {
    uint64_t sum = 0;
    for (Library* l : all_)
      if (l->used()) sum += (l->*of)();
    return sum;
  }

  const std::vector<Library*> all_;
};

// The libraries that this lower half is linked with (library_list.cpp).
std::vector<Library*> libraries_of_this_lower_half();

// One object per process, defined in the library's folder.
Library* mpi_library();   // interpose/mpi/lower, compiled once per MPI
Library* cuda_library();  // interpose/cuda/lower

}  // namespace cropdl::libraries
